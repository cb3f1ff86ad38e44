package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/format"
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

// measuresLoad says whether the run drove the load as written instead of
// searching for capacity.
func (r *Result) measuresLoad() bool { return r.Measure == "load" }

// baseline is the variant that the others are compared with: by convention the
// first.
func (r *Result) baseline() string {
	if len(r.Comparisons) > 0 {
		return r.Comparisons[0].Baseline
	}
	if len(r.Variants) > 0 {
		return r.Variants[0].Name
	}
	return ""
}

// comparison returns the variant's comparison, nil if it has none.
func (r *Result) comparison(variant string) *Comparison {
	for i := range r.Comparisons {
		if r.Comparisons[i].Variant == variant {
			return &r.Comparisons[i]
		}
	}
	return nil
}

// hasCapacity says whether a capacity was found that can be shown.
func (v *Variant) hasCapacity() bool {
	return v.Capacity != nil && format.Finite(v.Capacity.Value)
}

func (v *Variant) isLowerBound() bool { return v.Capacity != nil && v.Capacity.LowerBound }

// hasInterval says whether the capacity has an interval: a single trial gives none.
func (v *Variant) hasInterval() bool {
	c := v.Capacity
	return c != nil && c.Confidence > 0 && format.Finite(c.Confidence) && format.Finite(c.Low) && format.Finite(c.High)
}

// hasRange is hasInterval for a ratio.
func hasRange(c *Comparison) bool {
	return c != nil && c.Confidence > 0 && format.Finite(c.Confidence) && format.Finite(c.Low) && format.Finite(c.High)
}

// holdsOne says whether 1 may be the true ratio: no difference was shown, by the
// test and not by the interval, which is not corrected for its number.
func holdsOne(c *Comparison) bool { return c.tooFew() || hasRange(c) && !c.Significant }

// tooFew says whether no difference could have been shown with so few trials.
func (c *Comparison) tooFew() bool { return c != nil && c.Needed > 0 }

