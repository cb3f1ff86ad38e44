package result

import (
	"slices"

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
	// Carry answers which is the smallest size that sustains a rate; nil if the
	// experiment did not ask.
	Carry *RequiredSize `json:"carry,omitempty"`
}

// ScalingPoint is one measured size.
type ScalingPoint struct {
	Size     float64  `json:"size"`
	Variant  string   `json:"variant"`
	Capacity Estimate `json:"capacity"`
	// Bound is the rate beyond which the demands measured at this size leave some
	// component without CPU or slots; 0 if that is not known.
	Bound float64 `json:"bound,omitempty"`
	// Limit is the component that the variant's verdict names; empty if none.
	Limit string `json:"limit,omitempty"`
	// Tied are the components that it finds to limit equally; Limit is empty then.
	Tied []string `json:"tied,omitempty"`
}

// ScalingLaw is the universal scalability law (Gunther 1993),
// X(N) = λN / (1 + σ(N−1) + κN(N−1)), with σ, κ ≥ 0, or a line that ends at
// another component's limit, whichever the measurements speak for.
type ScalingLaw struct {
	Shape  string   `json:"shape"` // of package scaling
	Lambda Estimate `json:"lambda"`
	Sigma  Estimate `json:"sigma"`
	Kappa  Estimate `json:"kappa"`
	// Peak is where throughput is highest, if that lies inside the measured
	// range; nil with PeakNote otherwise.
	Peak     *Estimate `json:"peak,omitempty"`
	PeakNote string    `json:"peak_note,omitempty"`
	// Curve are points of the fit, for drawing: size and capacity.
	Curve    [][2]float64 `json:"curve"`
	Warnings []string     `json:"warnings,omitempty"`
}

// HeldOut is a prediction beside the measurement that it did not see.
type HeldOut struct {
	Size      float64  `json:"size"`
	Predicted Estimate `json:"predicted"`
	Measured  Estimate `json:"measured"`
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

// RequiredSize is the smallest measured size that sustains a rate.
type RequiredSize struct {
	Rate float64 `json:"rate"` // asked for
	// Size is the smallest measured size of whose capacity even the low end of
	// the interval is not below Rate; 0 if none is, as with a single trial, which
	// has no interval. Maybe is the smallest that reaches Rate at the high end of
	// its interval, if that is a smaller one than Size; 0 otherwise.
	Size  float64 `json:"size"`
	Maybe float64 `json:"maybe,omitempty"`
	Text  string  `json:"text"`
}

// SizeText is a size in words: "3 replicas of api", "0.25 CPUs for api".
func (s *Scaling) SizeText(size float64) string {
	if s.Setting != "replicas" {
		return format.Setting(size) + " CPU for " + s.Service
	}
	if size == 1 {
		return "1 replica of " + s.Service
	}
	return format.Setting(size) + " replicas of " + s.Service
}

// RequiredText is the answer for people.
func (s *Scaling) RequiredText(c *RequiredSize, unit string) string {
	rate := format.Setting(c.Rate) + " " + unit
	at := func(size float64) string {
		i := slices.IndexFunc(s.Points, func(p ScalingPoint) bool { return p.Size == size })
		if i < 0 {
			return ""
		}
		return " (" + s.Points[i].Capacity.WithRange() + ")"
	}
	var text string
	switch {
	case c.Size > 0:
		text = s.SizeText(c.Size) + at(c.Size) + " is the smallest size measured that sustains " + rate
	default:
		text = "No size measured sustains with confidence " + rate
	}
	if c.Maybe > 0 {
		text += "; " + s.SizeText(c.Maybe) + at(c.Maybe) + " may"
	}
	return text + "."
}
