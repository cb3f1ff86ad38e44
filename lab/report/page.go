package report

import (
	"bytes"
	_ "embed" // for the page's template and style sheet
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"loadstone/lab/axis"
)

//go:embed page.gohtml
var pageSource string

//go:embed page.css
var pageStyle string

// pageTemplate parses the template when the first page needs it.
var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Parse(pageSource)
})

// HTML writes report.html: one file that fetches nothing, needs no script and
// no network, follows the reader's light or dark theme, and prints. It fails if
// w does.
//
// Charts are SVG whose horizontal lengths are percentages and whose text and
// vertical lengths are pixels: they stretch to the width of the reader's screen
// and their text keeps its size. Each has a title, a description and a table of
// its numbers.
func HTML(w io.Writer, r *Result) error {
	t, err := pageTemplate()
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	var b bytes.Buffer // whole before it is written: no half a page on an error
	if err := t.Execute(&b, newPage(r)); err != nil {
		return fmt.Errorf("make report.html: %w", err)
	}
	if _, err := w.Write(bytes.Map(visible, b.Bytes())); err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	return nil
}

// page is what the template shows: finished texts and places, nothing to
// compute.
type page struct {
	Style      template.CSS
	Title      string
	Experiment string
	Answer     sentence
	Facts      []string
	Sections   []section
	Warnings   []string

	Capacity *capacityChart // nil when the load was driven as written
	Load     *loadChart     // nil when capacity was searched
	Curves   *curveCharts   // nil when no rates were tried
	Limits   []limitCard
	CPU      []cpuChart
	Faults   []faultChart
	Shaded   bool // some chart has faults

	Objectives  []objectiveRow
	Latencies   []latencyRow
	Comparisons []comparisonRow
	Ratios      []ratioRow
	Environment []fact
	Source      string
}

// section is an entry of the page's contents.
type section struct{ ID, Name string }

// fact is a name with its value.
type fact struct{ Name, Value string }

// tick is a mark on an axis.
type tick struct{ At, Label string }

func newPage(r *Result) *page {
	p := &page{
		Style:       template.CSS(pageStyle), //nolint:gosec // the embedded file, not input
		Title:       r.Question,
		Experiment:  r.Experiment,
		Answer:      r.answer(),
		Facts:       r.headerFacts(),
		Warnings:    r.allWarnings(),
		Curves:      newCurveCharts(r),
		Objectives:  newObjectiveRows(r),
		Latencies:   newLatencyRows(r),
		Comparisons: newComparisonRows(r),
		Ratios:      newRatioRows(r),
		Environment: r.environmentTable(),
		Source:      r.Source,
	}
	if p.Title == "" {
		p.Title = r.Experiment
	}
	if p.Title == "" {
		p.Title = "A run without a name"
	}
	switch {
	case len(r.Variants) == 0:
	case r.measuresLoad():
		p.Load = newLoadChart(r)
	default:
		p.Capacity = newCapacityChart(r)
	}
	for i := range r.Variants {
		p.Limits = append(p.Limits, newLimitCard(r, i))
		if c, ok := newCPUChart(r, i); ok {
			p.CPU = append(p.CPU, c)
		}
	}
	p.Faults = newFaultCharts(r)
	p.Shaded = slices.ContainsFunc(p.Faults, func(c faultChart) bool { return len(c.Rows) > 0 })
	p.Sections = p.contents()
	return p
}

// contents lists the sections that the page has.
func (p *page) contents() []section {
	var sections []section
	add := func(shown bool, id, name string) {
		if shown {
			sections = append(sections, section{id, name})
		}
	}
	add(p.Capacity != nil, "capacity", "Capacity")
	add(p.Load != nil, "capacity", "Latency")
	add(len(p.Warnings) > 0, "warnings", "Warnings")
	add(len(p.Faults) > 0, "faults", p.faultsName())
	add(p.Curves != nil, "curves", "Latency by rate")
	add(len(p.Limits) > 0, "limits", "What limits each variant")
	add(len(p.CPU) > 0, "cpu", "CPU over time")
	add(len(p.Objectives) > 0, "objectives", "Objectives")
	add(len(p.Latencies) > 0, "latency", "Response and service time")
	add(len(p.Comparisons) > 0, "comparisons", "Ratios")
	add(true, "environment", "Environment")
	add(p.Source != "", "experiment", "The experiment")
	add(true, "reading", "How to read this")
	return sections
}

// faultsName heads the charts of faults, or those of watched metrics alone.
func (p *page) faultsName() string {
	if p.Shaded {
		return "Faults"
	}
	return "Second by second"
}

// headerFacts are when, how long and how often, for the top of the page.
func (r *Result) headerFacts() []string {
	facts := []string{plural(len(r.Variants), "variant")}
	var trials axis.Extent
	for _, v := range r.Variants {
		trials.See(float64(v.Trials))
	}
	switch {
	case trials.Any && trials.Low == trials.High:
		facts = append(facts, plural(int(trials.Low), "trial")+" each")
	case trials.Any:
		facts = append(facts, fmt.Sprintf("%d to %d trials each", int(trials.Low), int(trials.High)))
	}
	if !r.Started.IsZero() {
		facts = append(facts, r.Started.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	if r.Finished.After(r.Started) {
		facts = append(facts, "took "+formatDuration(r.Finished.Sub(r.Started)))
	}
	return facts
}

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
			Variant: v.Name, Rate: formatMeasured(v.Rate), Failed: formatPercent(v.Failed),
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
	Variant, Baseline, Ratio, Interval, Confidence, Reading string
}

func newComparisonRows(r *Result) []comparisonRow {
	rows := make([]comparisonRow, 0, len(r.Comparisons))
	for _, c := range r.Comparisons {
		value, low, high := formatInterval(c.Ratio, c.Low, c.High)
		sign, known := r.boundSign(c.Variant)
		row := comparisonRow{Variant: c.Variant, Baseline: c.Baseline, Ratio: noNumber,
			Interval: noNumber, Confidence: noNumber, Reading: "no interval, so no statement"}
		if isFinite(c.Ratio) {
			row.Ratio = sign + value + "×"
		}
		if hasRange(&c) {
			row.Interval = "[" + low + ", " + high + "]"
			row.Confidence = formatPercent(c.Confidence)
		}
		switch {
		case !known:
			row.Reading = "both capacities are lower bounds, so no statement"
		case holdsOne(&c):
			row.Reading = "~ no difference was shown"
		case hasRange(&c) && c.Low > 1:
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
