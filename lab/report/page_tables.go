package report

import (
	"slices"
	"strconv"
	"strings"
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
		processor = strings.TrimPrefix(processor+" · "+plural(e.Cores, "core"), " · ")
	}
	add("Processor", processor)
	if e.MemoryBytes > 0 {
		add("Memory", formatBytes(e.MemoryBytes))
	}
	add("Kernel", e.Kernel)
	add("Driver", e.Driver)
	add("Limits", limitsText(e))
	add("Idle cores", coresText(e))
	add("Loadstone", e.Version)
	add("Go", e.Go)
	add("Seed", strconv.FormatUint(r.Seed, 10))
	if e.ProbeCPU > 0 && isFinite(e.ProbeCPU) {
		add("Cost of watching", formatMeasured(e.ProbeCPU)+" cores while load ran")
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
			Variant: v.Name, Rate: formatMeasured(v.Rate) + " " + r.rateUnit(), Failed: formatPercent(v.Failed),
			Response: figures(v.Latency.Response), Service: figures(v.Latency.Service),
		})
	}
	return rows
}

func figures(p Percentiles) [4]string {
	return [4]string{formatLatency(p.P50), formatLatency(p.P95), formatLatency(p.P99), formatLatency(p.Max)}
}

// comparisonRow is one variant against the baseline.
type comparisonRow struct {
	Variant, Baseline, Ratio, Interval, Confidence, P, Reading string
}

func newComparisonRows(r *Result) []comparisonRow {
	rows := make([]comparisonRow, 0, len(r.Comparisons))
	for _, c := range r.Comparisons {
		value, low, high := formatInterval(c.Ratio, c.Low, c.High)
		sign, known := r.boundSign(c.Variant)
		row := comparisonRow{Variant: c.Variant, Baseline: c.Baseline, Ratio: noNumber,
			Interval: noNumber, Confidence: noNumber, P: noNumber, Reading: "no interval, so no statement"}
		if isFinite(c.Ratio) {
			row.Ratio = sign + value + "×"
		}
		if hasRange(&c) {
			row.Interval = "[" + low + ", " + high + "]"
			row.Confidence = formatPercent(c.Confidence)
			row.P = formatMeasured(c.P)
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
			rows = append(rows, ratioRow{v.Name, ratio.Component, ratio.Name, formatMeasured(ratio.Value)})
		}
	}
	slices.SortStableFunc(rows, func(a, b ratioRow) int {
		return strings.Compare(a.Component+a.Name, b.Component+b.Name)
	})
	return rows
}
