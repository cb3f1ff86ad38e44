package perturb

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"loadstone/lab/stats"
)

// Elasticity is by how many per cent throughput and latency change for one per
// cent more of a resource: d ln X / d ln c. Of the component that limits a
// system it is about 1 for throughput, of all others about 0; two that limit it
// together share the 1.
type Elasticity struct {
	// Targets are what was changed: one, or a group that was changed together.
	Targets    []Target       `json:"targets"`
	Throughput stats.Interval `json:"throughput"`
	P95        stats.Interval `json:"p95"`
	// P95OfMore is that of steps up alone, nil if there are none: too small a pool may spread response times
	// more widely, though a larger one gains nothing.
	P95OfMore *stats.Interval `json:"p95_of_more,omitempty"`
	// Blocks is how many pairs of slots it is from.
	Blocks int `json:"blocks"`
}

// lateSet is the share of a slot that may pass before its setting is in force.
const lateSet = 0.2

// minFreedom is how many blocks more than targets there must be: with one, the
// interval would be ±12.7 deviations.
const minFreedom = 2

// Estimate derives the elasticities from a trial's slots, in the order in which
// the targets first came. It is nil while there are too few slots for intervals.
//
// Each block gives one slope, by least squares through its slots on a log-log
// scale, relative to the line between its unperturbed neighbours. A target's
// elasticity is the mean of its slopes, weighted by what the steps of a block can
// tell, with outliers drawn in (Huber's proposal 2 with c = 2: Robust Statistics,
// 1981, 6.4). The deviation is estimated from the blocks of all targets together,
// since what makes slots vary is the machine, and the interval is Student's t
// with as many degrees of freedom as there are blocks beyond the targets.
// Looking at the intervals to decide when to stop costs a little coverage:
// simulated with 5 and 15 % of noise and with drift, they hold the truth in more
// than 92 % of the cases.
func Estimate(slots []Slot) []Elasticity {
	throughput := fit(blocksOf(slots, (*Slot).Throughput))
	latency := func(s *Slot) float64 { return s.P95 }
	p95 := fit(blocksOf(slots, latency))
	more := fit(blocksOf(slices.DeleteFunc(slices.Clone(slots), func(s Slot) bool { return s.Factor < 1 }), latency))
	var out []Elasticity
	for _, f := range throughput {
		e := Elasticity{Targets: f.targets, Throughput: f.Interval, Blocks: f.blocks}
		i := slices.IndexFunc(p95, func(l fitted) bool { return slices.Equal(l.targets, f.targets) })
		if i < 0 {
			continue // no latency means no answers
		}
		e.P95 = p95[i].Interval
		if i := slices.IndexFunc(more, func(l fitted) bool { return slices.Equal(l.targets, f.targets) }); i >= 0 {
			e.P95OfMore = &more[i].Interval
		}
		out = append(out, e)
	}
	return out
}

// block is what one pair of slots says.
type block struct {
	targets []Target
	slope   float64
	weight  float64 // 1 / its variance, in units of that of a slot's ln
}

// baseVariance is that of a point on the line between two unperturbed slots, a
// third of the way from one: 4/9 + 1/9, in units of that of a slot.
const baseVariance = 5.0 / 9

// blocksOf gathers the blocks: perturbed slots of the same targets between two
// unperturbed ones.
func blocksOf(slots []Slot, value func(*Slot) float64) []block {
	var out []block
	for i := 0; i < len(slots); {
		if len(slots[i].Targets) == 0 {
			i++
			continue
		}
		end := i + 1
		for end < len(slots) && slots[end].key() == slots[i].key() {
			end++
		}
		if i > 0 && end < len(slots) {
			if b, ok := oneBlock(slots[i-1:end+1], value); ok {
				out = append(out, b)
			}
		}
		i = end
	}
	return out
}

