package pgstore

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/postgres"
)

// register registers the metrics that Open lists.
func register(r prometheus.Registerer, pool *postgres.Pool) {
	auto := promauto.With(r)
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "activities_pool_size", Help: "Connections to the database at most."},
		func() float64 { return float64(pool.Stat().MaxConns()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "activities_pool_in_use", Help: "Connections that are lent."},
		func() float64 { return float64(pool.Stat().AcquiredConns()) })
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "activities_pool_waiting", Help: "Requests that wait for a connection."},
		func() float64 { return float64(pool.Waiting()) })
	auto.NewCounterFunc(prometheus.CounterOpts{Name: "activities_pool_wait_seconds_total", Help: "Time that was waited for a connection."},
		func() float64 { return pool.Stat().EmptyAcquireWaitTime().Seconds() })
}
