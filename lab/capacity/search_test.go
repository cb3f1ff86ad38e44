package capacity

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// system is a simulated one: it holds every rate up to capacity, judged with
// an error of noise (standard deviation, as a share), and a try at more than
// limit is limited by the generator.
type system struct {
	capacity, noise, limit float64
	rng                    *rand.Rand
}

func (s *system) try(step Step) Try {
	if step.Rate > s.limit {
		return Try{Purpose: step.Purpose, Rate: step.Rate, GeneratorLimited: true, Reason: "generator busy"}
	}
	held := step.Rate <= s.capacity*(1+s.noise*s.rng.NormFloat64())
	return Try{Purpose: step.Purpose, Rate: step.Rate, Held: held}
}

func run(c Config, s *system, start float64) (history []Try, spent time.Duration) {
	for {
		step, ok := c.Next(history, spent, start)
		if !ok {
			return history, spent
		}
		spent += step.Duration
		history = append(history, s.try(step))
	}
}

func newSystem(capacity, noise float64) *system {
	return &system{capacity: capacity, noise: noise, limit: math.Inf(1), rng: rand.New(rand.NewPCG(1, 2))}
}

func TestSearchFindsCapacity(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	for _, start := range []float64{4000, 4700, 5000, 5300, 6500} {
		history, spent := run(cfg, newSystem(5000, 0), start)
		out := Conclude(history)
		if out.Rate > 5000 || out.Rate < 5000/(1+cfg.Tolerance) {
			t.Errorf("start %v: got %.0f, want within 5 %% below 5000; tries %+v", start, out.Rate, history)
		}
		if out.LowerBound {
			t.Errorf("start %v: got a lower bound, want a capacity", start)
		}
		if history[out.Try].Purpose != Confirm {
			t.Errorf("start %v: the winner was not confirmed: %+v", start, history)
		}
		if spent > cfg.Budget {
			t.Errorf("start %v: took %v, budget %v", start, spent, cfg.Budget)
		}
	}
}

func TestSearchFromFarAway(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Budget = 6 * time.Minute
	for _, start := range []float64{200, 100_000} {
		history, _ := run(cfg, newSystem(5000, 0), start)
		if out := Conclude(history); out.Rate > 5000 || out.Rate < 5000/1.05 {
			t.Errorf("start %v: got %.0f, want within 5 %% below 5000", start, out.Rate)
		}
	}
}

// A single wrong judgement, either way, must not decide the outcome.
func TestSearchSurvivesNoise(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	s := newSystem(5000, 0.03)
	far := 0
	for range 200 {
		history, _ := run(cfg, s, 5000*(1+0.05*s.rng.NormFloat64()))
		if got := Conclude(history).Rate; got < 4300 || got > 5400 {
			far++
		}
	}
	if far > 10 {
		t.Errorf("%d of 200 searches ended more than 14 %% below or 8 %% above; want at most 10", far)
	}
}

func TestSearchEndsAtMaxRate(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.MaxRate = 1000
	history, _ := run(cfg, newSystem(5000, 0), 900)
	out := Conclude(history)
	if out.Rate != 1000 || !out.LowerBound {
		t.Errorf("got %+v, want a lower bound of 1000", out)
	}
}

func TestSearchLimitedByGenerator(t *testing.T) {
	t.Parallel()
	s := newSystem(50_000, 0)
	s.limit = 20_000
	history, _ := run(DefaultConfig(), s, 19_000)
	out := Conclude(history)
	if !out.LowerBound || out.Rate < 18_000 || out.Rate > 20_000 {
		t.Errorf("got %+v, want a lower bound just below 20000", out)
	}
	if out.Reason != "generator busy" {
		t.Errorf("reason %q, want the generator's", out.Reason)
	}
}

func TestSearchGivesUpWhenNothingHolds(t *testing.T) {
	t.Parallel()
	history, _ := run(DefaultConfig(), newSystem(0, 0), 100)
	out := Conclude(history)
	if out.Rate != 0 || out.Try != -1 || out.LowerBound {
		t.Errorf("got %+v, want no capacity and no bound", out)
	}
}

func TestConclude(t *testing.T) {
	t.Parallel()
	held := func(r float64) Try { return Try{Rate: r, Held: true} }
	lost := func(r float64) Try { return Try{Rate: r} }
	for name, c := range map[string]struct {
		history  []Try
		rate     float64
		rejected float64
		bound    bool
	}{
		"nothing tried":               {nil, 0, 0, false},
		"bracket":                     {[]Try{held(10), lost(20), held(15)}, 15, 20, false},
		"held above rejected":         {[]Try{held(10), lost(20), held(30)}, 10, 20, false},
		"winner overturned":           {[]Try{held(10), held(15), lost(20), lost(15)}, 10, 15, false},
		"neighbour overturned":        {[]Try{held(10), lost(12), held(10), held(12)}, 12, 0, false},
		"all held is only a bound":    {[]Try{held(10)}, 10, 0, true},
		"all rejected is no capacity": {[]Try{lost(10), lost(5)}, 0, 5, false},
	} {
		out := Conclude(c.history)
		if out.Rate != c.rate || out.Rejected != c.rejected || out.LowerBound != c.bound {
			t.Errorf("%s: got %+v, want rate %v, rejected %v, bound %v", name, out, c.rate, c.rejected, c.bound)
		}
	}
}

func TestSlowSystemsGetLongerTries(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Budget = 10 * time.Minute
	step, ok := cfg.Next([]Try{{Rate: 2, Held: true}, {Rate: 2.4}}, 0, 2)
	if !ok || step.Duration.Seconds()*step.Rate < 0.99*float64(cfg.MinRequests) {
		t.Errorf("got %+v, want at least %d requests", step, cfg.MinRequests)
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	for _, c := range []Config{
		{MaxRate: 0, Tolerance: 0.05, Budget: time.Second, MinRequests: 1},
		{MaxRate: math.NaN(), Tolerance: 0.05, Budget: time.Second, MinRequests: 1},
		{MaxRate: 1, Tolerance: 0, Budget: time.Second, MinRequests: 1},
		{MaxRate: 1, Tolerance: 0.05, Budget: time.Millisecond, MinRequests: 1},
		{MaxRate: 1, Tolerance: 0.05, Budget: time.Second, MinRequests: 0},
	} {
		if c.Validate() == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}
