package report

import (
	"strconv"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
)

// faults writes what each fault cost a variant, one paragraph each.
func (s *summary) faults(v *result.Variant) {
	for i := range v.Faults {
		f := &v.Faults[i]
		st := term.Plain
		if f.Failed > 0 || f.Recovered == nil {
			st = term.Yellow
		}
		s.prose("    ", format.Setting(f.At)+" s  "+f.What, term.Bold)
		s.prose("      ", strings.Join(faultSentences(f), "; "), st)
	}
}

// sentences are what one fault cost.
func faultSentences(f *result.Fault) []string {
	failed := format.Plural(int(min(f.Failed, 1<<53)), "request") + " failed"
	if kinds := failureKinds(f); kinds != "" {
		failed += " (" + kinds + ")"
	}
	out := []string{failed}
	switch {
	case f.Recovered == nil:
		out = append(out, "objectives were not met again ("+bad(f.BadSeconds)+")")
	case *f.Recovered == 0:
		out = append(out, "objectives met throughout")
	default:
		out = append(out, "objectives met again after "+secondsText(f.Recovered, "")+" ("+bad(f.BadSeconds)+")")
	}
	if f.Back == nil {
		out = append(out, "not back before the load ended")
	} else {
		out = append(out, "back after "+secondsText(f.Back, ""))
	}
	var p95, p99 []string
	for _, figures := range []*result.FaultFigures{f.Before, f.During, f.After} {
		a, b := format.Missing, format.Missing
		if figures != nil {
			a, b = format.Milliseconds(figures.P95), format.Milliseconds(figures.P99)
		}
		p95, p99 = append(p95, a), append(p99, b)
	}
	out = append(out, "p95 "+strings.Join(p95, " → "), "p99 "+strings.Join(p99, " → "))
	for _, w := range f.Watched {
		out = append(out, w.Name+" "+watchedText(w))
	}
	return out
}

func bad(seconds int) string {
	if seconds == 1 {
		return "1 bad second"
	}
	return strconv.Itoa(seconds) + " bad seconds"
}
