package load

import (
	"math"
	"sort"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
)

func constantRate(rate float64, d time.Duration, process string) *Scenario {
	return &Scenario{Name: "s", Executor: ConstantArrivalRate, Rate: rate, Duration: d, Arrivals: process}
}

func rampingRate(start float64, process string, stages ...Stage) *Scenario {
	return &Scenario{Name: "s", Executor: RampingArrivalRate, StartRate: start, Stages: stages, Arrivals: process}
}

// walk returns the times of all arrivals of s, in seconds.
func walk(s *Scenario, seed uint64) []float64 {
	var times []float64
	for a := NewArrivals(s, seed); ; a.Advance() {
		head, ok := a.Peek()
		if !ok {
			return times
		}
		times = append(times, head.At.Seconds())
	}
}

var curves = map[string]*Scenario{
	"constant":           constantRate(100, 5*time.Second, Poisson),
	"fractional":         constantRate(0.7, 10*time.Second, Poisson),
	"up from nought":     rampingRate(0, Poisson, Stage{10 * time.Second, 200}),
	"down to nought":     rampingRate(200, Poisson, Stage{10 * time.Second, 0}),
	"up, hold, down":     rampingRate(50, Poisson, Stage{4 * time.Second, 300}, Stage{2 * time.Second, 300}, Stage{3 * time.Second, 10}),
	"jumps":              rampingRate(0, Poisson, Stage{0, 100}, Stage{2 * time.Second, 100}, Stage{0, 400}, Stage{2 * time.Second, 400}),
	"silence in between": rampingRate(100, Poisson, Stage{0, 0}, Stage{3 * time.Second, 0}, Stage{0, 100}, Stage{3 * time.Second, 100}),
	"almost level":       rampingRate(1000, Poisson, Stage{10 * time.Second, 1000.0000001}),
	"steep and short":    rampingRate(0, Poisson, Stage{time.Millisecond, 1e6}, Stage{time.Millisecond, 0}),
}

func TestRateCurveIntegral(t *testing.T) {
	t.Parallel()
	tests := []struct {
		curve string
		at    time.Duration
		want  float64
	}{
		{"constant", -time.Second, 0},
		{"constant", 0, 0},
		{"constant", 1250 * time.Millisecond, 125},
		{"constant", time.Hour, 500},
		{"up from nought", 5 * time.Second, 250},
		{"up from nought", 10 * time.Second, 1000},
		{"down to nought", 5 * time.Second, 750},
		{"down to nought", 10 * time.Second, 1000},
		{"up, hold, down", 4 * time.Second, 700},
		{"up, hold, down", 5 * time.Second, 1000},
		{"up, hold, down", 9 * time.Second, 1300 + 465},
		{"jumps", time.Second, 100},
		{"jumps", 3 * time.Second, 600},
		{"silence in between", 2 * time.Second, 0},
		{"silence in between", 4 * time.Second, 100},
		{"steep and short", 2 * time.Millisecond, 1000},
	}
	for _, test := range tests {
		if got := NewRateCurve(curves[test.curve]).Due(test.at); math.Abs(got-test.want) > 1e-9*max(1, test.want) {
			t.Errorf("%s: due(%v) = %v, want %v", test.curve, test.at, got, test.want)
		}
	}
}

// TestRateCurveInversion checks when against due at many places: the inverse is
// exact to a nanosecond's worth of arrivals.
func TestRateCurveInversion(t *testing.T) {
	t.Parallel()
	for name, s := range curves {
		c := NewRateCurve(s)
		legNow := 0
		last := time.Duration(0)
		for i := range 10_000 {
			n := c.total * float64(i) / 10_000
			var at time.Duration
			at, legNow = c.when(n, legNow)
			if at < last || at > c.end {
				t.Fatalf("%s: arrival %v at %v, after one at %v and with the end at %v", name, n, at, last, c.end)
			}
			last = at
			below, above := c.Due(at-2*time.Nanosecond), c.Due(at+2*time.Nanosecond)
			if slack := 1e-9 * c.total; n < below-slack || n > above+slack {
				t.Fatalf("%s: when(%v) = %v, but due there is %v to %v", name, n, at, below, above)
			}
		}
	}
}

// TestUniformArrivalsFollowTheIntegral checks that at any time the number of
// arrivals is the integral of the rate, to the nearest whole number.
func TestUniformArrivalsFollowTheIntegral(t *testing.T) {
	t.Parallel()
	for name, scenario := range curves {
		s := *scenario
		s.Arrivals = Uniform
		c := NewRateCurve(&s)
		times := walk(&s, 1)
		if got, want := len(times), int(math.Round(c.total)); got != want {
			t.Errorf("%s: %d arrivals, want %d", name, got, want)
		}
		for i, at := range times {
			due := c.Due(time.Duration(math.Round(at * 1e9)))
			if want := float64(i) + 0.5; math.Abs(due-want) > 1e-6*max(1, c.total) {
				t.Fatalf("%s: arrival %d when %v are due, want %v", name, i, due, want)
			}
		}
	}
}