// oneBlock is the slope of a block, given with its neighbours.
func oneBlock(slots []Slot, value func(*Slot) float64) (block, bool) {
	before, after := &slots[0], &slots[len(slots)-1]
	if len(before.Targets) > 0 || len(after.Targets) > 0 || !usable(before, value) || !usable(after, value) {
		return block{}, false
	}
	from, to := math.Log(value(before)), math.Log(value(after))
	span := middle(after, before)
	var x, xx, xy float64
	for i := range slots[1 : len(slots)-1] {
		s := &slots[i+1]
		if !usable(s, value) || s.Factor <= 0 || span <= 0 {
			continue
		}
		base := from + (to-from)*middle(s, before)/span
		step := math.Log(s.Factor)
		x += step
		xx += step * step
		xy += step * (math.Log(value(s)) - base)
	}
	if xx == 0 {
		return block{}, false
	}
	variance := 1/xx + baseVariance*x*x/(xx*xx)
	return block{targets: slots[1].Targets, slope: xy / xx, weight: 1 / variance}, true
}

func usable(s *Slot, value func(*Slot) float64) bool {
	return s.Seconds > 0 && s.Set <= lateSet*s.Seconds && value(s) > 0
}

// middle is how much later the middle of s is than that of reference, in seconds.
func middle(s, reference *Slot) float64 {
	return s.Start.Sub(reference.Start).Seconds() + (s.Seconds-reference.Seconds)/2
}

// fitted is the mean of one target's slopes.
type fitted struct {
	stats.Interval
	targets []Target
	blocks  int
}

// How outliers are drawn in: those beyond cut deviations. least is the
// expectation of min(z², cut²) of a standard normal z.
const (
	cut   = 2.0
	least = 0.9205
	turns = 30
)

func fit(all []block) []fitted {
	var out []fitted
	of := make([]int, len(all))
	for i := range all {
		of[i] = slices.IndexFunc(out, func(f fitted) bool { return slices.Equal(f.targets, all[i].targets) })
		if of[i] < 0 {
			of[i] = len(out)
			out = append(out, fitted{targets: all[i].targets})
		}
		out[of[i]].blocks++
	}
	freedom := float64(len(all) - len(out))
	if freedom < minFreedom {
		return nil
	}
	for k := range out {
		out[k].Value = median(all, of, k)
	}
	deviation := math.Inf(1)
	for range turns {
		deviation = locate(all, of, out, deviation, freedom)
	}
	t := distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile((1 + stats.Level) / 2)
	for k := range out {
		weight := 0.0
		for i := range all {
			if of[i] == k {
				weight += all[i].weight
			}
		}
		half := t * deviation / math.Sqrt(weight)
		out[k].Low, out[k].High, out[k].Confidence = out[k].Value-half, out[k].Value+half, stats.Level
	}
	return out
}

// locate makes one turn: the deviation from the present values, then the
// values with it.
func locate(all []block, of []int, out []fitted, deviation, freedom float64) float64 {
	squares := 0.0
	for i, b := range all {
		r := math.Abs(b.slope-out[of[i]].Value) * math.Sqrt(b.weight)
		r = min(r, cut*deviation)
		squares += r * r
	}
	if math.IsInf(deviation, 1) {
		deviation = math.Sqrt(squares / freedom)
	} else {
		deviation = math.Sqrt(squares / freedom / least)
	}
	sums, weights := make([]float64, len(out)), make([]float64, len(out))
	for i, b := range all {
		w := b.weight
		if r := math.Abs(b.slope-out[of[i]].Value) * math.Sqrt(b.weight); r > cut*deviation {
			w *= cut * deviation / r
		}
		sums[of[i]] += w * b.slope
		weights[of[i]] += w
	}
	for k := range out {
		if weights[k] > 0 {
			out[k].Value = sums[k] / weights[k]
		}
	}
	return deviation
}

// median is that of one target's slopes.
func median(all []block, of []int, k int) float64 {
	var slopes []float64
	for i, b := range all {
		if of[i] == k {
			slopes = append(slopes, b.slope)
		}
	}
	slices.Sort(slopes)
	n := len(slopes)
	return (slopes[(n-1)/2] + slopes[n/2]) / 2
}
