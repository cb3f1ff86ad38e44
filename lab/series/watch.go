// Package series follows named Prometheus metrics of services, second by second
// of a load: what an experiment's watch names, what scrapes say of it, and
// whether the bounds on it were kept.
//
// A metric is summed over the instances of its service. A counter begins again
// at 0 when its process does, which is no fall; a second in which an instance
// ran and was not heard of is a gap, and never a 0; an instance that did not run
// counted nothing. What one instance tells of all of its service is not summed, and known as long as that tells.
//
// A View is what the scrapes of one instance say of a span of time: how a gauge
// stood, by how much a counter grew, and the hit ratios of caches.
//
// The package reads no file and scrapes nothing: that is lab/probe's.
package series

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/threshold"
)

// What is followed of a metric.
const (
	Rate  = "rate"  // of a counter: how much it grows per second
	Value = "value" // of a gauge: what it stands at
)

// Metric is a metric to follow.
type Metric struct {
	Name     string // what the experiment calls it
	Selector Selector
	Service  string
	As       string // Rate or Value
	Bounds   []Bound
}

// Selector picks series of one Prometheus metric: all of them, or those with
// the given values of labels.
type Selector struct {
	Metric string
	Labels map[string]string

	parts []string // the labels as series have them
}

var (
	selectorForm = regexp.MustCompile(`^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?$`)
	labelForm    = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*("(?:[^"\\]|\\.)*")\s*(?:,|$)`)
)

// ParseSelector reads a metric as PromQL has it, with equality only:
// cache_gets_total{result="hit"}. The error is one sentence without a position.
func ParseSelector(text string) (Selector, error) {
	m := selectorForm.FindStringSubmatch(text)
	if m == nil {
		return Selector{}, fmt.Errorf(`%q is no metric of Prometheus; write its name, or its name and labels as in cache_gets_total{result="hit"}`, text)
	}
	s := Selector{Metric: m[1], Labels: map[string]string{}}
	for rest := m[2]; strings.TrimSpace(rest) != ""; {
		l := labelForm.FindStringSubmatch(rest)
		if l == nil {
			return Selector{}, fmt.Errorf(`%q has labels that cannot be read; write them as in %s{tier="redis"}`, text, s.Metric)
		}
		value, err := strconv.Unquote(l[2])
		if err != nil {
			return Selector{}, fmt.Errorf(`the label %s of %q cannot be read; write it as in %s{tier="redis"}`, l[1], text, s.Metric)
		}
		s.Labels[l[1]] = value
		s.parts = append(s.parts, fmt.Sprintf("%s=%q", l[1], value))
		rest = rest[len(l[0]):]
	}
	return s, nil
}

// Matches says whether a series, as lab/probe names it, is one of the
// selector's.
func (s Selector) Matches(series string) bool {
	name, labels, has := strings.Cut(series, "{")
	if name != s.Metric {
		return false
	}
	if len(s.parts) == 0 {
		return true
	}
	if !has {
		return false
	}
	labels = "," + strings.TrimSuffix(labels, "}") + ","
	return !slices.ContainsFunc(s.parts, func(part string) bool { return !strings.Contains(labels, ","+part+",") })
}

// Bound is a threshold on a metric: on its seconds, in the words of the SLO.
type Bound struct {
	Text string // as written: max<2000

	threshold threshold.Threshold
}

var (
	boundForm      = regexp.MustCompile(`^\s*([a-z]+)(?:\(\s*([0-9]+(?:\.[0-9]+)?)\s*\))?\s*(<=|>=|===|==|!=|<|>)\s*(\S+)\s*$`)
	boundValueForm = regexp.MustCompile(`^-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$`)
)

// ParseBound reads a bound: min, avg, med, max or p(N), a comparison and a
// number. The error is one sentence without a position.
func ParseBound(text string) (Bound, error) {
	m := boundForm.FindStringSubmatch(text)
	if m == nil {
		return Bound{}, fmt.Errorf("%q is no threshold; write an aggregation, a comparison and a number, such as max<2000", text)
	}
	b := Bound{Text: strings.TrimSpace(text), threshold: threshold.Threshold{Aggregation: m[1], Operator: m[3]}}
	if known := []string{"min", "avg", "med", "max", "p"}; !slices.Contains(known, m[1]) || (m[1] == "p") != (m[2] != "") {
		return Bound{}, fmt.Errorf("a watched metric has no %s; write min, avg, med, max or p(95), such as max<2000", strings.TrimSpace(strings.TrimSuffix(text, m[3]+m[4])))
	}
	var err error
	if m[2] != "" {
		if b.threshold.Percentile, err = strconv.ParseFloat(m[2], 64); err != nil || b.threshold.Percentile > 100 {
			return Bound{}, fmt.Errorf("there is no percentile %s; write a number from 0 to 100, such as p(95)", m[2])
		}
	}
	if b.threshold.Value, err = strconv.ParseFloat(m[4], 64); err != nil || !boundValueForm.MatchString(m[4]) {
		return Bound{}, fmt.Errorf("%q is not a number; write max<2000", m[4])
	}
	return b, nil
}

// Outcome is what became of a bound.
type Outcome struct {
	Bound    string
	Observed float64 // 0 if nothing was
	Met      bool
}

// Judge says whether a metric's seconds kept its bounds. Gaps are passed over; a
// metric of which nothing is known keeps none.
func (m Metric) Judge(seconds []float64) []Outcome {
	known := slices.DeleteFunc(slices.Clone(seconds), math.IsNaN)
	slices.Sort(known)
	out := make([]Outcome, len(m.Bounds))
	for i, b := range m.Bounds {
		out[i].Bound = b.Text
		if len(known) > 0 {
			out[i].Observed = aggregate(known, b.threshold)
			out[i].Met = b.threshold.Holds(out[i].Observed)
		}
	}
	return out
}

// aggregate works on sorted values, of which there is at least one. Percentiles
// are by the nearest rank.
func aggregate(sorted []float64, t threshold.Threshold) float64 {
	rank := func(p float64) float64 {
		i := int(math.Ceil(p/100*float64(len(sorted)))) - 1
		return sorted[min(max(i, 0), len(sorted)-1)]
	}
	switch t.Aggregation {
	case "min":
		return sorted[0]
	case "max":
		return sorted[len(sorted)-1]
	case "med":
		return rank(50)
	case "p":
		return rank(t.Percentile)
	default:
		sum := 0.0
		for _, v := range sorted {
			sum += v
		}
		return sum / float64(len(sorted))
	}
}
