package loadpage

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/load/summary"
)

// verdict is what came of the load in one line.
func verdict(s *summary.Summary) string {
	switch {
	case s.Requests == 0:
		return bound(s) + "No request was made"
	case s.Failed == s.Requests:
		return bound(s) + "No request was answered well: " + format.Plural(s.Failed, "failure")
	}
	text := fmt.Sprintf("%s%s req/s with p95 %s", bound(s), format.Measured(s.Rate), format.Latency(s.Latency.Response.P95))
	total, crossed := len(s.Thresholds), crossed(s)
	switch {
	case total == 0:
		return text
	case crossed > 0:
		return fmt.Sprintf("%s: %d of %s crossed", text, crossed, format.Plural(total, "threshold"))
	case total == 1:
		return text + ": the threshold is met"
	default:
		return fmt.Sprintf("%s: all %d thresholds met", text, total)
	}
}

// bound is what stands before a verdict that the generator had a part in.
func bound(s *summary.Summary) string {
	if s.Validity == summary.LowerBoundOnly {
		return "Lower bound only: "
	}
	return ""
}

func crossed(s *summary.Summary) int {
	n := 0
	for _, t := range s.Thresholds {
		if !t.Met {
			n++
		}
	}
	return n
}

func isBad(s *summary.Summary) bool {
	return s.Validity == summary.LowerBoundOnly || crossed(s) > 0 || s.Requests == 0 || s.Failed == s.Requests
}

// answer says the verdict again at more length.
func answer(s *summary.Summary) string {
	var parts []string
	if s.Validity == summary.LowerBoundOnly {
		reason := "The measurement itself was the limit"
		if len(s.ValidityReasons) > 0 {
			reason += ": " + strings.TrimSuffix(s.ValidityReasons[0], ".")
		}
		parts = append(parts, reason+". The system can do this, and maybe more.")
	}
	if s.Aborted != "" {
		parts = append(parts, "The load ended early: "+strings.TrimSuffix(s.Aborted, ".")+".")
	}
	if s.Requests > 0 {
		r := s.Latency.Response
		parts = append(parts, fmt.Sprintf("Half of the %s took at most %s from when they were due, one in a hundred longer than %s.",
			format.Plural(s.Requests, "request"), format.Latency(r.P50), format.Latency(r.P99)))
		if s.Failed == 0 {
			parts = append(parts, "None failed.")
		} else {
			parts = append(parts, format.Share(s.FailedShare)+" failed.")
		}
	}
	return strings.Join(parts, " ")
}

// facts are when, how long and from which seed, for the top of the page.
func facts(s *summary.Summary) []string {
	var facts []string
	if !s.Started.IsZero() {
		facts = append(facts, s.Started.UTC().Format("2 January 2006, 15:04:05 UTC"))
	}
	facts = append(facts, format.Seconds(s.Seconds)+" measured")
	if s.WarmupSeconds > 0 {
		facts = append(facts, format.Seconds(s.WarmupSeconds)+" warm-up before")
	}
	return append(facts, fmt.Sprintf("seed %d", s.Seed))
}

// remarks are what a reader of the figures must know.
func remarks(s *summary.Summary) []string {
	remarks := slices.Concat(s.ValidityReasons, s.Notes)
	if s.Aborted != "" {
		remarks = append(remarks, "The load ended early: "+s.Aborted)
	}
	if s.Dropped > 0 {
		remarks = append(remarks, fmt.Sprintf("%s of %s dropped: no virtual user came free in time.",
			format.Plural(s.Dropped, "iteration"), format.Count(s.Offered)))
	}
	if s.InFlight.Growing {
		remarks = append(remarks, fmt.Sprintf("Work in flight grew by %s requests each second: the system did not keep up.", format.Measured(s.InFlight.Slope)))
	}
	if s.Late > 0 {
		remarks = append(remarks, fmt.Sprintf("%s began more than 5 ms late although a virtual user was free: the generator’s doing.",
			format.Plural(s.Late, "iteration")))
	}
	return remarks
}
