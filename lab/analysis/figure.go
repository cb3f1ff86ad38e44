package analysis

import (
	"slices"

	"loadstone/lab/result"
	"loadstone/lab/stats"
)

// figure is the trial by itself, for the result.
func (o *observed) figure() result.Figure {
	return result.Figure{
		Trial: o.index, Round: o.round, Capacity: o.capacity, Rejected: o.rejected, LowerBound: o.lowerBound != "", Measured: o.measured,
		Rate: o.rate, Throughput: o.throughput, Requests: o.requests, Failed: o.failed, Generator: o.generator,
		Latency: o.latency, Components: o.components,
	}
}

// comparisons divide every variant's capacity by the first one's, round by
// round, and test the difference by ranks, corrected for their number. A variant
// of which a trial held no rate has no ratio.
func comparisons(vs []result.Variant) ([]result.Comparison, error) {
	if len(vs) == 0 {
		return nil, nil
	}
	base, ok := capacities(&vs[0])
	if !ok {
		return nil, nil
	}
	var lines []stats.Line
	for i := range vs[1:] {
		if sample, ok := capacities(&vs[i+1]); ok {
			lines = append(lines, stats.Line{Metric: stats.Metric{Name: "capacity", HigherIsBetter: true}, Sample: sample, Base: base})
		}
	}
	rows, err := stats.Table(lines, stats.Interleaved)
	if err != nil {
		return nil, err
	}
	worst, err := stats.Table(against(vs, lines, rows), stats.Interleaved)
	if err != nil {
		return nil, err
	}
	var out []result.Comparison
	for i, r := range rows {
		ratio := r.Result.Ratio
		few := 0
		if !r.Decidable {
			few = r.Result.Needed
		}
		out = append(out, result.Comparison{
			Variant: r.SampleName, Baseline: r.BaseName, Ratio: ratio.Value, Low: ratio.Low, High: ratio.High, Confidence: ratio.Confidence,
			P: r.Adjusted, Significant: different(r, worst[i]) && sided(vs, r),
			Needed: few,
		})
	}
	return out, nil
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
			highest = max(highest, f.Capacity)
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

// capacities are those of a variant's trials, of the first compare.MaxTrials if
// there are more; ok is false if not every one held some rate.
func capacities(v *result.Variant) (s stats.Sample, ok bool) {
	s.Name = v.Name
	for _, f := range v.Figures[:min(len(v.Figures), stats.MaxTrials)] {
		if !(f.Capacity > 0) {
			return s, false
		}
		s.Trials = append(s.Trials, stats.Trial{Round: f.Round, Value: f.Capacity})
	}
	return s, len(s.Trials) > 0
}
