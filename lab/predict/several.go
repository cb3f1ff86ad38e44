package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// SeveralSchema names the version of Several's JSON form.
const SeveralSchema = "loadstone.predictions/1"

// Several is predictions of several topologies from one run.
type Several struct {
	Schema      string    `json:"schema"`
	Run         string    `json:"run"`
	Unit        string    `json:"unit"`
	Predictions []*Answer `json:"predictions"`
	// Check is how the predictions did, if they were checked.
	Check *Score `json:"check,omitempty"`

	topologies []Topology
}

// Score is how predictions did against measurements in one run. A topology that
// held no rate counts as one whose error is above any other.
type Score struct {
	Run        string `json:"run"`
	Topologies int    `json:"topologies"`
	// Error and ErrorOfRatio are medians of absolute errors: of the capacity, and
	// of the factor to the variant that it was predicted from. They are absent if
	// they cannot be told: where most topologies held no rate, or no variant did, or
	// all have but a lower bound.
	Error        *float64 `json:"median_error,omitempty"`
	ErrorOfRatio *float64 `json:"median_error_of_ratio,omitempty"`
	// Bounds is how many topologies have but a lower bound, which is in no error
	// and in no interval, and TooLow how many of these were predicted below it.
	Bounds int `json:"lower_bounds"`
	TooLow int `json:"too_low"`
	// Intervals is how many predictions had one, and Inside how many of those hold
	// what was measured.
	Intervals int `json:"intervals"`
	Inside    int `json:"inside"`
	// Named is how many verdicts named a CPU's limit, and Right how many of them
	// the predicted one.
	Named int `json:"named"`
	Right int `json:"right"`
}

// AskSeveral predicts each of the topologies. Mistakes in them are errors of one
// sentence.
func AskSeveral(r *result.Result, name string, ts []Topology) (*Several, error) {
	if err := CheckTopologies(ts); err != nil {
		return nil, err
	}
	s := &Several{Schema: SeveralSchema, Run: name, Unit: r.RateUnit(), Predictions: []*Answer{}, topologies: slices.Clone(ts)}
	systems := make(map[string]*System)
	for _, t := range ts {
		system := systems[t.Variant]
		if system == nil {
			var err error
			if system, err = Of(r, name, t.Variant); err != nil {
				return nil, err
			}
			systems[t.Variant] = system
		}
		a, err := system.Ask(Question{Changes: t.Changes, Seed: r.Seed})
		if err != nil {
			return nil, fmt.Errorf("predict %s: %w", t, err)
		}
		s.Predictions = append(s.Predictions, a)
	}
	return s, nil
}

// Against adds what was measured of the topologies in one run: changed are their
// names in it, in their order. The variants that they were predicted from have
// the names that they had.
func (s *Several) Against(r *result.Result, name string, changed []string) error {
	if len(changed) != len(s.Predictions) {
		return fmt.Errorf("run %s measured %d topologies, and %d were predicted", name, len(changed), len(s.Predictions))
	}
	score := &Score{Run: name, Topologies: len(s.Predictions)}
	var errs, ratios []float64
	for i, a := range s.Predictions {
		a.Check = nil
		err := a.Against(r, name, a.Variant, changed[i])
		if errors.Is(err, ErrHeldNothing) {
			errs, ratios = append(errs, math.Inf(1)), append(ratios, math.Inf(1))
			a.Warnings = append(a.Warnings, err.Error())
			continue
		}
		if err != nil {
			return err
		}
		if !a.Check.LowerBound {
			errs = append(errs, math.Abs(a.Check.Error))
		}
		if a.Check.Again > 0 {
			ratios = append(ratios, math.Abs(a.Check.ErrorOfRatio))
		}
		score.count(a)
	}
	score.Error, score.ErrorOfRatio = middle(errs), middle(ratios)
	s.Check = score
	return nil
}

func (c *Score) count(a *Answer) {
	if a.Check.LowerBound {
		c.Bounds++
	}
	if a.Check.TooLow {
		c.TooLow++
	}
	if a.Capacity.Confidence > 0 && !a.Check.LowerBound {
		c.Intervals++
		if a.Capacity.Low <= a.Check.Measured && a.Check.Measured <= a.Capacity.High {
			c.Inside++
		}
	}
	if a.Check.Limit != "" {
		c.Named++
		if a.Check.Limit == a.system.componentOf(a.Limit.Station) {
			c.Right++
		}
	}
}

// middle is the median; nil if there is none that is finite.
func middle(xs []float64) *float64 {
	m := stats.Median(xs).Value
	if len(xs) == 0 || math.IsInf(m, 0) {
		return nil
	}
	return &m
}
