package report

import (
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/format"
)

func (r *Result) environmentTable() []fact {
	e := r.Environment
	var facts []fact
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, fact{name, value})
		}
	}
	processor := e.CPU
	if e.Cores > 0 {
		processor = strings.TrimPrefix(processor+" · "+format.Plural(e.Cores, "core"), " · ")
	}
	add("Processor", processor)
	if e.MemoryBytes > 0 {
		add("Memory", format.Bytes(e.MemoryBytes))
	}
	add("Kernel", e.Kernel)
	add("Driver", e.Driver)
	add("Limits", limitsText(e))
	add("Idle cores", coresText(e))
	add("Loadstone", e.Version)
	add("Go", e.Go)
	add("Seed", strconv.FormatUint(r.Seed, 10))
	if e.ProbeCPU > 0 && format.Finite(e.ProbeCPU) {
		add("Cost of watching", format.Measured(e.ProbeCPU)+" cores while load ran")
	}
	return facts
}

// objectiveRow is one objective of one variant.
type objectiveRow struct {
	Variant                   string
	Span                      int // rows that the variant's cell covers; 0 if one above does
	Metric, Threshold, Actual string
	Met                       bool
}

func newObjectiveRows(r *Result) []objectiveRow {
	var rows []objectiveRow
	for _, v := range r.Variants {
		for i, s := range v.SLO {
			row := objectiveRow{Variant: v.Name, Metric: s.Metric, Threshold: s.Threshold, Actual: objective(s).observed(), Met: s.Met}
			if i == 0 {
				row.Span = len(v.SLO)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// latencyRow is one variant's latencies; Figures are p50, p95, p99 and max.
type latencyRow struct {
	Variant, Rate, Failed string
	Response, Service     [4]string
}

func newLatencyRows(r *Result) []latencyRow {
	var rows []latencyRow
	for _, v := range r.Variants {
		if v.Latency == (LatencyPair{}) {
			continue
		}
		rows = append(rows, latencyRow{
			Variant: v.Name, Rate: format.Measured(v.Rate) + " " + r.rateUnit(), Failed: format.Percent(v.Failed),
			Response: figures(v.Latency.Response), Service: figures(v.Latency.Service),
		})
	}
	return rows
}

func figures(p Percentiles) [4]string {
	return [4]string{format.Latency(p.P50), format.Latency(p.P95), format.Latency(p.P99), format.Latency(p.Max)}
}

// comparisonRow is one variant against the baseline.
type comparisonRow struct {
	Variant, Baseline, Ratio, Interval, Confidence, P, Reading string
}

func newComparisonRows(r *Result) []comparisonRow {
	rows := make([]comparisonRow, 0, len(r.Comparisons))
	for _, c := range r.Comparisons {
		value, low, high := format.Interval(c.Ratio, c.Low, c.High)
		sign, known := r.boundSign(c.Variant)
		row := comparisonRow{Variant: c.Variant, Baseline: c.Baseline, Ratio: format.Missing,
			Interval: format.Missing, Confidence: format.Missing, P: format.Missing, Reading: "no interval, so no statement"}
		if format.Finite(c.Ratio) {
			row.Ratio = sign + value + "×"
		}
		if hasRange(&c) {
			row.Interval = "[" + low + ", " + high + "]"
			row.Confidence = format.Percent(c.Confidence)
			row.P = format.Measured(c.P)
		}
		switch {
		case !known:
			row.Reading = "both capacities are lower bounds, so no statement"
		case c.tooFew():
			row.Reading = "~ " + readTooFew(c.Needed)
		case holdsOne(&c):
			row.Reading = readAlike
		case hasRange(&c) && c.Ratio > 1:
			row.Reading = "carries more"
		case hasRange(&c):
			row.Reading = "carries less"
		}
		rows = append(rows, row)
	}
	return rows
}

// ratioRow is one ratio of counters that a component published.
type ratioRow struct{ Variant, Component, Name, Value string }

func newRatioRows(r *Result) []ratioRow {
	var rows []ratioRow
	for _, v := range r.Variants {
		for _, ratio := range v.Ratios {
			rows = append(rows, ratioRow{v.Name, ratio.Component, ratio.Name, format.Measured(ratio.Value)})
		}
	}
	slices.SortStableFunc(rows, func(a, b ratioRow) int {
		return strings.Compare(a.Component+a.Name, b.Component+b.Name)
	})
	return rows
}
