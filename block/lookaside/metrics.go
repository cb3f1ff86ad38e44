package lookaside

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// How requests for a lease end.
const (
	leaseGranted = iota
	leaseFound
	leaseWaitedOut
	leaseLost
	leasePast
	leaseFailed
)

// How fills and refreshes end.
const (
	fillDone = iota
	fillRefused
	fillFailed
)

const (
	refreshDone = iota
	refreshFailed
	refreshSkipped
)

// What becomes of writes.
const (
	changeBegun = iota
	changeRefused
	changeKept
	changeDropped
	changeFailed
	changeRetold
)

// metrics are those of one cache, with its name as the label cache:
//
//	cache_gets_total{tier,result}       look-ups in Redis, the tier shared as in block/cache:
//	                                    hit, hit_absent (which says so), miss, lease (a miss
//	                                    that another fills), changing, foreign, down (Redis was
//	                                    not asked), failed; in the tier spare, hit
//	lookaside_leases_total{outcome}     granted, found (after waiting for another's), waited_out,
//	                                    lost (another has the one waited for), changing, failed
//	lookaside_fills_total{outcome}      done, refused (changed meanwhile), failed; refreshes too
//	lookaside_refreshes_total{outcome}  done, failed, skipped (no slot)
//	lookaside_changes_total{outcome}    begun, refused (Redis was not told); kept, dropped (left
//	                                    to the next fill), failed; retold (Redis forgot the key later)
//	lookaside_changes_owed              keys that Redis is to be told of again
type metrics struct {
	gets         [kindMarker + 1]prometheus.Counter
	down, failed prometheus.Counter
	spared       prometheus.Counter
	leases       [leaseFailed + 1]prometheus.Counter
	fills        [fillFailed + 1]prometheus.Counter
	refreshes    [refreshSkipped + 1]prometheus.Counter
	changes      [changeRetold + 1]prometheus.Counter
}

func newMetrics(name string, to prometheus.Registerer, owed func() int) *metrics {
	auto, m := promauto.With(to), &metrics{}
	labels := prometheus.Labels{"cache": name}
	counters := func(family, help string, outcomes ...string) []prometheus.Counter {
		vec := auto.NewCounterVec(prometheus.CounterOpts{Name: family, Help: help, ConstLabels: labels}, []string{"outcome"})
		made := make([]prometheus.Counter, len(outcomes))
		for i, outcome := range outcomes {
			made[i] = vec.WithLabelValues(outcome)
		}
		return made
	}
	// As block/cache has it, for both may be in one process.
	gets := auto.NewCounterVec(prometheus.CounterOpts{Name: "cache_gets_total", Help: "Look-ups in a tier.", ConstLabels: labels}, []string{"tier", "result"})
	for kind, result := range [...]string{kindNone: "miss", kindForeign: "foreign", kindValue: "hit", kindAbsent: "hit_absent", kindLease: "lease", kindMarker: "changing"} {
		m.gets[kind] = gets.WithLabelValues("shared", result)
	}
	m.down, m.failed = gets.WithLabelValues("shared", "down"), gets.WithLabelValues("shared", "failed")
	m.spared = gets.WithLabelValues("spare", "hit")
	copy(m.leases[:], counters("lookaside_leases_total", "Requests for a lease.", "granted", "found", "waited_out", "lost", "changing", "failed"))
	copy(m.fills[:], counters("lookaside_fills_total", "Fills and refreshes of entries.", "done", "refused", "failed"))
	copy(m.refreshes[:], counters("lookaside_refreshes_total", "Refreshes behind look-ups.", "done", "failed", "skipped"))
	copy(m.changes[:], counters("lookaside_changes_total", "Writes that the cache was told of.", "begun", "refused", "kept", "dropped", "failed", "retold"))
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "lookaside_changes_owed", Help: "Keys that the cache is to be told of again.", ConstLabels: labels},
		func() float64 { return float64(owed()) })
	return m
}
