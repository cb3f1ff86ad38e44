package capacity

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"loadstone/lab/load"
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

// CPU quotas are given out once in each tenth of a second.
func TestTriesLastWholePeriodsOfQuotas(t *testing.T) {
	t.Parallel()
	for _, budget := range []time.Duration{time.Second, 1500 * time.Millisecond, 2 * time.Second, 4 * time.Second, 11 * time.Second, 17300 * time.Millisecond} {
		for _, rate := range []float64{3, 47, 210, 5000} {
			cfg, s := DefaultConfig(), newSystem(rate, 0.03)
			cfg.Budget, cfg.Enough = budget, 333
			var history []Try
			var spent time.Duration
			for start := rate * 1.3; ; {
				step, ok := cfg.Next(history, spent, start)
				if !ok {
					break
				}
				if step.Duration < load.QuotaPeriod || step.Duration%load.QuotaPeriod != 0 {
					t.Fatalf("%v, %g a second: %+v does not last whole periods of %v", budget, rate, step, load.QuotaPeriod)
				}
				if step.Purpose == Confirm && step.Duration < cfg.searchTime() {
					t.Errorf("%v, %g a second: %+v is shorter than what it confirms", budget, rate, step)
				}
				spent += step.Duration
				history = append(history, s.try(step))
			}
			if budget >= 2*time.Second && !slices.ContainsFunc(history, func(t Try) bool { return t.Purpose == Confirm }) {
				t.Errorf("%v, %g a second: nothing was confirmed in %+v", budget, rate, history)
			}
		}
	}
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
		if history[out.Try].Purpose != Confirm || !out.Confirmed {
			t.Errorf("start %v: the winner was not confirmed: %+v", start, history)
		}
		if !slices.ContainsFunc(history, func(t Try) bool { return t.Purpose == Confirm && t.Rate == out.Rejected }) {
			t.Errorf("start %v: the neighbour was not confirmed: %+v", start, history)
		}
		if w := width(out); w < 1 || w > 1+cfg.Tolerance {
			t.Errorf("start %v: a bracket of %.3f, want within the tolerance", start, w)
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
	again := func(t Try) Try { t.Purpose = Confirm; return t }
	for name, c := range map[string]struct {
		history []Try
		want    Outcome
	}{
		"nothing tried":        {nil, Outcome{Try: -1}},
		"bracket":              {[]Try{held(10), lost(20), held(15)}, Outcome{Rate: 15, Try: 2, Rejected: 20}},
		"held above rejected":  {[]Try{held(10), lost(20), held(30)}, Outcome{Rate: 10, Rejected: 20}},
		"confirmed":            {[]Try{held(10), lost(20), again(held(10))}, Outcome{Rate: 10, Try: 2, Rejected: 20, Confirmed: true}},
		"winner overturned":    {[]Try{held(10), held(15), lost(20), again(lost(15))}, Outcome{Rate: 10, Rejected: 15}},
		"neighbour overturned": {[]Try{held(10), lost(12), again(held(10)), again(held(12))}, Outcome{Rate: 12, Try: 3, Rejected: 12, Confirmed: true}},
		"and then one above":   {[]Try{held(10), lost(12), again(held(12)), lost(13)}, Outcome{Rate: 12, Try: 2, Rejected: 13, Confirmed: true}},
		"and that held": {
			[]Try{held(10), lost(12), again(held(12)), held(13)},
			Outcome{Rate: 13, Try: 3, LowerBound: true, Reason: "no higher rate was rejected"},
		},
		"all held is only a bound":    {[]Try{held(10)}, Outcome{Rate: 10, LowerBound: true, Reason: "every rate that was tried held"}},
		"all rejected is no capacity": {[]Try{lost(10), lost(5)}, Outcome{Try: -1, Rejected: 5}},
		"the generator's limit": {
			[]Try{held(10), {Rate: 20, GeneratorLimited: true, Reason: "late"}},
			Outcome{Rate: 10, Rejected: 20, LowerBound: true, Reason: "late"},
		},
	} {
		got := Conclude(c.history)
		if got.Edge = 0; got != c.want { // see TestEdge
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

// width is the lowest rejected rate over the highest sustained one; 0 without the latter.
func width(o Outcome) float64 {
	if o.Rate == 0 {
		return 0
	}
	return o.Rejected / o.Rate
}

// TestEndOfSearch has what comes next when a confirmation was overturned, or
// when time runs short.
func TestEndOfSearch(t *testing.T) {
	t.Parallel()
	held := func(p Purpose, r float64) Try { return Try{Purpose: p, Rate: r, Held: true} }
	lost := func(p Purpose, r float64) Try { return Try{Purpose: p, Rate: r} }
	cfg := DefaultConfig()
	cfg.Budget = 100 * time.Second // 15 s to confirm, 7.1 s to search, 3.1 s between tries
	bracket := []Try{held(Search, 1000), lost(Search, 1090)}
	far := []Try{held(Search, 1000), lost(Search, 1300)}
	overturned := []Try{held(Search, 1000), held(Search, 1100), lost(Search, 1150), lost(Confirm, 1100)}
	confirmed := append(slices.Clone(bracket), held(Confirm, 1000))
	both := append(slices.Clone(confirmed), lost(Confirm, 1090))
	for name, c := range map[string]struct {
		history []Try
		left    float64 // s
		purpose Purpose // "" is the end
		rate    float64
	}{
		"time for everything":                      {bracket, 60, Search, 1044},
		"time for both ends only":                  {bracket, 45, Confirm, 1000},
		"a far neighbour is not waited for":        {far, 45, Search, 1140},
		"but the winner is":                        {far, 27, Confirm, 1000},
		"then the neighbour":                       {confirmed, 27, Confirm, 1090},
		"a short confirmation is better than none": {bracket, 12, Confirm, 1000},
		"one shorter than a search is not":         {bracket, 10, "", 0},
		"both are confirmed, and time is left":     {both, 40, Search, 1044},
		"both are confirmed":                       {both, 20, "", 0},
		"overturned: the next lower, not between":  {overturned, 60, Confirm, 1000},
	} {
		step, ok := cfg.Next(c.history, cfg.Budget-time.Duration(c.left*1e9), 1000)
		if ok != (c.purpose != "") || ok && (step.Purpose != c.purpose || math.Abs(step.Rate-c.rate) > 1) {
			t.Errorf("%s: next is %+v, %v; want %q at %v", name, step, ok, c.purpose, c.rate)
		}
	}
}

func TestSlowSystemsGetLongerSearches(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	for rate, want := range map[float64]time.Duration{1000: cfg.Budget, 20: cfg.Budget, 5: 40 * time.Second, 1: 200 * time.Second, 0.1: mostBudget} {
		if got := cfg.For(rate).Budget; got != want {
			t.Errorf("%v a second: got %v, want %v", rate, got, want)
		}
	}
	for _, given := range []time.Duration{5 * time.Second, 30 * time.Second, time.Hour} {
		cfg.Budget = given
		if got := cfg.For(0.1).Budget; got != given {
			t.Errorf("got %v of the %v that were given", got, given)
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

// A generator that was held up once is asked again; only what limits twice ends the
// search.
func TestOneHiccupOfTheGeneratorEndsNoSearch(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	for _, hiccup := range []int{1, 2, 3} {
		s := newSystem(5000, 0)
		var history []Try
		var spent time.Duration
		for {
			step, ok := cfg.Next(history, spent, 4700)
			if !ok {
				break
			}
			spent += step.Duration
			try := s.try(step)
			if len(history) == hiccup {
				try.Held, try.GeneratorLimited, try.Reason = false, true, "late"
			}
			history = append(history, try)
		}
		if out := Conclude(history); out.LowerBound || out.Rate > 5000 || out.Rate < 4500 {
			t.Errorf("late in try %d: got %+v, want about 5000; tries %+v", hiccup+1, out, history)
		}
	}
}

// However small the budget, what comes before confirming is to find a rate that does
// not hold: without one all that is known is a lower bound.
func TestASmallBudgetFindsBothEnds(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Budget = 6 * time.Second
	for i := range 100 {
		s := newSystem(140, 0.02)
		s.rng = rand.New(rand.NewPCG(7, uint64(i)))
		var history []Try
		spent := 1600 * time.Millisecond // the sweep
		for {
			step, ok := cfg.Next(history, spent, Start(136, 1, i))
			if !ok {
				break
			}
			spent += step.Duration + 300*time.Millisecond
			history = append(history, s.try(step))
		}
		if out := Conclude(history); out.LowerBound {
			t.Errorf("experiment %d: got %+v, want both ends; tries %+v", i, out, history)
		}
	}
}

// Where only whole numbers are rates, the search tries each at most until it is confirmed, and ends
// with two that are neighbours, however few there are.
func TestWholeRatesFindTheEdgeItself(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Budget, cfg.MinRequests, cfg.Whole, cfg.MaxRate = 10*time.Minute, 1, true, 1000
	for edge := 0.0; edge < 20; edge++ {
		for start := 0.3; start < 40; start *= 1.7 {
			var history []Try
			searched := map[float64]bool{}
			for {
				step, ok := cfg.Next(history, 0, start)
				if !ok {
					break
				}
				if step.Rate != math.Floor(step.Rate) || step.Rate < 1 || step.Purpose == Search && searched[step.Rate] {
					t.Fatalf("edge %v from %v: got %+v after %+v, want a whole rate that is new", edge, start, step, history)
				}
				searched[step.Rate] = true
				history = append(history, Try{Purpose: step.Purpose, Rate: step.Rate, Held: step.Rate <= edge})
			}
			out := Conclude(history)
			if out.Rate != edge || out.Rejected != edge+1 || edge > 0 && !out.Confirmed {
				t.Errorf("edge %v from %v: got %+v, want it and its neighbour, confirmed; tries %+v", edge, start, out, history)
			}
		}
	}
}
