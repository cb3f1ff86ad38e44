package load

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// queueSamples simulates a queue with Poisson arrivals at rate and one server:
// service gives the seconds that the next request takes. It fits the number in
// the system each SampleEvery, from the first second on, for length seconds.
func queueSamples(random *rand.Rand, rate, length float64, service func() float64, take func(t, y, surplus float64)) {
	const warmup = 1
	every := SampleEvery.Seconds()
	due := float64(warmup)
	var leaves []float64 // departure times of those in the system
	var free, now, arrived float64
	for due < warmup+length {
		now += random.ExpFloat64() / rate
		for due < now && due < warmup+length {
			for len(leaves) > 0 && leaves[0] <= due {
				leaves = leaves[1:]
			}
			take(due, float64(len(leaves)), arrived-rate*due)
			due += every
		}
		arrived++
		free = max(free, now) + service()
		leaves = append(leaves, free)
	}
}

func TestTrendOfSimulatedQueues(t *testing.T) {
	t.Parallel()
	const runs = 100
	fixed, exponential := "fixed", "exponential"
	tests := []struct {
		capacity, seconds, rho float64
		service                string
		least, most            float64 // share of runs that are growing
		mostStopped            float64
		leastStopped           float64
	}{
		// Stable queues: false alarms are rare.
		{1000, 3, 0.80, fixed, 0, 0.02, 0.01, 0},
		{1000, 3, 0.95, fixed, 0, 0.04, 0.01, 0},
		{1000, 3, 0.80, exponential, 0, 0.02, 0.01, 0},
		{1000, 3, 0.95, exponential, 0, 0.08, 0.03, 0},
		{5000, 3, 0.95, exponential, 0, 0.04, 0.02, 0},
		{200, 5, 0.80, exponential, 0, 0.05, 0.05, 0},
		{200, 5, 0.95, exponential, 0, 0.12, 0.08, 0},
		// Overloaded ones are found, and those that cannot be missed end early.
		{1000, 3, 1.05, fixed, 0.95, 1, 1, 0},
		{200, 3, 1.05, fixed, 0.90, 1, 1, 0},
		{5000, 3, 1.05, exponential, 0.95, 1, 1, 0},
		{1000, 10, 1.05, exponential, 0.95, 1, 1, 0},
		{1000, 3, 1.30, exponential, 0.99, 1, 1, 0.99},
		{1000, 3, 1.20, fixed, 0.99, 1, 1, 0.99},
	}
	for _, test := range tests {
		var growing, stopped float64
		for seed := range uint64(runs) {
			random := rand.New(rand.NewPCG(seed, 7))
			service := func() float64 { return 1 / test.capacity }
			if test.service == exponential {
				service = func() float64 { return random.ExpFloat64() / test.capacity }
			}
			rate := test.rho * test.capacity
			var fit TrendFit
			stops := false
			queueSamples(random, rate, test.seconds, service, func(t, y, surplus float64) {
				fit.Add(t, y, surplus)
				stops = stops || fit.Overload(rate)
			})
			if fit.Trend(TrendConfidence).Growing(rate) {
				growing += 1.0 / runs
			}
			if stops {
				stopped += 1.0 / runs
			}
		}
		if growing < test.least-1e-9 || growing > test.most+1e-9 {
			t.Errorf("%+v: growing in %.3f of runs, want %.2f to %.2f", test, growing, test.least, test.most)
		}
		if stopped < test.leastStopped-1e-9 || stopped > test.mostStopped+1e-9 {
			t.Errorf("%+v: stopped in %.3f of runs, want %.2f to %.2f", test, stopped, test.leastStopped, test.mostStopped)
		}
	}
}

func TestTrendOfExactLines(t *testing.T) {
	t.Parallel()
	for _, slope := range []float64{0, 3, -40, 1000} {
		var fit TrendFit
		for i := range 100 {
			x := float64(i) * SampleEvery.Seconds()
			fit.Add(1e6+x, 5000+slope*x, 0)
		}
		got := fit.Trend(TrendConfidence)
		if math.Abs(got.Slope-slope) > 1e-3 || got.Low > slope || got.High < slope || got.High-got.Low > 4 {
			t.Errorf("slope %v: got %+v", slope, got)
		}
		if want := slope > 10; got.Growing(1000) != want {
			t.Errorf("slope %v at 1000/s: growing %v, want %v", slope, !want, want)
		}
	}
}

