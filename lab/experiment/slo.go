package experiment

import (
	"slices"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/threshold"
)

// SLO is what a variant must meet, in the order of the file. What thresholds
// say and whether they are met is package threshold's.
type SLO []Objective

// Objective is what one metric must meet: all of its thresholds.
type Objective struct {
	Metric     string // with its selector, as written
	Thresholds []threshold.Threshold
}

// Thresholds returns all thresholds, in the order of the file.
func (s SLO) Thresholds() []threshold.Threshold {
	var out []threshold.Threshold
	for _, o := range s {
		out = append(out, o.Thresholds...)
	}
	return out
}

// sloExample is an objective as it is written.
const sloExample = "slo: {http_req_duration: [p(95)<200], http_req_failed: [rate<0.001]}"

// slo reads the objectives on what l offers.
func (f field) slo(l *Offer) SLO {
	if !f.given() {
		return nil
	}
	if f.n.kind != mapping {
		f.wrong("a mapping from metrics to lists of thresholds")
		return nil
	}
	var slo SLO
	for _, p := range f.n.pairs {
		metric := p.key.text
		if err := threshold.CheckMetric(metric); err != nil {
			f.errorf(p.key, "%s", err)
			continue
		}
		o := Objective{Metric: metric, Thresholds: f.thresholds(p)}
		slo = append(slo, o)
	}
	if l.understood {
		f.produced(slo, l)
	}
	return slo
}

// produced refuses thresholds on what the load does not produce. What a k6
// script produces only the script knows.
func (f field) produced(slo SLO, l *Offer) {
	if l.K6 != nil {
		return
	}
	plan := l.plan(defaultSeed)
	metrics := threshold.MetricsOf(plan.Scenarios)
	for _, o := range slo {
		p, _ := f.n.pair(o.Metric)
		for i, t := range o.Thresholds {
			plain := t
			plain.AbortOnFail, plain.DelayAbortEval = false, 0
			if err := metrics.Check(plain); err != nil {
				f.errorf(p.key, "%s", err)
				break
			}
			if !t.AbortOnFail || len(p.value.items) != len(o.Thresholds) {
				continue
			}
			if err := metrics.Check(t); err != nil {
				f.errorf(p.value.items[i], "%s", err)
			}
		}
	}
}

// thresholds reads the list of one metric.
func (f field) thresholds(p pair) []threshold.Threshold {
	metric, n := p.key.text, p.value
	example := threshold.Example(metric)
	if n.kind == text {
		example = n.text
	}
	switch {
	case !f.plain(n):
		return nil
	case n.kind != list:
		f.errorf(n, "%s must have a list of thresholds, not %s; write %s: [%s]", metric, describe(n), metric, example)
		return nil
	case len(n.items) == 0:
		f.errorf(n, "%s has no thresholds; write %s: [%s]", metric, metric, example)
		return nil
	}
	var out []threshold.Threshold
	for _, item := range n.items {
		if !f.plain(item) {
			continue
		}
		switch item.kind {
		case text:
			if t, ok := f.threshold(item, metric); ok {
				out = append(out, t)
			}
		case mapping:
			if t, ok := f.longThreshold(item, metric); ok {
				out = append(out, t)
			}
		default:
			f.errorf(item, "a threshold is an expression, not %s; write %s", describe(item), example)
		}
	}
	return out
}

// threshold reads one expression.
func (f field) threshold(n *node, metric string) (threshold.Threshold, bool) {
	t, err := threshold.Parse(metric, n.text)
	if err != nil {
		f.errorf(n, "%s", err)
	}
	return t, err == nil
}

// longThreshold reads k6's long form: an expression that may end the load.
func (f field) longThreshold(n *node, metric string) (threshold.Threshold, bool) {
	example := threshold.Example(metric)
	s := f.section(n, n, "the threshold", example)
	if s == nil {
		return threshold.Threshold{}, false
	}
	expression := s.need("threshold", "threshold: "+example)
	abort, delay := s.may("abortOnFail", "abortOnFail: true"), s.may("delayAbortEval", "delayAbortEval: 10s")
	s.done()
	ends, after := abort.boolean(), delay.duration(0)
	if after > 0 && !ends && len(s.missing) == 0 {
		s.errorf(delay.place, "delayAbortEval delays abortOnFail, which is not on; write abortOnFail: true, or remove it")
	}
	if expression.text() == "" {
		return threshold.Threshold{}, false
	}
	t, ok := f.threshold(expression.n, metric)
	t.AbortOnFail, t.DelayAbortEval = ends, after
	return t, ok
}

// OnWindows says whether a threshold is on windows or ends the load, so that
// the windows of a load have to be watched.
func (s SLO) OnWindows() bool {
	return slices.ContainsFunc(s.Thresholds(), func(t threshold.Threshold) bool { return t.Over > 0 || t.AbortOnFail })
}

// LongestWait returns the longest response time that the objectives mention; 0
// if they mention none.
func (s SLO) LongestWait() time.Duration {
	var longest float64
	for _, t := range s.Thresholds() {
		if t.Metric == threshold.HTTPReqDuration || t.Metric == threshold.HTTPReqService {
			longest = max(longest, t.Value)
		}
	}
	return time.Duration(longest * float64(time.Millisecond))
}

// allMetrics returns every metric that some load produces.
func allMetrics() []string {
	check := []load.Check{{Name: "ok"}}
	return threshold.MetricsOf([]load.Scenario{
		{Executor: load.ConstantArrivalRate, Steps: []load.Step{{Checks: check}}},
		{Executor: load.ConstantVUs, WebSocket: &load.WebSocket{}},
	}).Names()
}
