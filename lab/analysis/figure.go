package analysis

import (
	"math"
	"slices"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// figure is the trial by itself, for the result.
func (o *observed) figure() result.Figure {
	return result.Figure{
		Trial: o.index, Round: o.round, Capacity: o.capacity, Rejected: o.rejected, Edge: o.edge, LowerBound: o.lowerBound != "", Measured: o.measured,
		Rate: o.rate, Throughput: o.throughput, Requests: o.requests, Failed: o.failed, Generator: o.generator,
		Latency: o.latency, Components: o.components, Speed: o.speed,
	}
}

// comparisons divide every variant's capacity by the first one's, round by round, and
// others each by those before it that are not the first. With rounds enough all of these are
// tested jointly; with fewer, or where a trial held no rate, which only ranks can
// take into account, by ranks, corrected for their number, and there are no others. A trial that
// held no rate is below all that held one; see nothing.
func comparisons(vs []result.Variant) (out, others []result.Comparison, err error) {
	if len(vs) == 0 {
		return nil, nil, nil
	}
	least := nothing(vs)
	base, ok := capacities(&vs[0], least)
	if !ok {
		return nil, nil, nil
	}
	samples := []stats.Sample{base}
	for i := range vs[1:] {
		if sample, ok := capacities(&vs[i+1], least); ok {
			samples = append(samples, sample)
		}
	}
	all, baseline := linesOf(samples), len(samples)-1
	if !slices.ContainsFunc(samples, func(s stats.Sample) bool { return failed(vs, s.Name) }) {
		rows, joint, err := stats.Joint(all)
		if err != nil {
			return nil, nil, err
		}
		if joint {
			return compared(vs, all, rows, baseline)
		}
	}
	rows, err := stats.Variants(all[:baseline])
	if err != nil {
		return nil, nil, err
	}
	return compared(vs, all[:baseline], rows, baseline)
}

// linesOf compare all with the first, then each of the others with those before it.
func linesOf(samples []stats.Sample) []stats.Line {
	var out, others []stats.Line
	for i, s := range samples[1:] {
		for j, base := range samples[:i+1] {
			l := stats.Line{Metric: stats.Metric{Name: "capacity", HigherIsBetter: true}, Sample: s, Base: base}
			if j == 0 {
				out = append(out, l)
			} else {
				others = append(others, l)
			}
		}
	}
	return append(out, others...)
}

// compared says what the rows of lines show, of which the first so many are against the baseline.
func compared(vs []result.Variant, lines []stats.Line, rows []stats.Row, baseline int) (out, others []result.Comparison, err error) {
	worst, err := stats.Variants(against(vs, lines, rows))
	if err != nil {
		return nil, nil, err
	}
	for i, r := range rows {
		ratio := known(r.Result.Ratio, failed(vs, r.SampleName), failed(vs, r.BaseName))
		few := 0
		if !r.Decidable {
			few = r.Result.Needed
		}
		stands := different(r, worst[i]) || r.Result.Test == stats.Range && r.Result.Outcome == stats.Different && !raised(vs, r)
		out = append(out, result.Comparison{
			Variant: r.SampleName, Baseline: r.BaseName, Ratio: ratio.Value, Low: ratio.Low, High: ratio.High, Confidence: ratio.Confidence,
			P: r.Adjusted, Significant: stands && sided(vs, r), Joint: r.Result.Test == stats.Range,
			Needed: few,
		})
	}
	return out[:baseline:baseline], out[baseline:], nil
}

// raised says whether a trial of the lower of the two may be any amount higher than it was
// measured.
func raised(vs []result.Variant, r stats.Row) bool {
	lower := r.SampleName
	if r.Result.Ratio.Value > 1 {
		lower = r.BaseName
	}
	return slices.ContainsFunc(vs, func(v result.Variant) bool {
		return v.Name == lower && slices.ContainsFunc(v.Figures, func(f result.Figure) bool { return f.LowerBound })
	})
}

// nothing stands for the capacity of a trial in which no rate held: below all others, as
// ranks see it. How far below is not known, and is in no interval; see known.
func nothing(vs []result.Variant) float64 {
	least := math.Inf(1)
	for i := range vs {
		for _, f := range vs[i].Figures {
			if f.Capacity > 0 {
				least = min(least, f.Compared())
			}
		}
	}
	return least / unbounded
}

// known is an interval without the ends that a trial without a rate, of the sample or of
// the base, gave it: a ratio cannot be lower than 0, and where it may be any amount higher
// there is no interval.
func known(ratio stats.Interval, sample, base bool) stats.Interval {
	if sample {
		ratio.Low = 0
	}
	if base {
		ratio.Low, ratio.High, ratio.Confidence = ratio.Value, ratio.Value, 0
	}
	return ratio
}

// failed says whether a trial of the variant held no rate.
func failed(vs []result.Variant, name string) bool {
	return slices.ContainsFunc(vs, func(v result.Variant) bool {
		return v.Name == name && slices.ContainsFunc(v.Figures, func(f result.Figure) bool { return !(f.Capacity > 0) })
	})
}

// unbounded is how much higher than the highest capacity of a run those are put
// that may be any amount higher than measured: above all others, as ranks see it.
const unbounded = 1000

// against are the lines as they would be if each trial that ended before the
// system did sustain so much that the difference that was found turns round.
func against(vs []result.Variant, lines []stats.Line, rows []stats.Row) []stats.Line {
	highest := 0.0
	bounded := make(map[string]map[int]bool) // by variant, the rounds
	for _, v := range vs {
		bounded[v.Name] = make(map[int]bool)
		for _, f := range v.Figures {
			bounded[v.Name][f.Round] = f.LowerBound
			highest = max(highest, f.Compared())
		}
	}
	raised := func(s stats.Sample) stats.Sample {
		s.Trials = slices.Clone(s.Trials)
		for i, t := range s.Trials {
			if bounded[s.Name][t.Round] {
				s.Trials[i].Value = unbounded * highest
			}
		}
		return s
	}
	out := slices.Clone(lines)
	for i, r := range rows {
		if r.Result.Ratio.Value > 1 {
			out[i].Base = raised(out[i].Base)
		} else {
			out[i].Sample = raised(out[i].Sample)
		}
	}
	return out
}

// different says whether a difference was found, and is still found on the same
// side of 1 if all that is not known speaks against it.
func different(found, worst stats.Row) bool {
	return found.Result.Outcome == stats.Different && worst.Result.Outcome == stats.Different &&
		(found.Result.Ratio.Value > 1) == (worst.Result.Ratio.Value > 1)
}

// sided says whether the true ratio is on the side of 1 on which it was found: a
// capacity that is only a lower bound may be higher.
func sided(vs []result.Variant, r stats.Row) bool {
	for _, v := range vs {
		bounded := v.Capacity != nil && v.Capacity.LowerBound
		if bounded && (v.Name == r.BaseName && r.Result.Ratio.Value > 1 || v.Name == r.SampleName && r.Result.Ratio.Value < 1) {
			return false
		}
	}
	return true
}

// capacities are those by which a variant's trials are compared, of the first stats.MaxTrials if
// there are more, and least of those that held no rate. ok is false if those are a quarter
// of them or more: more than half of the averages of two, of which the ratio is the median,
// may be of such trials then.
func capacities(v *result.Variant, least float64) (s stats.Sample, ok bool) {
	s.Name = v.Name
	none := 0
	for _, f := range v.Figures[:min(len(v.Figures), stats.MaxTrials)] {
		value := f.Compared()
		if !(value > 0) {
			none++
			value = least
		}
		s.Trials = append(s.Trials, stats.Trial{Round: f.Round, Value: value})
	}
	return s, 4*none < len(s.Trials)
}
