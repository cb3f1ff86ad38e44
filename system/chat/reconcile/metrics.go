package reconcile

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/service"
)

// serve serves the metrics until stop: whoever watches reads them after the last message, too.
func (r *reconciler) serve(ctx context.Context) (stop func() error, err error) {
	registry := prometheus.NewRegistry()
	r.register(registry)
	return service.ServeAdmin(ctx, r.cfg.AdminListen, registry)
}

// register registers gauges:
//
//	reconcile_acked, reconcile_stored        messages; stored once they were looked for
//	reconcile_logged, reconcile_kept         messages, whoever said them, once they were looked for
//	reconcile_analysed, reconcile_dead       of whole logs, as viewers were told, once they were looked for
//	reconcile_delivered, reconcile_skipped   messages to one viewer each
//	reconcile_violations                     what is wrong
//	reconcile_viewers                        viewers that are there
//	reconcile_away_seconds                   the longest time that one was not
//	reconcile_balanced                       1 once all was compared, nothing is wrong and nothing was refused; else 0
func (r *reconciler) register(registry prometheus.Registerer) {
	auto := promauto.With(registry)
	for name, value := range map[string]func(Count) float64{
		"acked":        func(c Count) float64 { return float64(c.Acked) },
		"stored":       func(c Count) float64 { return float64(c.Stored) },
		"logged":       func(c Count) float64 { return float64(c.Logged) },
		"kept":         func(c Count) float64 { return float64(c.Kept) },
		"analysed":     func(c Count) float64 { return float64(c.Analysed) },
		"dead":         func(c Count) float64 { return float64(c.Dead) },
		"delivered":    func(c Count) float64 { return float64(c.Delivered) },
		"skipped":      func(c Count) float64 { return float64(c.Skipped) },
		"violations":   func(c Count) float64 { return float64(c.Wrong) },
		"viewers":      func(Count) float64 { return float64(r.here.Load()) },
		"away_seconds": func(c Count) float64 { return c.Away.Seconds() },
		"balanced": func(c Count) float64 {
			if r.checked.Load() && c.Balanced() {
				return 1
			}
			return 0
		},
	} {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "reconcile_" + name, Help: "See package reconcile."}, func() float64 { return value(r.now()) })
	}
}