// capacityText is the capacity in words: "4,310 req/s", "at least 4,310 req/s".
func (v *Variant) capacityText() string {
	if !v.hasCapacity() {
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
func (r *Result) boundSign(variant string) (sign string, known bool) {
	var above, below bool
	for i := range r.Variants {
		v := &r.Variants[i]
		above = above || v.Name == variant && v.isLowerBound()
		below = below || v.Name == r.baseline() && v.isLowerBound()
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
func (v *Variant) limitedBy() string {
	d := v.Verdict
	named := strings.TrimSpace(d.Component + " " + d.Resource)
	switch {
	case d.Status == Named && named != "":
		return named
	case d.Status == Tied && len(d.Tied) > 0:
		return strings.Join(d.tied(), " = ")
	case d.Status == Undecided || d.Status == LowerBoundOnly:
		return d.Status
	default:
		return format.Missing
	}
}

// answer says in one sentence what the run found.
func (r *Result) answer() sentence {
	if r.measuresLoad() {
		return r.loadAnswer()
	}
	ranked := make([]*Variant, 0, len(r.Variants))
	for i := range r.Variants {
		if r.Variants[i].hasCapacity() {
			ranked = append(ranked, &r.Variants[i])
		}
	}
	if len(r.Variants) == 0 {
		return nothingMeasured()
	}
	if len(ranked) == 0 {
		return sentence{}.say("No capacity was found: no variant met the objectives at any rate that was tried.")
	}
	slices.SortStableFunc(ranked, func(a, b *Variant) int {
		return cmp.Compare(b.Capacity.Value, a.Capacity.Value)
	})
	best := ranked[0]
	rivals, open := r.rivals(ranked)
	s := r.whoCarries(best, rivals, len(ranked))
	s = r.timesBaseline(s, best)
	s = best.whatLimits(s)
	if len(open) > 0 {
		s = s.say("; ").say(joinNames(open)).say(" may carry more than was measured")
	}
	return s.say(".")
}

// rivals returns the names that the run does not tell apart from the best one,
// and the names whose capacity is only known from below. The test against the
// baseline decides where there is one, because it pairs trials; else whether the
// capacities' intervals overlap.
func (r *Result) rivals(ranked []*Variant) (rivals, open []string) {
	best := ranked[0]
	for _, v := range ranked[1:] {
		if v.isLowerBound() {
			open = append(open, v.Name)
			continue
		}
		pair := r.comparison(best.Name)
		if best.Name == r.baseline() {
			pair = r.comparison(v.Name)
		}
		switch {
		case (pair.tooFew() || hasRange(pair)) && (best.Name == r.baseline() || v.Name == r.baseline()):
			if holdsOne(pair) {
				rivals = append(rivals, v.Name)
			}
		case best.hasInterval() && v.hasInterval() && (v.Capacity.HighOpen || v.Capacity.High >= best.Capacity.Low):
			rivals = append(rivals, v.Name)
		}
	}
	return rivals, open
}

func (r *Result) whoCarries(best *Variant, rivals []string, variants int) sentence {
	s := sentence{}
	switch {
	case variants == 1:
		s = s.stress(best.Name).say(" carries ")
	case len(rivals) > 0 && r.needed() > 0:
		s = s.stress(best.Name).say(" carried most, though " + r.fewTrials() + " too few for the test to tell it apart from ").
			stress(joinNames(rivals)).say(" (it takes " + strconv.Itoa(r.needed()) + "): ")
	case len(rivals) > 0:
		s = s.stress(best.Name).say(" carried most, though this run does not tell it apart from ").
			stress(joinNames(rivals)).say(": ")
	case best.Name == r.baseline():
		s = s.say("The baseline ").stress(best.Name).say(" carries most: ")
	default:
		s = s.stress(best.Name).say(" carries most: ")
	}
	return s.stress(best.capacityText())
}

func (r *Result) timesBaseline(s sentence, best *Variant) sentence {
	c := r.comparison(best.Name)
	sign, known := r.boundSign(best.Name)
	if c == nil || best.Name == c.Baseline || !format.Finite(c.Ratio) || !known {
		return s
	}
	words := map[string]string{"": ", ", "≥": ", at least ", "≤": ", at most "}[sign]
	if !hasRange(c) {
		return s.say(words).stress(format.Measured(c.Ratio) + " times").say(" the baseline " + c.Baseline)
	}
	ratio, low, high := format.Interval(c.Ratio, c.Low, c.High)
	return s.say(words).stress(ratio + " times").
		say(" the baseline " + c.Baseline + " (between " + low + " and " + high + ")")
}

func (v *Variant) whatLimits(s sentence) sentence {
	d := v.Verdict
	switch {
	case d.Status == Named && d.Component != "" && d.Resource != "":
		return s.say("; ").stress(d.Component + " (" + d.Resource + ")").say(" limits it")
	case d.Status == Named && d.Component+d.Resource != "":
		return s.say("; ").stress(d.Component + d.Resource).say(" limits it")
	case d.Status == Tied && len(d.Tied) > 0:
		return s.say("; ").stress(joinNames(d.tied())).say(" limit it equally")
	case d.Status == LowerBoundOnly:
		return s.say("; the measurement ended before the system did")
	default:
		return s.say("; what limits it is undecided")
	}
}

func nothingMeasured() sentence {
	return sentence{}.say("Nothing was measured: the result has no variants.")
}

// loadAnswer says who met the objectives, and who answered fastest.
func (r *Result) loadAnswer() sentence {
	var met []string
	fastest, objectives := -1, false
	lowest := math.Inf(1)
	for i := range r.Variants {
		v := &r.Variants[i]
		objectives = objectives || len(v.SLO) > 0
		if len(v.SLO) > 0 && !slices.ContainsFunc(v.SLO, func(s SLO) bool { return !s.Met }) {
			met = append(met, v.Name)
		}
		if p95 := v.Latency.Response.P95; format.Finite(p95) && p95 > 0 && p95 < lowest {
			lowest, fastest = p95, i
		}
	}
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
	if fastest >= 0 {
		s = s.say("; ").stress(r.Variants[fastest].Name).say(" had the lowest p95: ").stress(format.Milliseconds(lowest))
	}
	return s.say(".")
}

func joinNames(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// confidences says at which confidence the intervals hold, variant by variant
// only where they differ.
func (r *Result) confidences() string {
	var texts []string
	names := map[string][]string{}
	for i := range r.Variants {
		v := &r.Variants[i]
		text := format.Plural(v.Trials, "trial") + ", no interval"
		if v.hasInterval() {
			text = format.Percent(v.Capacity.Confidence) + " interval over " + format.Plural(v.Trials, "trial")
		}
		if !v.hasCapacity() {
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
func (r *Result) ratioConfidence() string {
	said := map[string]bool{}
	for i := range r.Variants {
		if v := &r.Variants[i]; v.hasInterval() {
			said[format.Percent(v.Capacity.Confidence)] = true
		}
	}
	var others []string
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		if text := format.Percent(c.Confidence); hasRange(c) && !said[text] {
			said[text] = true
			others = append(others, text)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return " Ratios: " + joinNames(others) + " interval."
}
