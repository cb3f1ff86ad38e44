package experiment

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"

	"loadstone/lab/threshold"
)

// SLO is what a variant must meet, in the order of the file. What thresholds
// say and whether they are met is package threshold's.
type SLO []Objective //nolint:recvcheck // read fills it in

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

func (s *SLO) read(f field) {
	if f.n.kind != mapping {
		f.wrong("a mapping from metrics to lists of thresholds")
		return
	}
	for _, p := range f.n.pairs {
		if err := threshold.CheckMetric(p.key.text); err != nil {
			f.errorf(p.key, "%s", err)
			continue
		}
		*s = append(*s, Objective{Metric: p.key.text, Thresholds: f.thresholds(p)})
	}
}

// produced refuses thresholds on what the load does not produce. What a k6
// script produces only the script knows.
func (s SLO) produced(f field, l *Offer) {
	if l.K6 != nil || !f.given() {
		return
	}
	plan := l.plan(0)
	metrics := threshold.MetricsOf(plan.Scenarios)
	for _, o := range s {
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

// longThreshold is k6's long form: an expression that may end the load.
type longThreshold struct {
	Threshold string `key:"threshold,need" eg:"p(95)<200"`
	// Ends the load once the threshold does not hold.
	AbortOnFail bool `key:"abortOnFail" eg:"true"`
	// How much of the load is measured before that.
	DelayAbortEval time.Duration `key:"delayAbortEval" eg:"10s" beside:"abortOnFail"`

	metric string
}

func (t *longThreshold) prepare(s *section) {
	s.examples = strings.NewReplacer("p(95)<200", threshold.Example(t.metric))
}

func (t *longThreshold) check(s *section) {
	if delay := s.fields["delayAbortEval"]; t.DelayAbortEval > 0 && !t.AbortOnFail && s.fields["threshold"].n != nil {
		s.errorf(delay.place, "delayAbortEval delays abortOnFail, which is not on; write abortOnFail: true, or remove it")
	}
}

// longThreshold reads the long form.
func (f field) longThreshold(n *node, metric string) (threshold.Threshold, bool) {
	long := longThreshold{metric: metric}
	item := f.item(f.key, n)
	item.place, item.example = n, threshold.Example(metric)
	item.structure(&long, "the threshold")
	p, ok := n.pair("threshold")
	if long.Threshold == "" || !ok {
		return threshold.Threshold{}, false
	}
	t, ok := f.threshold(p.value, metric)
	t.AbortOnFail, t.DelayAbortEval = long.AbortOnFail, long.DelayAbortEval
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
		switch t.Metric {
		case threshold.HTTPReqDuration, threshold.HTTPReqService, threshold.GRPCReqDuration, threshold.WSMsgDuration, threshold.WSAckDuration, threshold.WSPing:
			longest = max(longest, t.Value)
		}
	}
	return time.Duration(longest * float64(time.Millisecond))
}

// LongestIteration returns the longest duration of an iteration that the objectives
// mention; 0 if they mention none.
func (s SLO) LongestIteration() time.Duration {
	var longest float64
	for _, t := range s.Thresholds() {
		if t.Metric == threshold.IterationDuration {
			longest = max(longest, t.Value)
		}
	}
	return time.Duration(longest * float64(time.Millisecond))
}

// describe lists the metrics, each with the thresholds that suit it, with and
// without a selector.
func (*SLO) describe(g *generator, _ tag) *schema {
	s := &schema{
		Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema,
		PatternProperties: make(map[string]*schema),
	}
	for _, metric := range threshold.All() {
		expression := &schema{Type: "string", Pattern: metric.Pattern(), Examples: []any{threshold.Example(metric.Name)}}
		long := g.structure(reflect.TypeFor[longThreshold]())
		long.Properties.Set("threshold", expression)
		list := &schema{Type: "array", MinItems: count64(1), Description: metric.Meaning(), Items: either(expression, long)}
		s.Properties.Set(metric.Name, list)
		if metric.Selectable() {
			s.PatternProperties["^"+metric.Name+`\s*\{.+\}$`] = list
		}
	}
	return s
}
