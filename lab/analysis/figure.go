package analysis

import (
	"loadstone/lab/compare"
	"loadstone/lab/report"
)

// figure is the trial by itself, for the result.
func (o *observed) figure() report.Figure {
	return report.Figure{
		Trial: o.index, Round: o.round, Capacity: o.capacity, LowerBound: o.lowerBound != "", Measured: o.measured,
		Rate: o.rate, Throughput: o.throughput, Requests: o.requests, Failed: o.failed, Generator: o.generator,
		Latency: o.latency, Components: o.components,
	}
}

// comparisons divide every variant's capacity by the first one's, round by
// round, and test the difference by ranks, corrected for their number. A variant
// of which a trial held no rate has no ratio.
func comparisons(vs []report.Variant) ([]report.Comparison, error) {
	if len(vs) == 0 {
		return nil, nil
	}
	base, ok := capacities(&vs[0])
	if !ok {
		return nil, nil
	}
	var lines []compare.Line
	for i := range vs[1:] {
		if sample, ok := capacities(&vs[i+1]); ok {
			lines = append(lines, compare.Line{Metric: compare.Metric{Name: "capacity", HigherIsBetter: true}, Sample: sample, Base: base})
		}
	}
	rows, err := compare.Table(lines, compare.Interleaved)
	if err != nil {
		return nil, err
	}
	var out []report.Comparison
	for _, r := range rows {
		ratio := r.Result.Ratio
		few := 0
		if !r.Decidable {
			few = r.Result.Needed
		}
		out = append(out, report.Comparison{
			Variant: r.SampleName, Baseline: r.BaseName, Ratio: ratio.Value, Low: ratio.Low, High: ratio.High, Confidence: ratio.Confidence,
			P: r.Adjusted, Significant: r.Result.Outcome == compare.Different && sided(vs, r),
			Needed: few,
		})
	}
	return out, nil
}

// sided says whether the true ratio is on the side of 1 on which it was found: a
// capacity that is only a lower bound may be higher.
func sided(vs []report.Variant, r compare.Row) bool {
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
func capacities(v *report.Variant) (s compare.Sample, ok bool) {
	s.Name = v.Name
	for _, f := range v.Figures[:min(len(v.Figures), compare.MaxTrials)] {
		if !(f.Capacity > 0) {
			return s, false
		}
		s.Trials = append(s.Trials, compare.Trial{Round: f.Round, Value: f.Capacity})
	}
	return s, len(s.Trials) > 0
}
