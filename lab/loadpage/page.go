package loadpage

import (
	"bytes"
	_ "embed" // for the page's template and style sheet
	"errors"
	"fmt"
	"html/template"
	"io"
	"sync"

	"loadstone/lab/chart"
	"loadstone/lab/load"
	"loadstone/lab/load/summary"
	"loadstone/lab/term"
)

//go:embed page.gohtml
var source string

//go:embed page.css
var style string

// parsed parses the template when the first page needs it.
var parsed = sync.OnceValues(func() (*template.Template, error) {
	return template.New("page").Parse(source)
})

// HTML writes the page of a load. Without windows it has no charts over time.
// It fails if a window's latencies cannot be read, or if w does.
//
// Charts are SVG whose horizontal lengths are percentages and whose text and
// vertical lengths are pixels: they stretch to the width of the reader's screen
// and their text keeps its size. Each has a title and a description, and its
// numbers are in a table.
func HTML(w io.Writer, s *summary.Summary, windows []load.Window) error {
	if s == nil {
		return errors.New("make the page of a load: there is no summary")
	}
	t, err := parsed()
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	p, err := newPage(s, windows)
	if err != nil {
		return fmt.Errorf("make the page of a load: %w", err)
	}
	var b bytes.Buffer // whole before it is written: no half a page on an error
	if err := t.Execute(&b, p); err != nil {
		return fmt.Errorf("make the page of a load: %w", err)
	}
	if _, err := w.Write(bytes.Map(term.Visible, b.Bytes())); err != nil {
		return fmt.Errorf("write the page of a load: %w", err)
	}
	return nil
}

// view is what the template shows: finished texts and places, nothing to
// compute.
type view struct {
	Style    template.CSS
	Verdict  string
	URL      string
	Bad      bool // the verdict is no good news
	Answer   string
	Facts    []string
	Remarks  []string
	Sections []section

	Throughput *chart.Chart
	Times      []*chart.Chart // response and service over time
	Limits     bool           // some chart has a threshold in it
	Flight     *chart.Chart
	Curve      *chart.Chart
	Seconds    []secondRow // the numbers of the charts over time

	Percentiles []percentileRow
	Thresholds  []thresholdRow
	Checks      []checkRow
	Values      []valueRow
	Journeys    []journeyRow
	Steps       []stepRow
	Errors      []errorRow
	Statuses    []statusRow
	WebSocket   []fact
	Generator   []fact
	Plan        []fact
	Scenarios   []scenarioRow
	PlanSource  string
}

// section is an entry of the page's contents, fact a name with its value.
type (
	section struct{ ID, Name string }
	fact    struct{ Name, Value string }
)

func newPage(s *summary.Summary, windows []load.Window) (*view, error) {
	slots, err := newTimeline(windows)
	if err != nil {
		return nil, err
	}
	limits := latencyLimits(s)
	v := &view{
		Style:   template.CSS(chart.Style + style), //nolint:gosec // the embedded files, not input
		Verdict: verdict(s), Bad: isBad(s), Answer: answer(s), URL: s.URL,
		Facts: facts(s), Remarks: remarks(s),
		Limits: len(limits) > 0, Curve: newCurveChart(s), Seconds: newSecondRows(slots),
		Percentiles: newPercentileRows(s), Thresholds: newThresholdRows(s), Checks: newCheckRows(s), Values: newValueRows(s),
		Journeys: newJourneyRows(s), Steps: newStepRows(s), Errors: newErrorRows(s), Statuses: newStatusRows(s),
		WebSocket: webSocketFacts(s), Generator: generatorFacts(s), Plan: planFacts(s), Scenarios: newScenarioRows(s),
	}
	if v.PlanSource, err = planSource(s); err != nil {
		return nil, err
	}
	if len(slots) > 0 {
		axis := newTimeAxis(slots)
		v.Throughput = newThroughputChart(slots, axis)
		v.Times = newTimesCharts(slots, axis, limits)
		v.Flight = newFlightChart(slots, axis)
	}
	v.Sections = v.contents()
	return v, nil
}

// contents lists the sections that the page has.
func (v *view) contents() []section {
	var sections []section
	add := func(shown bool, id, name string) {
		if shown {
			sections = append(sections, section{id, name})
		}
	}
	add(len(v.Thresholds) > 0, "thresholds", "Thresholds")
	add(v.Throughput != nil, "throughput", "Throughput")
	add(len(v.Times) > 0, "times", "Latency over time")
	add(v.Flight != nil, "flight", "In flight")
	add(v.Curve != nil, "curve", "Distribution")
	add(len(v.Percentiles) > 0, "percentiles", "Percentiles")
	add(len(v.Journeys) > 0, "iterations", "Iterations")
	add(len(v.Steps) > 0, "steps", "Steps")
	add(len(v.Checks) > 0, "checks", "Checks")
	add(len(v.Values) > 0, "values", "Extracted values")
	add(len(v.Errors) > 0, "errors", "Errors")
	add(len(v.Statuses) > 0, "statuses", "Statuses")
	add(len(v.WebSocket) > 0, "websocket", "WebSocket")
	add(true, "generator", "Generator")
	add(true, "plan", "Plan")
	add(true, "reading", "How to read this")
	return sections
}
