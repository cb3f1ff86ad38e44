package experiment

import (
	"regexp"
	"slices"

	"loadstone/block/spelling"
	"loadstone/lab/series"
	"loadstone/lab/threshold"
)

const (
	watchExample = "watch: {queries: {metric: db_queries_total, service: api, as: rate}}"
	watchPattern = `^[a-z][a-z0-9_]*$`
	maxWatches   = 20
)

var watchForm = regexp.MustCompile(watchPattern)

// watches reads the metrics to follow.
func (f field) watches() Watches {
	switch {
	case !f.given():
		return nil
	case f.n.kind != mapping || len(f.n.pairs) == 0:
		f.wrong("a mapping from names to metrics")
		return nil
	case len(f.n.pairs) > maxWatches:
		f.errorf(f.n.pairs[maxWatches].key, "these are more than %d metrics; write fewer", maxWatches)
		return nil
	}
	out := make(Watches, len(f.n.pairs))
	for i, p := range f.n.pairs {
		name := p.key.text
		switch {
		case !watchForm.MatchString(name) || len(name) > maxName:
			f.errorf(p.key, "%s cannot name a watched metric; write small letters, digits and _, beginning with a letter, at most %d", spelling.Quote(name), maxName)
		case slices.Contains(allMetrics(), name) || threshold.CheckMetric(name) == nil:
			f.errorf(p.key, "%s is a metric of the load already; write another name", spelling.Quote(name))
		}
		out[i] = f.watch(p)
	}
	return out
}

func (f field) watch(p pair) Watch {
	w := Watch{Name: p.key.text}
	s := f.section(p.value, p.key, "watched metric "+spelling.Quote(w.Name), "{metric: db_queries_total, service: api, as: rate}")
	if s == nil {
		return w
	}
	metric := s.need("metric", "metric: db_queries_total")
	if w.Metric = metric.text(); w.Metric != "" {
		if _, err := series.ParseSelector(w.Metric); err != nil {
			s.errorf(metric.n, "%s", err)
		}
	}
	w.Service = s.need("service", "service: api").text()
	w.As = s.need("as", "as: rate").oneOf(series.Rate, series.Value)
	slo := s.may("slo", "slo: [max<2000]")
	s.done()
	if !slo.given() {
		return w
	}
	if slo.n.kind != list || len(slo.n.items) == 0 {
		slo.wrong("a list of thresholds")
		return w
	}
	for _, item := range slo.n.items {
		if !s.plain(item) {
			continue
		}
		if item.kind != text {
			s.errorf(item, "a threshold is an expression, not %s; write max<2000", describe(item))
			continue
		}
		if _, err := series.ParseBound(item.text); err != nil {
			s.errorf(item, "%s", err)
		}
		w.SLO = append(w.SLO, item.text)
	}
	return w
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
		d.errorf(service.value, "watched metric %s is of the service %s, which %s has not; %s", spelling.Quote(w.Name), spelling.Quote(w.Service), e.System.named(), spelling.Choose(w.Service, known))
	}
}
