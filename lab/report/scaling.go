package report

import (
	"fmt"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
)

// sizeLimitedBy is the bottleneck, for a table: "lb", "api = lb"; empty if no
// component is named.
func sizeLimitedBy(p *result.ScalingPoint) string {
	if len(p.Tied) > 0 {
		return strings.Join(p.Tied, " = ")
	}
	return p.Limit
}

// bottleneckText is the same in words.
func bottleneckText(p *result.ScalingPoint) string {
	switch {
	case len(p.Tied) > 0:
		return joinNames(p.Tied) + " are equally limiting"
	case p.Limit != "":
		return p.Limit + " is the bottleneck"
	default:
		return "no component named"
	}
}

// signedPercent says by how much a prediction was too high (+) or too low (-).
func signedPercent(share float64) string {
	if share < 0 {
		return "-" + format.Percent(-share)
	}
	return "+" + format.Percent(share)
}

// scalingSentences say for people where growing stops helping, what was measured, and
// how well that was predicted.
func scalingSentences(s *result.Scaling, unit string) []string {
	var out []string
	add := func(text string) {
		if text != "" {
			out = append(out, text)
		}
	}
	add(takeoverText(s, unit))
	add(lawText(s))
	if h := s.HeldOut; h != nil {
		add(fmt.Sprintf("%s, predicted from %s: %s %s; measured %s: error %s.", s.SizeText(h.Size), h.From,
			h.Predicted.WithRange(), unit, format.Measured(h.Measured.Value), signedPercent(h.Error)))
	}
	if s.Carry != nil {
		add(s.Carry.Text)
	}
	return out
}

// takeoverText is what the smallest size predicts, beside what was measured.
func takeoverText(s *result.Scaling, unit string) string {
	if len(s.Points) == 0 {
		return ""
	}
	measured := sizeLimits(s)
	t := s.Takeover
	if t == nil {
		return measured
	}
	bound := " (" + format.Measured(t.Bound) + " " + unit + " at most)"
	first, last := s.Points[0], s.Points[len(s.Points)-1]
	text := "By the demands at " + s.SizeText(first.Size) + ", "
	switch {
	case t.At <= first.Size:
		text += "growing does not help: " + t.Next + " is the bottleneck already" + bound
	case t.At > last.Size:
		text += t.Next + " becomes the bottleneck only at " + s.SizeText(t.At) + bound + ", beyond what was measured"
	default:
		text += t.Next + " becomes the bottleneck at " + s.SizeText(t.At) + bound
	}
	return text + ". " + measured
}

// sizeLimits is the bottleneck at each size: "Measured: api is the bottleneck at 1
// and 2, lb is the bottleneck at 3".
func sizeLimits(s *result.Scaling) string {
	var parts []string
	for i := 0; i < len(s.Points); {
		j := i
		var sizes []string
		who := bottleneckText(&s.Points[i])
		for ; j < len(s.Points) && bottleneckText(&s.Points[j]) == who; j++ {
			sizes = append(sizes, format.Setting(s.Points[j].Size))
		}
		parts = append(parts, who+" at "+joinNames(sizes))
		i = j
	}
	return "Measured: " + strings.Join(parts, ", ") + "."
}

func lawText(s *result.Scaling) string {
	l := s.Law
	if l == nil {
		return s.Note
	}
	shape := map[string]string{
		"law":     "The scalability law describes the sizes",
		"ceiling": "Capacity grows in a line up to another component's limit",
		"neither": "Neither the scalability law nor a ceiling describes the sizes",
	}[l.Shape]
	text := shape + " (σ " + coefficient(l.Sigma) + ", κ " + coefficient(l.Kappa) + "); "
	if l.Peak != nil {
		return text + "the peak is at " + s.SizeText(l.Peak.Value) + "."
	}
	return text + l.PeakNote + "."
}

// coefficient is a parameter of the law with its interval.
func coefficient(i result.Estimate) string {
	text := format.Coefficient(i.Value)
	if i.HasRange() {
		text += " [" + format.Coefficient(i.Low) + ", " + format.Coefficient(i.High) + "]"
	}
	return text
}
