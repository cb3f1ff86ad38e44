package httpapi

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/system/results"
	"loadstone/system/results/httpapi/guard"
)

// metrics are those of results, beside route.Requests, which does not count probes and
// Decide.
//
//	results_store_failures_total     look-ups, those of Decide and Run included
//	results_refused_total            by reason: rate_limited, locked_out (each
//	                                 also counted as status 429), embargoed (403),
//	                                 overloaded (503); pages' (Decide) included
//	results_limits_alone_total       calls for which the limits' Redis was away; only
//	                                 with peers
//	results_guard_forgotten_total    by table: addresses, pairs, ids; entries
//	                                 that still counted and made room, see
//	                                 package guard; only with limits
type metrics struct {
	failures prometheus.Counter
	refused  map[*results.Error]prometheus.Counter
}

// newMetrics registers all metrics; g and peers may be nil.
func newMetrics(to prometheus.Registerer, g *guard.Guard, peers *guard.Peers) *metrics {
	auto := promauto.With(to)
	refusals := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "results_refused_total", Help: "Requests refused before a result was looked up or shown, by reason.",
	}, []string{"reason"})
	m := &metrics{
		failures: auto.NewCounter(prometheus.CounterOpts{
			Name: "results_store_failures_total", Help: "Look-ups that failed, not counting unknown ids.",
		}),
		refused: make(map[*results.Error]prometheus.Counter),
	}
	for _, e := range []*results.Error{results.ErrRateLimited, results.ErrLockedOut, results.ErrEmbargoed, results.ErrOverloaded} {
		m.refused[e] = refusals.WithLabelValues(e.Code)
	}
	forgotten := func(table string, value func() uint64) {
		auto.NewCounterFunc(prometheus.CounterOpts{
			Name: "results_guard_forgotten_total", Help: "Entries of the limits' tables that still counted and made room for others.",
			ConstLabels: prometheus.Labels{"table": table},
		}, func() float64 { return float64(value()) })
	}
	if g != nil {
		forgotten("addresses", func() uint64 { n, _, _ := g.Forgotten(); return n })
		forgotten("pairs", func() uint64 { _, n, _ := g.Forgotten(); return n })
		forgotten("ids", func() uint64 { _, _, n := g.Forgotten(); return n })
	}
	if peers != nil {
		auto.NewCounterFunc(prometheus.CounterOpts{
			Name: "results_limits_alone_total", Help: "Calls to share limits that Redis did not answer.",
		}, func() float64 { return float64(peers.Alone()) })
	}
	return m
}
