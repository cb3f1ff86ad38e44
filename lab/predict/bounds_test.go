package predict

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"loadstone/lab/archive/archivetest"
	"loadstone/lab/model/queueing"
	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// TestLowerBoundsAreNoErrors has measurements that ended before the system did:
// of how far a prediction is off they say nothing, and of a prediction below them
// that it is wrong.
func TestLowerBoundsAreNoErrors(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 60e-6, noise: 0.01, seed: 7}
	res := derive(t, world.variant("v", 2, 6))
	s, err := AskSeveral(res, "run", topologies(t, res, "api.replicas=4", "api.replicas=3", "api.replicas=6"))
	if err != nil {
		t.Fatal(err)
	}
	changed := []string{"four", "three", "six"}
	bounded := func(v archivetest.Variant, by float64) archivetest.Variant {
		v.GeneratorLimited = true
		for i := range v.Capacities {
			v.Capacities[i] *= by
		}
		return v
	}
	score := func(vs ...archivetest.Variant) (*Score, string) {
		if err := s.Against(derive(t, vs...), "run-2", changed); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := s.Text(&text); err != nil {
			t.Fatal(err)
		}
		return s.Check, text.String()
	}
	was, four, three, six := world.variant("v", 2, 6), world.variant("four", 4, 6), world.variant("three", 3, 6), world.variant("six", 6, 6)

	// The generator got half as far as predicted with four, and twice as far with six.
	c, text := score(was, bounded(four, 0.5), three, bounded(world.variant("six", 6, 6), 2))
	if c.Bounds != 2 || c.TooLow != 1 || c.Intervals != 1 || c.Inside != 1 || c.Error == nil || *c.Error > 0.05 || c.ErrorOfRatio == nil || *c.ErrorOfRatio > 0.05 {
		t.Errorf("%+v: want two lower bounds in no error, one of them above its prediction", c)
	}
	for i, want := range []bool{false, false, true} {
		if got := s.Predictions[i].Check; got.TooLow != want || got.LowerBound && (got.Error != 0 || got.Again != 0) {
			t.Errorf("%s: %+v, want too low %v", changed[i], got, want)
		}
	}
	for _, want := range []string{"not known", "too low", "or more]", "at least", "median of 1 topology:", "2 measured only a lower bound and count in no error; 1 of these"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	var one bytes.Buffer
	if err := Text(&one, s.Predictions[0]); err != nil || !strings.Contains(one.String(), "so it is not known how far the prediction is off") {
		t.Errorf("%v in\n%s", err, one.String())
	}

	// Of another nothing could be judged, not even that it holds no rate.
	nothing := derive(t, was, four, three, six)
	v := &nothing.Variants[1]
	v.Capacity.Interval, v.Capacity.LowerBound = stats.Interval{}, true
	if err := s.Predictions[0].Against(nothing, "run-3", "v", "four"); err != nil || !s.Predictions[0].Check.LowerBound || s.Predictions[0].Check.TooLow {
		t.Errorf("%v, %+v: want that it is not known", err, s.Predictions[0].Check)
	}
	v.Capacity.LowerBound = false
	if err := s.Predictions[0].Against(nothing, "run-3", "v", "four"); !errors.Is(err, ErrHeldNothing) {
		t.Errorf("%v, want that it was wrong", err)
	}

	// What the factor is to is but a lower bound.
	c, _ = score(bounded(was, 0.5), four, three, six)
	if c.Bounds != 0 || c.Intervals != 3 || c.ErrorOfRatio != nil || c.Error == nil || *c.Error > 0.05 {
		t.Errorf("%+v: want errors of capacities, and none of factors", c)
	}
}

// Nothing sustains more than its CPU allows, or than by what it did where it was measured, with
// an interval or without one.
func TestPredictionsStayBelowTheBound(t *testing.T) {
	t.Parallel()
	limit := func(x float64) *Answer {
		return &Answer{Prediction: queueing.Prediction{
			Capacity: stats.Interval{Value: x, Low: x, High: x},
			Limit:    queueing.Limit{Station: "api", Bound: 1500, Capacity: x}, Next: &queueing.Limit{Station: "lb", Bound: 2000, Capacity: 1.4 * x},
		}}
	}
	certain := queueing.Model{Stations: []queueing.Station{queueing.CPU("api", queueing.Known(1e-3), 1, 1.5)}}
	for x, want := range map[float64]float64{1878: 1500, 1200: 1200} {
		a := limit(x)
		a.clamp(certain, 1)
		if c := a.Capacity; c.Value != want || c.Low != want || c.High != want || a.Limit.Capacity != want || a.Next.Capacity != min(2000, 1.4*x) {
			t.Errorf("%v: %+v, %+v, %+v; want %v", x, c, a.Limit, a.Next, want)
		}
	}
	uncertain := queueing.Model{Stations: []queueing.Station{queueing.CPU("api", stats.Interval{Value: 1e-3, Low: 0.8e-3, High: 1.2e-3, Confidence: 0.95}, 1, 1.5)}}
	a := limit(1878)
	a.Capacity = stats.Interval{Value: 1878, Low: 1700, High: 2500, Confidence: 0.95}
	a.clamp(uncertain, 1)
	if c := a.Capacity; c.Value != 1500 || c.Low != 1500 || math.Abs(c.High-1875) > 1e-6 {
		t.Errorf("%+v: want the bound, and up to that of the lowest demand, 1875", c)
	}
	a = limit(1878)
	a.clamp(certain, 1.1)
	if c := a.Capacity; math.Abs(c.Value-1650) > 1e-6 {
		t.Errorf("%+v: want a tenth more than the bound, as where it was measured", c)
	}
}

// What was measured is what is predicted where nothing is changed, though it be more than CPU
// per request allows.
func TestUnchangedIsWhatWasMeasured(t *testing.T) {
	t.Parallel()
	res := derive(t, truth{api: 500e-6, lb: 60e-6, noise: 0.01, seed: 7}.variant("v", 2, 6))
	scale(&res.Variants[0], 1.1)
	s := of(t, res, "v")
	if got, want := ask(t, s).Capacity.Value, s.Measured.Value; math.Abs(got/want-1) > 1e-6 {
		t.Errorf("%v predicted, %v measured", got, want)
	}
	if got, want := ask(t, s, "api.replicas=4").Capacity.Value, 2*s.Measured.Value; math.Abs(got/want-1) > 0.03 {
		t.Errorf("%v predicted of twice as many replicas, want %v", got, want)
	}
}

// scale makes a variant's capacity so many times what it was.
func scale(v *result.Variant, by float64) {
	c := v.Capacity
	c.Value, c.Low, c.High = by*c.Value, by*c.Low, by*c.High
	for i := range v.PerTrial {
		v.PerTrial[i] *= by
	}
}
