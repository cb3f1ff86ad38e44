package report

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"sync"

	"loadstone/lab/chart"
	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
)

//go:embed page*.gohtml
var pageSource embed.FS

//go:embed page.css
var pageStyle string

// pageTemplate parses the template when the first page needs it.
var pageTemplate = sync.OnceValues(func() (*template.Template, error) {
	return template.ParseFS(pageSource, "page*.gohtml")
})

// HTML writes report.html: one file that fetches nothing, needs no script and
// no network, follows the reader's light or dark theme, and prints. It fails if
// w does.
//
// Charts are SVG whose horizontal lengths are percentages and whose text and
// vertical lengths are pixels: they stretch to the width of the reader's screen
// and their text keeps its size. Each has a title, a description and a table of
// its numbers.
func HTML(w io.Writer, r *result.Result) error {
	t, err := pageTemplate()
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	var b bytes.Buffer // whole before it is written: no half a page on an error
	if err := t.ExecuteTemplate(&b, "page.gohtml", newPage(r)); err != nil {
		return fmt.Errorf("make report.html: %w", err)
	}
	if _, err := w.Write(bytes.Map(term.Visible, b.Bytes())); err != nil {
		return fmt.Errorf("write report.html: %w", err)
	}
	return nil
}

// page is what the template shows: finished texts and places, nothing to
// compute.
type page struct {
	Style      template.CSS
	Shapes     template.HTML // of the points in charts
	Title      string
	Experiment string
	Answer     sentence
	Lead       []leadCell
	Facts      []string
	Sections   []section
	Warnings   []string

	Capacity *capacityChart // nil when the load was driven as written
	Load     *loadChart     // nil when capacity was searched
	Curves   *curveCharts   // nil when no rates were tried
	Demand   *demandCharts  // nil when no component was watched
	Limits   []limitCard
	CPU      []cpuChart
	Perturb  *perturbCharts // nil when nothing was perturbed
	Hops     *hopMaps       // nil when it was not looked for where requests wait
	Scaling  *scalingChart  // nil when no size was swept
	Faults   []faultChart
	Shaded   bool // some chart has faults
	Checks   []check

	Objectives  []objectiveRow
	Latencies   []latencyRow
	Journeys    *journeyTables // nil if each iteration is a request
	Steps       []stepRow
	Comparisons []comparisonRow
	Ratios      []ratioRow
	Environment []fact
	Raw         []rawTrial
	Source      string
}

// section is an entry of the page's contents.
type section struct{ ID, Name string }

// fact is a name with its value.
type fact struct{ Name, Value string }

func newPage(r *result.Result) *page {
	p := &page{
		Style:       template.CSS(chart.Style + pageStyle), //nolint:gosec // the embedded files, not input
		Shapes:      chart.Shapes,
		Title:       r.Question,
		Experiment:  r.Experiment,
		Answer:      answer(r),
		Facts:       headerFacts(r),
		Warnings:    allWarnings(r),
		Curves:      newCurveCharts(r),
		Objectives:  newObjectiveRows(r),
		Latencies:   newLatencyRows(r),
		Journeys:    newJourneyTables(r),
		Steps:       newStepRows(r),
		Comparisons: newComparisonRows(r),
		Ratios:      newRatioRows(r),
		Environment: environmentTable(r),
		Demand:      newDemandCharts(r),
		Perturb:     newPerturbCharts(r),
		Hops:        newHopMaps(r),
		Scaling:     newScalingChart(r),
		Checks:      newChecks(r),
		Raw:         newRawTrials(r),
		Source:      r.Source,
	}
	p.Lead = newLead(r, p.Checks)
	if p.Title == "" {
		p.Title = r.Experiment
	}
	if p.Title == "" {
		p.Title = "A run without a name"
	}
	switch {
	case len(r.Variants) == 0:
	case r.MeasuresLoad():
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
	add(p.Scaling != nil, "scaling", "Scaling")
	add(p.Demand != nil, "demand", "Demand")
	add(len(p.Limits) > 0, "limits", "What limits each variant")
	add(p.Hops != nil, "hops", "Where requests wait")
	add(p.Perturb != nil, "perturbation", "Perturbation")
	add(p.Curves != nil, "curves", "Latency by rate")
	add(len(p.CPU) > 0, "cpu", "CPU over time")
	add(len(p.Faults) > 0, "faults", p.faultsName())
	add(len(p.Checks)+len(p.Warnings) > 0, "validity", "Can it be believed?")
	add(len(p.Objectives) > 0, "objectives", "Objectives")
	add(len(p.Latencies) > 0, "latency", "Response and service time")
	add(p.Journeys != nil, "journeys", "Journeys")
	add(len(p.Steps) > 0, "steps", "Steps and bytes")
	add(len(p.Comparisons) > 0, "comparisons", "Ratios")
	add(true, "environment", "Environment")
	add(p.Source != "", "experiment", "The experiment")
	add(true, "raw", "Raw data")
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
func headerFacts(r *result.Result) []string {
	facts := []string{format.Plural(len(r.Variants), "variant")}
	var trials chart.Extent
	for _, v := range r.Variants {
		trials.See(float64(v.Trials))
	}
	switch {
	case trials.Any && trials.Low == trials.High:
		facts = append(facts, format.Plural(int(trials.Low), "trial")+" each")
	case trials.Any:
		facts = append(facts, fmt.Sprintf("%d to %d trials each", int(trials.Low), int(trials.High)))
	}
	if r.WarmupSeconds > 0 {
		facts = append(facts, warmupText(r))
	}
	if !r.Started.IsZero() {
		facts = append(facts, r.Started.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	if r.Finished.After(r.Started) {
		facts = append(facts, "took "+format.Duration(r.Finished.Sub(r.Started)))
	}
	return facts
}
