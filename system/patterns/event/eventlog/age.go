package eventlog

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// ageWindow is how long an observation counts.
const ageWindow = 10 * time.Second

// age exports how old events are when they are stored, as gauges: a gauge can be
// followed second by second, where a histogram's quantile has to be computed.
type age struct {
	summary prometheus.Summary
	gauges  map[float64]*prometheus.Desc
}

func newAge() *age {
	gauges := map[float64]*prometheus.Desc{}
	for quantile, name := range map[float64]string{0.5: "p50", 0.95: "p95", 0.99: "p99"} {
		gauges[quantile] = prometheus.NewDesc("eventlog_age_"+name+"_seconds", "From an event's acceptance to its being on disk, over ten seconds.", nil, nil)
	}
	return &age{
		summary: prometheus.NewSummary(prometheus.SummaryOpts{
			Name: "eventlog_age_seconds", Help: "Not exported.",
			// The values are how far off a quantile's rank may be.
			Objectives: map[float64]float64{0.5: 0.05, 0.95: 0.01, 0.99: 0.002}, MaxAge: ageWindow,
		}),
		gauges: gauges,
	}
}

func (a *age) observe(d time.Duration) { a.summary.Observe(d.Seconds()) }

// Describe implements prometheus.Collector.
func (a *age) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range a.gauges {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (a *age) Collect(ch chan<- prometheus.Metric) {
	var m dto.Metric
	if err := a.summary.Write(&m); err != nil {
		return // a summary without labels always has a form
	}
	for _, q := range m.GetSummary().GetQuantile() {
		if d, ok := a.gauges[q.GetQuantile()]; ok && !math.IsNaN(q.GetValue()) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, q.GetValue())
		}
	}
}
