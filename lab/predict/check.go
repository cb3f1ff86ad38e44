package predict

import (
	"errors"
	"fmt"

	"loadstone/lab/report"
)

// ErrHeldNothing marks a predicted topology that held no rate when it was measured.
var ErrHeldNothing = errors.New("the predicted topology held no rate")

// Check is a prediction held against a measurement of the same topology.
type Check struct {
	Run      string  `json:"run"`
	Measured float64 `json:"measured"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	// LowerBound says that the truth may be higher than Measured.
	LowerBound bool `json:"lower_bound"`
	// Error is predicted ÷ measured − 1.
	Error float64 `json:"error"`
	// Again is the capacity of the variant without changes, measured in the same
	// rounds, and ErrorOfRatio the error of the predicted factor between the
	// two: what the machine's speed has changed since the run is not in it. Both
	// are 0 if it held no rate.
	Again        float64 `json:"again"`
	ErrorOfRatio float64 `json:"error_of_ratio"`
	// Limit is the component that the verdict named; empty if it named none.
	Limit string `json:"limit"`
}

// Against adds to an answer what was measured of the predicted topology: variant
// is its name in the result, unchanged that of the variant as it was.
func (a *Answer) Against(r *report.Result, name, unchanged, variant string) error {
	v, err := find(r, variant)
	if err != nil {
		return err
	}
	was, err := find(r, unchanged)
	if err != nil {
		return err
	}
	if v.Capacity == nil || !(v.Capacity.Value > 0) {
		return fmt.Errorf("%w in run %s: the prediction of %s %s was wrong", ErrHeldNothing, name, report.Measured(a.Capacity.Value), a.Unit)
	}
	c := v.Capacity
	a.Check = &Check{
		Run: name, Measured: c.Value, Low: c.Low, High: c.High, LowerBound: c.LowerBound,
		Error: a.Capacity.Value/c.Value - 1, Limit: v.Verdict.Component,
	}
	if was.Capacity != nil && was.Capacity.Value > 0 && a.Measured != nil {
		a.Check.Again = was.Capacity.Value
		a.Check.ErrorOfRatio = a.Capacity.Value/a.Measured.Value/(c.Value/was.Capacity.Value) - 1
	}
	return nil
}
