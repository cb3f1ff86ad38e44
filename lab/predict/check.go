package predict

import (
	"errors"
	"fmt"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// ErrHeldNothing marks a predicted topology that held no rate when it was measured.
var ErrHeldNothing = errors.New("the predicted topology held no rate")

// Check is a prediction held against a measurement of the same topology.
type Check struct {
	Run      string  `json:"run"`
	Measured float64 `json:"measured"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	// HighOpen says that the interval has no upper end: High is only the highest
	// rate that held.
	HighOpen bool `json:"high_open,omitempty"`
	// LowerBound says that the truth may be higher than Measured: how far the
	// prediction is off is not known then, and Error and ErrorOfRatio are 0.
	LowerBound bool `json:"lower_bound"`
	// TooLow says that even the upper end of the prediction, or the prediction if
	// it has no interval, is below a lower bound: it was wrong.
	TooLow bool `json:"too_low,omitempty"`
	// Error is predicted ÷ measured − 1.
	Error float64 `json:"error"`
	// Again is the capacity of the variant without changes, measured in the same
	// rounds, and ErrorOfRatio the error of the predicted factor between the
	// two: what the machine's speed has changed since the run is not in it. Both
	// are 0 if it held no rate, or is only known from below.
	Again        float64 `json:"again"`
	ErrorOfRatio float64 `json:"error_of_ratio"`
	// Limit is the component that the verdict named; empty if it named none.
	Limit string `json:"limit"`
}

// measured is what was measured, with its interval if it has one.
func (c *Check) measured() string {
	text := format.Measured(c.Measured)
	if c.Low < c.High {
		text += " " + (&result.Estimate{Interval: stats.Interval{Value: c.Measured, Low: c.Low, High: c.High, HighOpen: c.HighOpen, Confidence: 1}}).Range()
	}
	if c.LowerBound {
		text = "at least " + text
	}
	return text
}

// off is how far the prediction is off, in words.
func (c *Check) off() string {
	switch {
	case c.TooLow:
		return "too low"
	case c.LowerBound:
		return "not known"
	default:
		return format.Change(c.Error)
	}
}

// Against adds to an answer what was measured of the predicted topology: variant
// is its name in the result, unchanged that of the variant as it was.
func (a *Answer) Against(r *result.Result, name, unchanged, variant string) error {
	v, err := find(r, variant)
	if err != nil {
		return err
	}
	was, err := find(r, unchanged)
	if err != nil {
		return err
	}
	if v.Capacity == nil || !(v.Capacity.Value > 0) && !v.Capacity.LowerBound {
		return fmt.Errorf("%w in run %s: the prediction of %s %s was wrong", ErrHeldNothing, name, format.Measured(a.Capacity.Value), a.Unit)
	}
	c := v.Capacity
	a.Check = &Check{
		Run: name, Measured: c.Value, Low: c.Low, High: c.High, HighOpen: c.HighOpen, LowerBound: c.LowerBound,
		Limit: v.Verdict.Component,
	}
	if c.LowerBound {
		a.Check.TooLow = max(a.Capacity.Value, a.Capacity.High) < c.Value
		return nil
	}
	a.Check.Error = a.Capacity.Value/c.Value - 1
	if was.Capacity != nil && was.Capacity.Value > 0 && !was.Capacity.LowerBound && a.Base != nil {
		a.Check.Again = was.Capacity.Value
		a.Check.ErrorOfRatio = a.Capacity.Value / *a.Base / (c.Value/was.Capacity.Value) - 1
	}
	return nil
}
