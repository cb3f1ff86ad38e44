package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/format"
)

// Scaling is how capacity grew with the size of one component, in a run whose
// experiment swept it.
type Scaling struct {
	Service string `json:"service"`
	Setting string `json:"setting"` // replicas or cpus
	// Points are the sizes by rising size, each a variant of the run.
	Points []ScalingPoint `json:"points"`
	// Law is the fit over all points; nil where there are too few, and Note says
	// so then.
	Law  *ScalingLaw `json:"law,omitempty"`
	Note string      `json:"note,omitempty"`
	// HeldOut is the largest size, predicted from the others alone; nil if there
	// are too few.
	HeldOut *HeldOut `json:"held_out,omitempty"`
	// Takeover says, from the demands measured at the smallest size, from which
	// size on another component limits; nil if no other sets a bound.
	Takeover *Takeover `json:"takeover,omitempty"`
	// Carry answers which is the smallest size that carries a rate; nil if the
	// experiment did not ask.
	Carry *Carry `json:"carry,omitempty"`
}

// ScalingPoint is one measured size.
type ScalingPoint struct {
	Size     float64  `json:"size"`
	Variant  string   `json:"variant"`
	Capacity Interval `json:"capacity"`
	// Bound is the rate beyond which the demands measured at this size leave some
	// component without CPU or slots; 0 if that is not known.
	Bound float64 `json:"bound,omitempty"`
	// Limit is the component that the variant's verdict names; empty if none.
	Limit string `json:"limit,omitempty"`
	// Tied are the components that it finds to limit equally; Limit is empty then.
	Tied []string `json:"tied,omitempty"`
}

// limitedBy is who limits, for a table: "lb", "api = lb"; empty if nobody is named.
func (p *ScalingPoint) limitedBy() string {
	if len(p.Tied) > 0 {
		return strings.Join(p.Tied, " = ")
	}
	return p.Limit
}

// whoLimits is the same in words.
func (p *ScalingPoint) whoLimits() string {
	switch {
	case len(p.Tied) > 0:
		return joinNames(p.Tied) + " limit equally"
	case p.Limit != "":
		return p.Limit + " limits"
	default:
		return "nobody named"
	}
}

// ScalingLaw is the universal scalability law (Gunther 1993),
// X(N) = λN / (1 + σ(N−1) + κN(N−1)), with σ, κ ≥ 0, or a line that ends at
// another component's limit, whichever the measurements speak for.
type ScalingLaw struct {
	Shape  string   `json:"shape"` // of package scaling
	Lambda Interval `json:"lambda"`
	Sigma  Interval `json:"sigma"`
	Kappa  Interval `json:"kappa"`
	// Peak is where throughput is highest, if that lies inside the measured
	// range; nil with PeakNote otherwise.
	Peak     *Interval `json:"peak,omitempty"`
	PeakNote string    `json:"peak_note,omitempty"`
	// Curve are points of the fit, for drawing: size and capacity.
	Curve    [][2]float64 `json:"curve"`
	Warnings []string     `json:"warnings,omitempty"`
}

// HeldOut is a prediction beside the measurement that it did not see.
type HeldOut struct {
	Size      float64  `json:"size"`
	Predicted Interval `json:"predicted"`
	Measured  Interval `json:"measured"`
	// Error is (predicted − measured) / measured.
	Error float64 `json:"error"`
	From  string  `json:"from"` // what it was predicted from, in words
}

// Takeover is where growing one component stops helping.
type Takeover struct {
	Grown string  `json:"grown"`
	Next  string  `json:"next"`
	At    float64 `json:"at"` // from this size on Next limits
	Bound float64 `json:"bound"`
}

// Carry is the answer to which size is enough.
type Carry struct {
	Rate float64 `json:"rate"` // asked for
	// Size is the smallest measured size of whose capacity even the low end of
	// the interval is not below Rate; 0 if none is, as with a single trial, which
	// has no interval. Maybe is the smallest that reaches Rate at the high end of
	// its interval, if that is a smaller one than Size; 0 otherwise.
	Size  float64 `json:"size"`
	Maybe float64 `json:"maybe,omitempty"`
	Text  string  `json:"text"`
}

