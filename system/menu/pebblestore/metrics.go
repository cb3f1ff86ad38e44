package pebblestore

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// register registers the metrics of pebble that explain a look-up's time, without labels:
//
//	menu_pebble_cache_hits_total    blocks that were found in the cache
//	menu_pebble_cache_misses_total  blocks that were read, checked and decompressed
//	menu_pebble_disk_bytes          gauge: what is on the disk
func register(r prometheus.Registerer, s *Store) {
	read := func(value func(*pebble.Metrics) float64) func() float64 {
		return func() float64 {
			s.mu.RLock()
			defer s.mu.RUnlock()
			if s.usable() != nil {
				return 0
			}
			return value(s.db.Metrics())
		}
	}
	r.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "menu_pebble_cache_hits_total", Help: "Blocks that were found in the cache.",
		}, read(func(m *pebble.Metrics) float64 { return float64(m.BlockCache.Hits) })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "menu_pebble_cache_misses_total", Help: "Blocks that were read, checked and decompressed.",
		}, read(func(m *pebble.Metrics) float64 { return float64(m.BlockCache.Misses) })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "menu_pebble_disk_bytes", Help: "What is on the disk.",
		}, read(func(m *pebble.Metrics) float64 { return float64(m.DiskSpaceUsage()) })),
	)
}
