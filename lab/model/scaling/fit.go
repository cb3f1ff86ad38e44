package scaling

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"loadstone/lab/stats"
)

// Fit says how well a curve meets the measurements. All figures are relative:
// 0.05 is 5 %.
type Fit struct {
	// Noise is the standard deviation of a trial around the curve.
	Noise float64 `json:"noise"`
	// Misfit is by how much the curve misses the typical trial of a size
	// (root mean square over sizes), Worst by how much at most, at size WorstAt.
	Misfit  float64 `json:"misfit"`
	Worst   float64 `json:"worst"`
	WorstAt float64 `json:"worst_at"`
	// P is the chance of such a misfit if the curve were right: the F-test for
	// lack of fit, against the scatter of trials at the same size (Draper and
	// Smith, Applied Regression Analysis, 2.1). It is 1 where trials or sizes
	// are too few to test.
	P float64 `json:"p"`
	// Good is false where the curve is the wrong shape; Reason says why.
	Good   bool   `json:"good"`
	Reason string `json:"reason,omitempty"`
}

// A misfit that is certain but smaller than tolerable has no consequence for
// planning. One that is intolerable is bad even if the trials cannot prove it.
const (
	tolerable   = 0.03
	intolerable = 0.15
)

func fitness(points []Point, df, parameters int, curve func(n float64) float64) Fit {
	bySize := make(map[float64][]float64)
	sum := 0.0
	for _, p := range points {
		e := math.Log(p.X / curve(p.N))
		bySize[p.N] = append(bySize[p.N], e)
		sum += e * e
	}
	f := Fit{P: 1, Good: true}
	if df > 0 {
		f.Noise = math.Sqrt(sum / float64(df))
	}
	pure, lack := 0.0, 0.0
	for _, n := range slices.Sorted(maps.Keys(bySize)) { // sums must not depend on the order of a map
		es := bySize[n]
		m := stats.Mean(es)
		for _, e := range es {
			pure += (e - m) * (e - m)
		}
		lack += float64(len(es)) * m * m
		f.Misfit += m * m / float64(len(bySize))
		if w := math.Abs(math.Expm1(m)); w > f.Worst || w == f.Worst {
			f.Worst, f.WorstAt = w, n
		}
	}
	f.Misfit = math.Sqrt(f.Misfit)
	dfPure, dfLack := len(points)-len(bySize), len(bySize)-parameters
	if dfPure > 0 && dfLack > 0 {
		ratio := lack / float64(dfLack) / (floor(pure, dfPure) / float64(dfPure))
		f.P = distuv.F{D1: float64(dfLack), D2: float64(dfPure)}.Survival(ratio)
	}
	if f.Misfit > intolerable || f.P < 0.05 && f.Misfit > tolerable {
		f.Good = false
		f.Reason = fmt.Sprintf("it misses them by %.0f %% on average and by %.0f %% at size %.4g", 100*f.Misfit, 100*f.Worst, f.WorstAt)
	}
	return f
}

// Ceiling is a line that ends at a limit: X(N) = min(Each·N, Flat).
type Ceiling struct {
	Each stats.Interval `json:"each"` // throughput per unit of size, below the limit
	Flat stats.Interval `json:"flat"` // the limit; 0 if none was reached
	// From is the size at which the limit is reached, Flat/Each.
	From float64 `json:"from"`
	Fit  Fit     `json:"fit"`

	sum float64
}

// FitCeiling fits min(λN, B), by least squares on ln X over every place where
// the bend can be. It errs as FitLaw does.
func FitCeiling(points []Point) (*Ceiling, error) {
	sizes, err := check(points)
	if err != nil {
		return nil, err
	}
	best := &Ceiling{sum: math.Inf(1)}
	for i, n := range sizes {
		c := bendAt(points, n) // the bend exactly at a size; at the last one there is none
		if c.sum < best.sum {
			best = c
		}
		if i+1 == len(sizes) {
			continue
		}
		if c := split(points, n); c.sum < best.sum && c.From >= n && c.From <= sizes[i+1] {
			best = c
		}
	}
	if best.From >= sizes[len(sizes)-1]*(1-1e-9) {
		best.Flat, best.From = stats.Interval{}, 0
	}
	parameters := 2
	if best.From == 0 {
		parameters = 1
	}
	best.Fit = fitness(points, len(points)-parameters, parameters, best.At)
	best.intervals(points)
	return best, nil
}

// split fits the line to sizes up to n and the limit to those above.
func split(points []Point, n float64) *Ceiling {
	var low, high []float64
	for _, p := range points {
		if p.N <= n {
			low = append(low, math.Log(p.X/p.N))
		} else {
			high = append(high, math.Log(p.X))
		}
	}
	return ceiling(points, math.Exp(stats.Mean(low)), math.Exp(stats.Mean(high)))
}

