package pgstore

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/postgres"
)

// register registers the metrics that Open lists.
func register(r prometheus.Registerer, pool *postgres.Pool) error {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		gauge("activities_pool_size", "Connections to the database at most.",
			func() float64 { return float64(pool.Stat().MaxConns()) }),
		gauge("activities_pool_in_use", "Connections that are lent.",
			func() float64 { return float64(pool.Stat().AcquiredConns()) }),
		gauge("activities_pool_waiting", "Requests that wait for a connection.",
			func() float64 { return float64(pool.Waiting()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "activities_pool_wait_seconds_total", Help: "Time that was waited for a connection.",
		}, func() float64 { return pool.Stat().EmptyAcquireWaitTime().Seconds() }),
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register metrics of the pool: %w", err)
	}
	return nil
}
