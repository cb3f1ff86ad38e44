package load

import (
	"math"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// SampleEvery is how often the work in flight is sampled for its Trend.
const SampleEvery = 50 * time.Millisecond

// QuotaPeriod is that of CPU quotas where nobody says otherwise: the 100 ms of Linux, Docker and
// Kubernetes.
const QuotaPeriod = 100 * time.Millisecond

// The confidence of a published Trend, and of one that ends a load early,
// which is looked at again and again and so has many chances to err.
const (
	TrendConfidence = 0.95
	StopConfidence  = 0.999
)

const (
	// MinSamples is how many samples a Trend needs to have bounds at all.
	MinSamples = 10
	// maxSamples bounds what a fit keeps: one minute of samples. After that it
	// keeps every second one, then every fourth, and so on.
	maxSamples = 1200
	// minGrowth is the number of requests below which more work in flight is
	// ebb and flow, and no backlog.
	minGrowth = 10
)

// Growing says whether a backlog builds up without doubt: the slope is above
// zero at 95 % confidence, above 2 % of offeredRate (in requests per second),
// below which it does not matter for the length of a trial, and has added at
// least ten requests over the samples.
//
// It is about open models: with no samples (a closed model has none) or fewer
// than ten it is false. And it is about growth: a backlog that has reached its
// bound, because requests time out or are dropped, grows no more. Look at
// Dropped and Failed as well.
func (t Trend) Growing(offeredRate float64) bool {
	growth := t.Slope * float64(t.Samples) * SampleEvery.Seconds()
	return t.Samples >= MinSamples && t.Low > 0 && t.Slope > offeredRate/50 && growth >= minGrowth
}

// TrendFit fits a line to samples of the work in flight, taken at even times.
//
// # Why not the textbook interval
//
// A queue remembers: what waits now was mostly waiting 50 ms ago. The usual
// interval of least squares takes samples for independent and would be many
// times too narrow: near saturation it finds a "significant" trend in most
// runs of a perfectly stable queue.
//
// # The model
//
//	y(i) = α + β·t(i) + γ·a(i) + e(i),     with e(i) = φ·e(i-1) + u(i)
//
// y is the work in flight and β the slope that is wanted. a is how many more
// arrivals have come by t(i) than the rate called for: chance, which the
// generator knows exactly because it made the schedule. A saturated server
// leaves every surplus arrival in the backlog (γ is 1), one with room to spare
// works it off (γ is 0), and least squares finds out which. Without this term
// Poisson arrivals at rate λ alone make the slope uncertain by √(1.2·λ/T) over
// T seconds: 20 per second at 1,000 requests a second and T = 3, so that an
// overload of 5 % is found in two of three trials; with it, what is left is the
// noise of the server. Evenly spaced arrivals have no surplus; the term is then
// left out.
//
// The deviations e are correlated, and taken for a first-order autoregressive
// process. φ is estimated from the residuals. That estimate is too low in short
// series, because the line follows part of the wandering: (2+4φ)/n is added
// back (after Kendall, Note on bias in the estimation of autocorrelation,
// Biometrika 41, 1954). A value within 20/n of 1 cannot be told from 1: that is
// the 5 % point of the test for a random walk about a trend (Dickey and Fuller,
// Distribution of the estimators for autoregressive time series with a unit
// root, JASA 74, 1979), and 1 it is then, because a random walk is what a
// saturated queue is. Simulated queues choose these numbers over neater ones:
// see the tests.
//
// # The interval
//
// β is a weighted sum of samples, Σw(i)·y(i), and so a weighted sum of the
// independent u: each u(k) enters with W(k) = Σ(i≥k) w(i)·φ^(i-k). Its variance
// is σ²·ΣW(k)², exactly, given φ. With φ = 0 that is the textbook's; with φ = 1
// and no surplus it tends to 6/5·σ²/T, where σ² is the walk's variance per
// second (Durlauf and Phillips, Trends versus random walks in time series
// analysis, Econometrica 56, 1988).
type TrendFit struct {
	t, y, a []float64
	taken   int // samples offered to add
	stride  int // every how many of them one is kept
}

// Add takes a sample: at t seconds y requests are in flight, and surplus more
// arrivals have come than the rate called for.
func (f *TrendFit) Add(t, y, surplus float64) {
	f.stride = max(f.stride, 1)
	keep := f.taken%f.stride == 0
	f.taken++
	if !keep {
		return
	}
	f.t, f.y, f.a = append(f.t, t), append(f.y, y), append(f.a, surplus)
	if len(f.t) == maxSamples {
		for _, x := range []*[]float64{&f.t, &f.y, &f.a} {
			for i := range maxSamples / 2 {
				(*x)[i] = (*x)[2*i]
			}
			*x = (*x)[:maxSamples/2]
		}
		f.stride *= 2
	}
}

// Samples is how many samples were offered to add.
func (f *TrendFit) Samples() int { return f.taken }

// growth is how much more is in flight at the last sample than at the first.
func (f *TrendFit) growth() float64 {
	if len(f.y) == 0 {
		return 0
	}
	return f.y[len(f.y)-1] - f.y[0]
}

// Trend returns the line's slope with its bounds at the given confidence.
func (f *TrendFit) Trend(confidence float64) Trend {
	result := Trend{Samples: f.taken}
	if len(f.t) < MinSamples {
		return result
	}
	n := float64(len(f.t))
	t, y, a := centred(f.t), centred(f.y), centred(f.a)
	estimated := 3.0 // coefficients: α, β, γ
	if floats.Dot(a, a)/n < 1 {
		clear(a)
		estimated = 2
	}
	w := slopeWeights(t, a)
	result.Slope = floats.Dot(w, y)
	e := y
	floats.AddScaled(e, -result.Slope, t)
	if aa := floats.Dot(a, a); aa > 0 {
		floats.AddScaled(e, -floats.Dot(a, e)/aa, a)
	}
	phi := autocorrelation(e)
	freedom := n - 1 - estimated
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: freedom}.Quantile((1+confidence)/2) *
		math.Sqrt(shockVariance(e, phi, freedom)*shockWeight(w, phi))
	result.Low, result.High = result.Slope-half, result.Slope+half
	return result
}

