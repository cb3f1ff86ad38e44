package report

import (
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/compare"
	"loadstone/lab/format"
	"loadstone/lab/result"
)

func environmentTable(r *result.Result) []fact {
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

func newObjectiveRows(r *result.Result) []objectiveRow {
	var rows []objectiveRow
	for _, v := range r.Variants {
		for i, s := range v.SLO {
			row := objectiveRow{Variant: v.Name, Metric: s.Metric, Threshold: s.Threshold, Actual: objective(s).observed(), Met: s.Met}
			if note := objective(s).note(); note != "" {
				row.Actual += ", " + note
			}
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

func newLatencyRows(r *result.Result) []latencyRow {
	var rows []latencyRow
	for _, v := range r.Variants {
		if v.Latency == (result.LatencyPair{}) {
			continue
		}
		rows = append(rows, latencyRow{
			Variant: v.Name, Rate: format.Measured(v.Rate) + " " + r.RateUnit(), Failed: format.Percent(v.Failed),
			Response: figures(v.Latency.Response), Service: figures(v.Latency.Service),
		})
	}
	return rows
}

func figures(p result.Percentiles) [4]string {
	return [4]string{format.Latency(p.P50), format.Latency(p.P95), format.Latency(p.P99), format.Latency(p.Max)}
}

// stepRow is one step of one variant; Figures are p50, p95, p99 and max.
type stepRow struct {
	Variant                                    string
	Span                                       int // as in objectiveRow
	Name, PerIteration, Failed, Sent, Received string
	Figures                                    [4]string
}

func newStepRows(r *result.Result) []stepRow {
	var rows []stepRow
	for _, v := range r.Variants {
		for i, s := range v.Steps {
			row := stepRow{
				Variant: v.Name, Name: s.Name, PerIteration: format.Rounded(s.PerIteration), Failed: format.Percent(s.Failed),
				Sent: inBytes(s.Sent), Received: inBytes(s.Received), Figures: figures(s.Response),
			}
			if s.Scenario != "" && s.Scenario != s.Name {
				row.Name = s.Scenario + " · " + s.Name
			}
			if i == 0 {
				row.Span = len(v.Steps)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// comparisonRow is one variant against the baseline.
type comparisonRow struct {
	Variant, Baseline, Ratio, Interval, Confidence, P, Reading string
}

func newComparisonRows(r *result.Result) []comparisonRow {
	rows := make([]comparisonRow, 0, len(r.Comparisons))
	for _, c := range r.Comparisons {
		value, low, high := format.Interval(c.Ratio, c.Low, c.High)
		sign, known := boundSign(r, c.Variant)
		row := comparisonRow{Variant: c.Variant, Baseline: c.Baseline, Ratio: format.Missing,
			Interval: format.Missing, Confidence: format.Missing, P: format.Missing, Reading: "no interval, so no statement"}
		if format.Finite(c.Ratio) {
			row.Ratio = sign + value + "×"
		}
		if c.HasRange() {
			row.Interval = "[" + low + ", " + high + "]"
			row.Confidence = format.Percent(c.Confidence)
			row.P = format.Measured(c.P)
		}
		switch {
		case !known:
			row.Reading = "both capacities are lower bounds, so no statement"
		case c.TooFew():
			row.Reading = "~ " + compare.TooFew(c.Needed)
		case c.NoDifference():
			row.Reading = compare.NoDifference
		case c.HasRange() && c.Ratio > 1:
			row.Reading = "carries more"
		case c.HasRange():
			row.Reading = "carries less"
		}
		rows = append(rows, row)
	}
	return rows
}

// ratioRow is one ratio of counters that a component published.
type ratioRow struct{ Variant, Component, Name, Value string }

func newRatioRows(r *result.Result) []ratioRow {
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
