package report

import (
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

// capacityAnswer says which variant has the highest capacity, as far as the run
// shows it.
func capacityAnswer(r *result.Result) sentence {
	k := r.Ranking()
	bounds, s := len(k.Bounds), sentence{}
	switch {
	case bounds+len(k.Highest) == 0:
		return s.say("No capacity was found: no variant met the objectives at any rate that was tried.")
	case !slices.ContainsFunc(slices.Concat(k.Bounds, k.Highest), func(v *result.Variant) bool { return v.Capacity.Value > 0 }):
		return s.say("No capacity was found: in most trials no rate that was tried held.")
	case k.AboveAll || bounds == 1 && len(k.Highest) == 0:
		s = capacityIs(r, s.say("The capacity"), k.Bounds[0])
	case bounds > 0:
		s = s.say("Which capacity is the highest is not known: the measurement ended before the limit of ").
			stress(joinNames(withCapacity(k.Bounds, "at least "))).say(" was reached")
		if len(k.Highest) > 0 {
			others := "; of the others, "
			if len(k.Highest)+len(k.Lower) == 1 {
				others = "; "
			}
			s = highest(r, s.say(others), k, "the capacity")
		}
	default:
		s = highest(r, s, k, "The capacity")
	}
	return s.say(".")
}

// highest is about the variants whose capacity is known; capacity begins the
// part of the sentence where there is but one.
func highest(r *result.Result, s sentence, k result.Ranking, capacity string) sentence {
	first, lower := k.Highest[0], len(k.Lower)
	names := withCapacity(k.Highest, "")
	switch {
	case len(k.Highest) == 1 && lower == 0:
		return capacityIs(r, s.say(capacity), first)
	case len(k.Highest) == 1:
		if first.Name == r.Baseline() {
			s = s.say(startLike(capacity, "The") + " baseline ")
		}
		s = s.stress(first.Name).say(" has the highest capacity: ").stress(capacityText(first))
		return whatLimits(first, timesBaseline(r, s, first))
	case lower > 0 && k.TooFew:
		s = s.say(startLike(capacity, "The") + " highest capacity is that of ").stress(join(names, " or ")).
			say(": there are too few trials to tell them apart" + trialsNeeded(r, k.Highest))
	case lower > 0:
		s = s.say(startLike(capacity, "The") + " highest capacity is that of ").stress(join(names, " or ")).
			say(": no difference was shown between them")
	case k.TooFew:
		s = s.say(startLike(capacity, "There") + " are too few trials to tell ").stress(joinNames(names)).
			say(" apart" + trialsNeeded(r, k.Highest))
	default:
		s = s.say(startLike(capacity, "No") + " difference was shown between ").stress(joinNames(names))
	}
	return limitsEach(k.Highest, s)
}

// capacityIs is about a single capacity; s ends with "the capacity".
func capacityIs(r *result.Result, s sentence, v *result.Variant) sentence {
	s = s.say(" of ").stress(v.Name).say(" is ").stress(capacityText(v))
	return whatLimits(v, timesBaseline(r, s, v))
}

// startLike is word with a capital letter where the sentence begins with model.
func startLike(model, word string) string {
	if model[0] == 't' {
		return strings.ToLower(word)
	}
	return word
}

// withCapacity are names, each with its capacity.
func withCapacity(vs []*result.Variant, sign string) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Name+" ("+sign+strings.TrimSpace(format.Measured(v.Capacity.Value)+" "+v.Capacity.Unit)+")")
	}
	return out
}

// trialsNeeded is how many trials there were and how many the test takes:
// " (2 of each, the test needs 4)".
func trialsNeeded(r *result.Result, vs []*result.Variant) string {
	n := r.TrialsNeeded()
	if n == 0 {
		return ""
	}
	text := "the test needs " + strconv.Itoa(n) + " of each"
	if !slices.ContainsFunc(vs, func(v *result.Variant) bool { return v.Trials != vs[0].Trials }) {
		text = strconv.Itoa(vs[0].Trials) + " of each, the test needs " + strconv.Itoa(n)
	}
	return " (" + text + ")"
}

// limitsEach says what limits several variants, if it is the same.
func limitsEach(vs []*result.Variant, s sentence) sentence {
	first := &vs[0].Verdict
	limit := limitText(first)
	differs := func(v *result.Variant) bool {
		return v.Verdict.Status != first.Status || limitText(&v.Verdict) != limit
	}
	switch {
	case slices.ContainsFunc(vs, differs):
		return s
	case limit != "":
		return s.say("; ").stress(limit).say(" limits each of them")
	case first.Status == verdict.Undecided:
		return s.say("; what limits them is undecided")
	default:
		return s
	}
}

// limitText is what a verdict names, as in "api (cpu)"; empty if it names nothing
// or several.
func limitText(v *verdict.Verdict) string {
	switch {
	case v.Status != verdict.Named:
		return ""
	case v.Component != "" && v.Resource != "":
		return v.Component + " (" + v.Resource + ")"
	default:
		return v.Component + v.Resource
	}
}

func timesBaseline(r *result.Result, s sentence, v *result.Variant) sentence {
	c := r.Comparison(v.Name)
	sign, known := boundSign(r, v.Name)
	if c == nil || v.Name == c.Baseline || !format.Finite(c.Ratio) || !known {
		return s
	}
	words := map[string]string{"": ", ", "≥": ", at least ", "≤": ", at most "}[sign]
	if !c.HasRange() {
		return s.say(words).stress(format.Measured(c.Ratio) + " times").say(" the baseline " + c.Baseline)
	}
	ratio, low, high := format.Interval(c.Ratio, c.Low, c.High)
	return s.say(words).stress(ratio + " times").
		say(" the baseline " + c.Baseline + " (between " + low + " and " + high + ")")
}

func whatLimits(v *result.Variant, s sentence) sentence {
	d := &v.Verdict
	switch limit := limitText(d); {
	case limit != "":
		return s.say("; ").stress(limit).say(" limits it")
	case d.Status == verdict.Tied && len(d.Tied) > 0:
		return s.say("; ").stress(joinNames(d.TiedNames())).say(" limit it equally")
	case d.Status == verdict.LowerBoundOnly:
		return s.say("; the measurement ended before its limit was reached")
	default:
		return s.say("; what limits it is undecided")
	}
}

// join writes names with commas, and last before the last one.
func join(names []string, last string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	n := len(names) - 1
	return strings.Join(names[:n], ", ") + last + names[n]
}

func joinNames(names []string) string { return join(names, " and ") }
