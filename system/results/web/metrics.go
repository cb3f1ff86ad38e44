package web

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics count pages.
//
//	results_web_pages_total             by page, see designs: the label is closed
//	results_web_page_duration_seconds   from the whole request being read to the
//	                                    page being ready to be sent, look-up included
//	results_web_panics_total            each is also a page "down"
//	results_web_damaged_total           found students whose JSON could not be
//	                                    read; each is also a page "down"
type metrics struct {
	pages   [pageCount]prometheus.Counter
	seconds prometheus.Histogram
	panics  prometheus.Counter
	damaged prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	auto := promauto.With(r)
	m := &metrics{
		seconds: auto.NewHistogram(prometheus.HistogramOpts{
			Name: "results_web_page_duration_seconds", Help: "Time in the handler of pages.",
			// From well below one page to what a reader would wait at most.
			Buckets: []float64{50e-6, 100e-6, 250e-6, 1e-3, 2.5e-3, 10e-3, 25e-3, 100e-3, 250e-3, 1, 2.5, 10},
		}),
		panics: auto.NewCounter(prometheus.CounterOpts{
			Name: "results_web_panics_total", Help: "Pages whose making panicked.",
		}),
		damaged: auto.NewCounter(prometheus.CounterOpts{
			Name: "results_web_damaged_total", Help: "Found students whose JSON could not be read.",
		}),
	}
	byPage := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "results_web_pages_total", Help: "Pages shown, by page.",
	}, []string{"page"})
	for p := range designs {
		m.pages[p] = byPage.WithLabelValues(designs[p].name)
	}
	return m
}