// centred returns x less its mean.
func centred(x []float64) []float64 {
	c := append([]float64(nil), x...)
	floats.AddConst(-stat.Mean(x, nil), c)
	return c
}

// slopeWeights returns the weights w of the least-squares slope on t beside a:
// what is left of t when a has explained what it can, scaled to Σw·t = 1. It
// clears a if that leaves nothing.
func slopeWeights(t, a []float64) []float64 {
	w := append([]float64(nil), t...)
	if aa := floats.Dot(a, a); aa > 0 {
		floats.AddScaled(w, -floats.Dot(t, a)/aa, a)
	}
	scale := floats.Dot(w, t)
	if tt := floats.Dot(t, t); scale < tt/1e6 {
		// The surplus is itself a line: nothing can tell the two apart.
		copy(w, t)
		clear(a)
		scale = tt
	}
	floats.Scale(1/scale, w)
	return w
}

// autocorrelation estimates φ from residuals, between 0 and 1.
func autocorrelation(e []float64) float64 {
	const unitRoot = 20
	n := float64(len(e))
	var phi float64
	if own := floats.Dot(e, e); own > 0 {
		phi = floats.Dot(e[1:], e[:len(e)-1]) / own
	}
	phi += (2 + 4*phi) / n
	if phi > 1-unitRoot/n {
		return 1
	}
	return max(phi, 0)
}

// shockVariance is the variance of u. It is at least that of rounding: requests
// are whole, and a line through whole numbers can look more exact than it is.
func shockVariance(e []float64, phi, freedom float64) float64 {
	const rounding = 1.0 / 12
	var sum float64
	for i := 1; i < len(e); i++ {
		u := e[i] - phi*e[i-1]
		sum += u * u
	}
	return max(sum/freedom, rounding)
}

// shockWeight is ΣW(k)². The first sample stands for all that came before it,
// whose variance is 1/(1-φ²) times that of u; in a random walk it drops out,
// because the weights add up to nought.
func shockWeight(w []float64, phi float64) float64 {
	var sum, weight float64
	for i := len(w) - 1; i >= 1; i-- {
		weight = w[i] + phi*weight
		sum += weight * weight
	}
	if phi < 1 {
		weight = w[0] + phi*weight
		sum += weight * weight / (1 - phi*phi)
	}
	return sum
}

// Overload says whether the samples so far are enough to end a load that
// arrives at rate per second: half a second of samples, a backlog that has
// grown by what arrives in 100 ms and by ten requests at least, and a slope
// above 5 % of the rate and, at 99.9 % confidence, above nought. It says so after whole
// periods of CPU quotas only, so that what is completed until then is not more or less by one of
// their parts.
func (f *TrendFit) Overload(rate float64) bool {
	if f.taken < MinSamples || f.growth() < max(rate/10, minGrowth) {
		return false
	}
	n := math.Round((f.t[len(f.t)-1] - f.t[0]) / SampleEvery.Seconds())
	if n < MinSamples || math.Mod(n, float64(QuotaPeriod/SampleEvery)) != 0 {
		return false
	}
	t := f.Trend(StopConfidence)
	return t.Low > 0 && t.Slope > rate/20
}