func bendAt(points []Point, n float64) *Ceiling {
	var logs []float64
	for _, p := range points {
		logs = append(logs, math.Log(p.X/min(p.N, n)))
	}
	each := math.Exp(stats.Mean(logs))
	return ceiling(points, each, each*n)
}

func ceiling(points []Point, each, flat float64) *Ceiling {
	c := &Ceiling{Each: stats.Interval{Value: each}, Flat: stats.Interval{Value: flat}, From: flat / each}
	for _, p := range points {
		e := math.Log(p.X / c.At(p.N))
		c.sum += e * e
	}
	return c
}

// At is the throughput at size n.
func (c *Ceiling) At(n float64) float64 {
	if c.Flat.Value == 0 {
		return c.Each.Value * n
	}
	return min(c.Each.Value*n, c.Flat.Value)
}

// intervals are Student's, on the logarithms of either side, with the scatter
// of both.
func (c *Ceiling) intervals(points []Point) {
	below, above := 0, 0
	for _, p := range points {
		if c.From == 0 || p.N <= c.From {
			below++
		} else {
			above++
		}
	}
	width := func(iv *stats.Interval, n, df int) {
		iv.Low, iv.High = iv.Value, iv.Value
		if n == 0 || df < 1 || iv.Value == 0 {
			return
		}
		t := distuv.StudentsT{Sigma: 1, Nu: float64(df)}.Quantile(1 - (1-Level)/2)
		by := math.Exp(t * c.Fit.Noise / math.Sqrt(float64(n)))
		iv.Low, iv.High, iv.Confidence = iv.Value/by, iv.Value*by, Level
	}
	df := len(points) - 2
	if c.From == 0 {
		df++
	}
	width(&c.Each, below, df)
	width(&c.Flat, above, df)
}

// Shape says which curve the measurements speak for.
type Shape string

const (
	// Smooth is the law's curve.
	Smooth Shape = "law"
	// Bent is the ceiling's: another component took over.
	Bent Shape = "ceiling"
	// Neither describes the measurements: no prediction should be made.
	Neither Shape = "neither"
)

// Description is both fits and the choice between them.
type Description struct {
	Law     *Law     `json:"law"`
	Ceiling *Ceiling `json:"ceiling"`
	Shape   Shape    `json:"shape"`
	Reason  string   `json:"reason"`
}

// Describe fits both curves. A ceiling is preferred where it has two measured
// sizes on either side of its bend and explains the measurements clearly better
// than the law: by more than 2 of Akaike's criterion, corrected for few points
// (Burnham and Anderson, Model Selection and Multimodel Inference, 2.4 and 2.6).
// It errs as FitLaw does.
func Describe(points []Point) (*Description, error) {
	law, err := FitLaw(points)
	if err != nil {
		return nil, fmt.Errorf("fit the scalability law: %w", err)
	}
	c, err := FitCeiling(points)
	if err != nil {
		return nil, fmt.Errorf("fit a ceiling: %w", err)
	}
	d := &Description{Law: law, Ceiling: c, Shape: Smooth, Reason: "the law describes the measurements"}
	gain := criterion(law.chosen, len(points), law.free) - criterion(c.sum, len(points), 2)
	switch {
	case c.bent(points) && c.Fit.Good && gain > 2:
		d.Shape = Bent
		d.Reason = fmt.Sprintf("throughput grows by %.3g per unit and stops at %.3g from size %.2g on: another component took over",
			c.Each.Value, c.Flat.Value, c.From)
	case !law.Fit.Good:
		d.Shape, d.Reason = Neither, law.Fit.Reason
	}
	return d, nil
}

// Value is the throughput at size n, 1 or more, by the curve that Shape names; by
// the law where neither is good.
func (d *Description) Value(n float64) float64 {
	if d.Shape == Bent {
		return d.Ceiling.At(n)
	}
	return d.Law.curve(n)
}

// bent says whether two sizes or more lie on either side of the bend.
func (c *Ceiling) bent(points []Point) bool {
	var low, high []float64
	for _, p := range points {
		if p.N <= c.From*(1+1e-9) {
			low = append(low, p.N)
		}
		if p.N >= c.From*(1-1e-9) {
			high = append(high, p.N)
		}
	}
	distinct := func(xs []float64) int {
		slices.Sort(xs)
		return len(slices.Compact(xs))
	}
	return c.From > 0 && distinct(low) >= 2 && distinct(high) >= 2
}

// criterion is Akaike's, corrected. The noise counts as a parameter; noise
// below 0.1 % is taken as that, because curves are not that exact.
func criterion(sum float64, n, parameters int) float64 {
	size, k := float64(n), float64(parameters+1)
	a := size*math.Log(max(sum/size, 1e-6)) + 2*k
	if size-k-1 < 1 {
		return a + 2*k*(k+1) // too few trials: the strongest correction that is finite
	}
	return a + 2*k*(k+1)/(size-k-1)
}