func TestUniformArrivalsAtAConstantRate(t *testing.T) {
	t.Parallel()
	s := constantRate(100, time.Second, Uniform)
	s.StartTime = 3 * time.Second
	a := NewArrivals(s, 1)
	for k := range 100 {
		head, ok := a.Peek()
		want := 3*time.Second + time.Duration(k)*10*time.Millisecond + 5*time.Millisecond
		if !ok || head.Number != uint64(k) || (head.At-want).Abs() > 1 {
			t.Fatalf("arrival %d: got %+v, %v, want %v", k, head, ok, want)
		}
		a.Advance()
	}
	if head, ok := a.Peek(); ok {
		t.Errorf("after the last: got %+v, want none", head)
	}
}

// kolmogorov returns the distance between a sample and the exponential
// distribution of mean 1, times √n: below 1.63 in 99 of 100 samples of it.
func kolmogorov(gaps []float64) float64 {
	sorted := append([]float64(nil), gaps...)
	sort.Float64s(sorted)
	n := float64(len(sorted))
	var d float64
	for i, x := range sorted {
		f := 1 - math.Exp(-x)
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d * math.Sqrt(n)
}

// unitGaps maps arrivals back to a process of unit rate and returns its gaps.
func unitGaps(s *Scenario, times []float64) []float64 {
	c := NewRateCurve(s)
	var gaps []float64
	last := 0.0
	for _, at := range times {
		due := c.Due(time.Duration(at * 1e9))
		gaps = append(gaps, due-last)
		last = due
	}
	return gaps
}

func TestPoissonArrivals(t *testing.T) {
	t.Parallel()
	tests := map[string]*Scenario{
		"constant":           constantRate(1000, 20*time.Second, Poisson),
		"up from nought":     rampingRate(0, Poisson, Stage{20 * time.Second, 2000}),
		"down to nought":     rampingRate(2000, Poisson, Stage{20 * time.Second, 0}),
		"up, hold, down":     rampingRate(100, Poisson, Stage{10 * time.Second, 2000}, Stage{5 * time.Second, 2000}, Stage{10 * time.Second, 50}),
		"silence in between": rampingRate(1000, Poisson, Stage{5 * time.Second, 1000}, Stage{0, 0}, Stage{5 * time.Second, 0}, Stage{0, 2000}, Stage{5 * time.Second, 2000}),
	}
	for name, s := range tests {
		for seed := range uint64(5) {
			times := walk(s, seed)
			total := NewRateCurve(s).total
			// A Poisson count has the variance of its mean.
			if d := math.Abs(float64(len(times)) - total); d > 4.5*math.Sqrt(total) {
				t.Errorf("%s, seed %d: %d arrivals, want %.0f within 4.5 standard deviations", name, seed, len(times), total)
			}
			gaps := unitGaps(s, times)
			if d := kolmogorov(gaps); d > 2 { // p = 0.0007
				t.Errorf("%s, seed %d: gaps are %.2f from exponential, want below 2", name, seed, d)
			}
			// Neighbouring gaps are independent: their correlation is about
			// normal with variance 1/n.
			var sum float64
			for i := 1; i < len(gaps); i++ {
				sum += (gaps[i] - 1) * (gaps[i-1] - 1)
			}
			if z := sum / math.Sqrt(float64(len(gaps))); math.Abs(z) > 4.5 {
				t.Errorf("%s, seed %d: neighbouring gaps are correlated (z = %.1f)", name, seed, z)
			}
		}
	}
}

// TestPoissonTestsCanFail feeds the check above with what is not Poisson.
func TestPoissonTestsCanFail(t *testing.T) {
	t.Parallel()
	even := constantRate(1000, 20*time.Second, Uniform)
	if d := kolmogorov(unitGaps(even, walk(even, 1))); d < 2 {
		t.Errorf("evenly spaced arrivals pass as Poisson (%.2f)", d)
	}
	// A ramp's arrivals, taken for those of a constant rate.
	ramp := rampingRate(500, Poisson, Stage{20 * time.Second, 1500})
	level := constantRate(1000, 20*time.Second, Poisson)
	if d := kolmogorov(unitGaps(level, walk(ramp, 1))); d < 2 {
		t.Errorf("a ramp passes for a constant rate (%.2f)", d)
	}
}

// TestStrata: each has as many arrivals as are due in it, at any moment of it alike, and those in
// it are spaced as by chance.
func TestStrata(t *testing.T) {
	t.Parallel()
	const stratum = 50
	for name, s := range map[string]*Scenario{
		"constant":       constantRate(1000, 20*time.Second, Poisson),
		"up from nought": rampingRate(0, Poisson, Stage{20 * time.Second, 2000}),
	} {
		s.Stratum = stratum
		c := NewRateCurve(s)
		for seed := range uint64(5) {
			times := walk(s, seed)
			if len(times) != int(c.total) {
				t.Errorf("%s, seed %d: %d arrivals, want %.0f", name, seed, len(times), c.total)
			}
			counts, within := make([]int, int(c.total)/stratum), make([]float64, 0, len(times))
			for _, at := range times {
				which, where := math.Modf(c.Due(time.Duration(at*1e9)) / stratum)
				counts[int(which)]++
				within = append(within, -math.Log(1-where)) // exponential if where is uniform
			}
			for i, n := range counts {
				// Rounding to nanoseconds may take one across a border.
				if n < stratum-1 || n > stratum+1 {
					t.Fatalf("%s, seed %d: stratum %d has %d arrivals, want %d", name, seed, i, n, stratum)
				}
			}
			if d := kolmogorov(within); d > 2 {
				t.Errorf("%s, seed %d: places in strata are %.2f from uniform, want below 2", name, seed, d)
			}
			// Gaps of n places in a stretch vary as n/(n+2) of what exponential ones do.
			gaps := unitGaps(s, times)
			if v := stat.Variance(gaps, nil); v < 0.9 || v > 1.05 {
				t.Errorf("%s, seed %d: gaps have a variance of %.2f, want about %.2f", name, seed, v, stratum/(stratum+2.0))
			}
		}
	}
	// The first may be shorter, the last is as far as it is due, and one may outlast the load.
	for _, c := range []struct{ first, stratum, low, high int }{{0, 50, 20_000, 20_017}, {17, 50, 20_017, 20_017}, {30, 50, 20_000, 20_017}, {0, 1 << 20, 19_400, 20_600}} {
		s := constantRate(1000.85, 20*time.Second, Poisson)
		s.FirstStratum, s.Stratum = c.first, c.stratum
		if n := len(walk(s, 3)); n < c.low || n > c.high {
			t.Errorf("strata of %d, the first of %d: %d arrivals of 20,017 that are due, want %d to %d", c.stratum, c.first, n, c.low, c.high)
		}
	}
	left := constantRate(1000, 20*time.Second, Poisson)
	if n := len(walk(left, 1)); n == 20_000 {
		t.Error("without strata just as many arrivals come as are due: the seed shows nothing")
	}
}

func TestArrivalsComeFromTheSeed(t *testing.T) {
	t.Parallel()
	s := constantRate(1000, time.Second, Poisson)
	first, again, other := walk(s, 1), walk(s, 1), walk(s, 2)
	renamed := *s
	renamed.Name = "another"
	if !equal(first, again) {
		t.Error("the same seed gives other arrivals")
	}
	if equal(first, other) || equal(first, walk(&renamed, 1)) {
		t.Error("another seed, or another scenario, gives the same arrivals")
	}
	// Fixed for good: a stored seed must mean the same load in later versions.
	for i, want := range []float64{0.001531498, 0.002212958, 0.002237784} {
		if got := first[i]; math.Abs(got-want) > 1e-9 {
			t.Errorf("arrival %d of seed 1 is at %.9f, want %.9f", i, got, want)
		}
	}
}

func TestArrivalsAllocateNothing(t *testing.T) {
	a := NewArrivals(constantRate(1e6, time.Hour, Poisson), 1)
	if n := testing.AllocsPerRun(1000, a.Advance); n != 0 {
		t.Errorf("got %v allocations for an arrival, want 0", n)
	}
}

func equal(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func FuzzArrivalsStayInOrder(f *testing.F) {
	f.Add(uint64(1), 10.0, uint32(1000), 200.0, uint32(500), 0.0)
	f.Add(uint64(2), 0.0, uint32(0), 50.0, uint32(1), 0.001)
	f.Fuzz(func(t *testing.T, seed uint64, start float64, ms1 uint32, rate1 float64, ms2 uint32, rate2 float64) {
		ok := func(r float64) bool { return r >= 0 && r <= 1e5 }
		if !ok(start) || !ok(rate1) || !ok(rate2) {
			t.Skip()
		}
		d := func(ms uint32) time.Duration { return time.Duration(ms%5000) * time.Millisecond }
		for _, process := range []string{Poisson, Uniform, "strata"} {
			s := rampingRate(start, process, Stage{d(ms1), rate1}, Stage{d(ms2), rate2})
			if process == "strata" {
				s.Arrivals, s.Stratum = Poisson, 1+int(seed%100)
			}
			a := NewArrivals(s, seed)
			last := Arrival{}
			for n := range uint64(2000) {
				head, more := a.Peek()
				if !more {
					break
				}
				if head.At < last.At || head.At > s.Length() || head.Number != n {
					t.Fatalf("%s: %+v after %+v, in a load of %v", process, head, last, s.Length())
				}
				last = head
				a.Advance()
			}
		}
	})
}