// each is a size in words: "3 replicas of api", "0.25 CPUs for api".
func (s *Scaling) each(size float64) string {
	if s.Setting != "replicas" {
		return format.Setting(size) + " CPU for " + s.Service
	}
	if size == 1 {
		return "1 replica of " + s.Service
	}
	return format.Setting(size) + " replicas of " + s.Service
}

// CarryText is the answer to which size carries a rate, for people.
func (s *Scaling) CarryText(c *Carry, unit string) string {
	rate := format.Setting(c.Rate) + " " + unit
	at := func(size float64) string {
		i := slices.IndexFunc(s.Points, func(p ScalingPoint) bool { return p.Size == size })
		if i < 0 {
			return ""
		}
		return " (" + withRange(s.Points[i].Capacity) + ")"
	}
	var text string
	switch {
	case c.Size > 0:
		text = s.each(c.Size) + at(c.Size) + " is the smallest size measured that carries " + rate
	default:
		text = "No size measured surely carries " + rate
	}
	if c.Maybe > 0 {
		text += "; " + s.each(c.Maybe) + at(c.Maybe) + " may"
	}
	return text + "."
}

// withRange is a value and its interval, if it has one.
func withRange(i Interval) string {
	if !ranged(i) {
		return boundedText(i)
	}
	return boundedText(i) + " " + rangeText(i)
}

// signedPercent says by how much a prediction was too high (+) or too low (-).
func signedPercent(share float64) string {
	if share < 0 {
		return "-" + format.Percent(-share)
	}
	return "+" + format.Percent(share)
}

// sentences say for people where growing stops helping, what was measured, and
// how well that was foretold.
func (s *Scaling) sentences(unit string) []string {
	var out []string
	add := func(text string) {
		if text != "" {
			out = append(out, text)
		}
	}
	add(s.takeoverText(unit))
	add(s.lawText())
	if h := s.HeldOut; h != nil {
		add(fmt.Sprintf("%s, predicted from %s: %s %s; measured %s: off by %s.", s.each(h.Size), h.From,
			withRange(h.Predicted), unit, format.Measured(h.Measured.Value), signedPercent(h.Error)))
	}
	if s.Carry != nil {
		add(s.Carry.Text)
	}
	return out
}

// takeoverText is what the smallest size foretells, beside what came.
func (s *Scaling) takeoverText(unit string) string {
	if len(s.Points) == 0 {
		return ""
	}
	measured := s.limitsText()
	t := s.Takeover
	if t == nil {
		return measured
	}
	bound := " (" + format.Measured(t.Bound) + " " + unit + " at most)"
	first, last := s.Points[0], s.Points[len(s.Points)-1]
	text := "By the demands at " + s.each(first.Size) + ", "
	switch {
	case t.At <= first.Size:
		text += "growing does not help: " + t.Next + " limits already" + bound
	case t.At > last.Size:
		text += t.Next + " limits only from " + s.each(t.At) + " on" + bound + ", beyond what was measured"
	default:
		text += "from " + s.each(t.At) + " on " + t.Next + " limits" + bound
	}
	return text + ". " + measured
}

// limitsText is who limited at which size: "Measured: api limits at 1 and 2, lb limits at 3".
func (s *Scaling) limitsText() string {
	var parts []string
	for i := 0; i < len(s.Points); {
		j := i
		var sizes []string
		who := s.Points[i].whoLimits()
		for ; j < len(s.Points) && s.Points[j].whoLimits() == who; j++ {
			sizes = append(sizes, format.Setting(s.Points[j].Size))
		}
		parts = append(parts, who+" at "+joinNames(sizes))
		i = j
	}
	return "Measured: " + strings.Join(parts, ", ") + "."
}

func (s *Scaling) lawText() string {
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
		return text + "the peak lies at " + s.each(l.Peak.Value) + "."
	}
	return text + l.PeakNote + "."
}

// coefficient is a parameter of the law with its interval, with two digits: it
// is never known better.
func coefficient(i Interval) string {
	digits := func(v float64) string {
		if !format.Finite(v) {
			return format.Missing
		}
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	if !ranged(i) {
		return digits(i.Value)
	}
	return digits(i.Value) + " [" + digits(i.Low) + ", " + digits(i.High) + "]"
}
