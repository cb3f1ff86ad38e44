package experiment

import (
	"slices"

	"loadstone/block/spelling"
	"loadstone/lab/series"
	"loadstone/lab/threshold"
)

// Watches are the metrics to follow, in the order of the file.
type Watches []Watch

// Watch is one metric to follow, summed over the instances of its service.
type Watch struct {
	Name string

	// The metric as the service publishes it, with labels if not all of its
	// series are meant: cache_gets_total{result="hit"}.
	Metric string `key:"metric,need" eg:"db_queries_total" form:"metric"`

	// The service that publishes it, on the port of its label prometheus.io/port.
	Service string `key:"service,need" eg:"api"`

	// rate follows how much a counter grows per second, value where a gauge
	// stands.
	As string `key:"as,need" eg:"rate" enum:"rate|value"`

	// What the metric must meet in every second of the load: thresholds as under
	// slo, with min, avg, med, max and p(N), such as max<2000.
	SLO []string `key:"slo" eg:"[max<2000]" form:"bound" least:"1" list:"a list of thresholds"`
}

const (
	watchPattern = `^[a-z][a-z0-9_]*$`
	boundPattern = `^\s*(min|avg|med|max|p\(\s*[0-9.]+\s*\))\s*(<=|>=|===|==|!=|<|>)\s*-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*$`
)

func (w *Watch) check(s *section) {
	if name := s.place; threshold.CheckMetric(name.text) == nil {
		s.errorf(name, "%s is a metric of the load already; write another name", spelling.Quote(name.text))
	}
}

// selector reads a metric with its labels.
func (f field) selector() string {
	text := f.text()
	if text != "" {
		if _, err := series.ParseSelector(text); err != nil {
			f.errorf(f.n, "%s", err)
		}
	}
	return text
}

// bound reads a threshold of a watched metric.
func (f field) bound() string {
	if f.n.kind != text {
		f.errorf(f.n, "a threshold is an expression, not %s; write max<2000", describe(f.n))
		return ""
	}
	if _, err := series.ParseBound(f.n.text); err != nil {
		f.errorf(f.n, "%s", err)
	}
	return f.n.text
}

// Follow returns what is followed, as the analysis takes it.
func (w *Watch) Follow() (series.Metric, error) {
	m := series.Metric{Name: w.Name, Service: w.Service, As: w.As}
	var err error
	if m.Selector, err = series.ParseSelector(w.Metric); err != nil {
		return m, err
	}
	for _, text := range w.SLO {
		b, err := series.ParseBound(text)
		if err != nil {
			return m, err
		}
		m.Bounds = append(m.Bounds, b)
	}
	return m, nil
}

// watchesKnown checks that some variant has each service that is watched.
func (e *Experiment) watchesKnown(d *decoder, known []string, added map[string]int) {
	watched, _ := e.root.pair("watch")
	for _, w := range e.Watch {
		if slices.Contains(known, w.Service) || added[w.Service] > 0 {
			continue
		}
		p, _ := watched.value.pair(w.Name)
		service, _ := p.value.pair("service")
		d.errorf(service.value, "%s has no service %s with the watched metric %s; %s", e.System.named(), spelling.Quote(w.Service), spelling.Quote(w.Name), spelling.Choose(w.Service, known))
	}
}
