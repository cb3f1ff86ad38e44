package reconcile

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/service"
)

// serve serves the metrics, which whoever watches reads until the last event is
// found: so until stop, and not until ctx ends.
func (r *reconciler) serve(ctx context.Context) (stop func() error, err error) {
	registry := prometheus.NewRegistry()
	r.register(registry)
	return service.ServeAdmin(ctx, r.cfg.AdminListen, registry)
}

func (r *reconciler) register(registry prometheus.Registerer) {
	auto := promauto.With(registry)
	for name, value := range map[string]func(Count) int64{
		"accepted": func(c Count) int64 { return c.Accepted },
		"stored":   func(c Count) int64 { return c.Stored },
		"missing":  func(c Count) int64 { return c.Missing },
	} {
		auto.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "reconcile_" + name, Help: "Events of the reconciliation that are " + name + ".",
		}, func() float64 { return float64(value(r.now())) })
	}
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "reconcile_balanced", Help: "1 once all events were sent and found in the store, and while they are.",
	}, func() float64 {
		if r.balanced() {
			return 1
		}
		return 0
	})
}
