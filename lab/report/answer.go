package report

import (
	"math"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// phrase is a piece of a sentence; Strong ones carry its meaning.
type phrase struct {
	Text   string
	Strong bool
}

// sentence is phrases in order.
type sentence []phrase

func (s sentence) say(text string) sentence    { return append(s, phrase{Text: text}) }
func (s sentence) stress(text string) sentence { return append(s, phrase{Text: text, Strong: true}) }

func (s sentence) String() string {
	var b strings.Builder
	for _, p := range s {
		b.WriteString(p.Text)
	}
	return b.String()
}

// capacityText is the capacity in words: "4,310 req/s", "at least 4,310 req/s".
func capacityText(v *result.Variant) string {
	if !v.HasCapacity() {
		return format.Missing
	}
	text := format.Measured(v.Capacity.Value) + " " + v.Capacity.Unit
	if v.Capacity.LowerBound {
		text = "at least " + text
	}
	return strings.TrimSpace(text)
}

// boundSign says on which side of the written ratio the true one lies when one
// of the two capacities is only a lower bound; known is false if both are.
func boundSign(r *result.Result, variant string) (sign string, known bool) {
	var above, below bool
	for i := range r.Variants {
		v := &r.Variants[i]
		above = above || v.Name == variant && v.IsLowerBound()
		below = below || v.Name == r.Baseline() && v.IsLowerBound()
	}
	switch {
	case above && below:
		return "", false
	case above:
		return "≥", true
	case below:
		return "≤", true
	default:
		return "", true
	}
}

// limitedBy is the verdict in two or three words.
func limitedBy(v *result.Variant) string {
	d := v.Verdict
	named := strings.TrimSpace(d.Component + " " + d.Resource)
	switch {
	case d.Status == verdict.Named && named != "":
		return named
	case d.Status == verdict.Tied && len(d.Tied) > 0:
		return strings.Join(d.TiedNames(), " = ")
	case d.Status == verdict.Undecided || d.Status == verdict.LowerBoundOnly:
		return d.Status
	default:
		return format.Missing
	}
}

// agreement is how many methods name what the verdict names: "2 of 3 methods agree", and what
// else the verdict says of that; empty if it names nothing.
func agreement(d *verdict.Verdict) string {
	counted, more, _ := strings.Cut(d.Agreement, " ")
	in, of, ok := strings.Cut(counted, "/")
	if !ok {
		return d.Agreement
	}
	return strings.TrimSpace(in + " of " + of + " methods agree " + more)
}

// answer says in one sentence what the run found.
func answer(r *result.Result) sentence {
	switch {
	case r.MeasuresLoad():
		return loadAnswer(r)
	case len(r.Variants) == 0:
		return nothingMeasured()
	default:
		return capacityAnswer(r)
	}
}

func nothingMeasured() sentence {
	return sentence{}.say("Nothing was measured: the result has no variants.")
}

// failures is the share of failures from which on a variant's response times are those of
// its failures.
const failures = 0.5

// loadAnswer says who met the objectives, and who answered fastest.
func loadAnswer(r *result.Result) sentence {
	met, objectives := metAll(r)
	s := sentence{}
	switch {
	case len(r.Variants) == 0:
		return nothingMeasured()
	case !objectives:
		s = s.say("Under the load as written, no objective was set")
	case len(met) == len(r.Variants) && len(met) == 1:
		s = s.stress(met[0]).say(" met every objective under the load as written")
	case len(met) == len(r.Variants):
		s = s.stress("Every variant").say(" met every objective under the load as written")
	case len(met) == 0:
		s = s.stress("No variant").say(" met every objective under the load as written")
	default:
		s = s.say("Under the load as written, ").stress(joinNames(met)).say(" met every objective and the others did not")
	}
	s = notAlways(r, met, s)
	if fastest, lowest := lowestP95(r); fastest >= 0 {
		s = s.say("; ").stress(r.Variants[fastest].Name).say(" had the lowest p95: ").stress(format.Milliseconds(lowest))
	}
	return s.say(".")
}

// metAll has the variants that met all objectives, and says whether there are any objectives.
func metAll(r *result.Result) (names []string, objectives bool) {
	for i := range r.Variants {
		v := &r.Variants[i]
		objectives = objectives || len(v.SLO) > 0
		if len(v.SLO) > 0 && !slices.ContainsFunc(v.SLO, func(s result.SLO) bool { return !s.Met }) {
			names = append(names, v.Name)
		}
	}
	return names, objectives
}

// lowestP95 is the variant that answered fastest, of those that did not mostly fail: what
// answers with errors does so quickly. The index is -1 if there is none.
func lowestP95(r *result.Result) (fastest int, milliseconds float64) {
	fastest, milliseconds = -1, math.Inf(1)
	for i := range r.Variants {
		v := &r.Variants[i]
		if p95 := v.Latency.Response.P95; v.Failed < failures && format.Finite(p95) && p95 > 0 && p95 < milliseconds {
			fastest, milliseconds = i, p95
		}
	}
	return fastest, milliseconds
}

// notAlways says which objective a variant that met all of them crossed in some trials.
func notAlways(r *result.Result, met []string, s sentence) sentence {
	for i := range r.Variants {
		v := &r.Variants[i]
		if !slices.Contains(met, v.Name) {
			continue
		}
		for _, o := range v.SLO {
			if note := objective(o).note(); note != "" {
				s = s.say(", but ").stress(v.Name).say(" not always: " + o.Metric + " " + o.Threshold + " was " + note)
				break
			}
		}
	}
	return s
}

// confidences says at which confidence the intervals hold, variant by variant
// only where they differ.
func confidences(r *result.Result) string {
	var texts []string
	names := map[string][]string{}
	for i := range r.Variants {
		v := &r.Variants[i]
		text := format.Plural(v.Trials, "trial") + ", no interval"
		if v.HasInterval() {
			text = format.Percent(v.Capacity.Confidence) + " interval over " + format.Plural(v.Trials, "trial")
		}
		if !v.HasCapacity() {
			text = format.Plural(v.Trials, "trial") + ", no capacity"
		}
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], v.Name)
	}
	if len(texts) == 1 {
		return texts[0]
	}
	for i, text := range texts {
		texts[i] = joinNames(names[text]) + ": " + text
	}
	return strings.Join(texts, "; ")
}

// ratioConfidence says at which confidence the ratios' intervals hold, where
// that is another one than the capacities'.
func ratioConfidence(r *result.Result) string {
	said := map[string]bool{}
	for i := range r.Variants {
		if v := &r.Variants[i]; v.HasInterval() {
			said[format.Percent(v.Capacity.Confidence)] = true
		}
	}
	var others []string
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if text := format.Percent(c.Confidence); c.HasRange() && !said[text] {
			said[text] = true
			others = append(others, text)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return " Ratios: " + joinNames(others) + " interval."
}