// TestTrendIntervalCovers checks the claim the interval rests on:
// when the backlog is a random walk, 95 % of the intervals hold the true drift.
// Independent errors are the other end. The textbook's interval fails here.
func TestTrendIntervalCovers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		phi         float64
		least, most float64
	}{
		{"white noise", 0, 0.92, 0.995},
		{"short memory", 0.5, 0.90, 0.995},
		{"random walk", 1, 0.88, 0.98},
	} {
		const runs, n, drift = 1000, 100, 7.0
		covered, textbook := 0, 0
		random := rand.New(rand.NewPCG(1, 2))
		for range runs {
			var fit TrendFit
			e := 0.0
			for i := range n {
				e = test.phi*e + 5*random.NormFloat64()
				x := float64(i) * SampleEvery.Seconds()
				fit.Add(x, drift*x+e, 0)
			}
			got := fit.Trend(TrendConfidence)
			if got.Low <= drift && drift <= got.High {
				covered++
			}
			w := slopeWeights(centred(fit.t), make([]float64, n))
			res := centred(fit.y)
			var ss float64
			for i := range res {
				r := res[i] - got.Slope*(fit.t[i]-fit.t[n/2]+SampleEvery.Seconds()/2)
				ss += r * r
			}
			half := 1.984 * math.Sqrt(ss/(n-2)*shockWeight(w, 0))
			if math.Abs(got.Slope-drift) <= half {
				textbook++
			}
		}
		if share := float64(covered) / runs; share < test.least || share > test.most {
			t.Errorf("%s: %.3f of intervals cover the drift, want %.2f to %.3f", test.name, share, test.least, test.most)
		}
		if share := float64(textbook) / runs; test.phi == 1 && share > 0.5 {
			t.Errorf("%s: the textbook's interval covers %.3f; the correction would not be needed", test.name, share)
		}
	}
}

func TestTrendKeepsBoundedSamples(t *testing.T) {
	t.Parallel()
	var fit TrendFit
	const n = 50_000
	for i := range n {
		x := float64(i) * SampleEvery.Seconds()
		fit.Add(x, 12*x, 0)
	}
	got := fit.Trend(TrendConfidence)
	if len(fit.t) >= maxSamples || cap(fit.t) > 4*maxSamples {
		t.Errorf("kept %d samples with room for %d, want below %d", len(fit.t), cap(fit.t), maxSamples)
	}
	if got.Samples != n || math.Abs(got.Slope-12) > 1e-6 {
		t.Errorf("got %+v, want slope 12 of %d samples", got, n)
	}
}

// TestTrendBesideASurplusThatIsALine: no number may come out that JSON cannot
// carry, however odd the samples.
func TestTrendBesideASurplusThatIsALine(t *testing.T) {
	t.Parallel()
	var fit TrendFit
	for i := range 100 {
		x := float64(i) * SampleEvery.Seconds()
		fit.Add(x, 50*x, 20*x)
	}
	if got := fit.Trend(TrendConfidence); math.Abs(got.Slope-50) > 1e-6 || math.IsNaN(got.Low) || math.IsNaN(got.High) {
		t.Errorf("got %+v, want slope 50", got)
	}
}

// An overload ends a load after whole periods of CPU quotas, whether or not a sample was missed.
func TestOverloadEndsAfterWholePeriods(t *testing.T) {
	t.Parallel()
	for _, missed := range []int{-1, 3, 8} {
		var fit TrendFit
		stops := 0
		for i := range 40 {
			if i == missed {
				continue
			}
			late := []float64{0.002, 0.001, 0.0005}[i%3] // as timers are
			fit.Add(7+float64(i)*SampleEvery.Seconds()+late, 100*float64(i), 0)
			if !fit.Overload(1000) {
				continue
			}
			if stops == 0 && missed < 0 && i != MinSamples {
				t.Errorf("ends after %v first, want half a second", time.Duration(i)*SampleEvery)
			}
			if stops++; i%int(QuotaPeriod/SampleEvery) != 0 {
				t.Errorf("without sample %d: ends after %v", missed, time.Duration(i)*SampleEvery)
			}
		}
		if stops < 10 {
			t.Errorf("without sample %d: would end at %d of 40 samples", missed, stops)
		}
	}
}

func TestTrendNeedsSamples(t *testing.T) {
	t.Parallel()
	var fit TrendFit
	for i := range MinSamples - 1 {
		fit.Add(float64(i), 1000*float64(i), 0)
	}
	got := fit.Trend(TrendConfidence)
	if got.Slope != 0 || got.Growing(1) || fit.Overload(1) {
		t.Errorf("got %+v from %d samples, want no trend", got, got.Samples)
	}
}
