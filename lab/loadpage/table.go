package loadpage

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/load"
	"loadstone/lab/load/summary"
	"loadstone/lab/threshold"
)

// secondRow is a stretch of time in numbers.
type secondRow struct {
	Span                                      string
	Aside                                     bool // warm-up, or after the end
	Rate, Failed, Dropped, Late, Flight, Busy string
	Response, Service                         [3]string
}

func newSecondRows(slots []slot) []secondRow {
	rows := make([]secondRow, 0, len(slots))
	for i := range slots {
		s := &slots[i]
		rows = append(rows, secondRow{
			Span: oneDecimal(s.from) + "–" + oneDecimal(s.to), Aside: s.phase != measuring,
			Rate: format.Measured(s.perSecond(s.requests)), Failed: format.Count(s.failed), Dropped: format.Count(s.dropped), Late: format.Count(s.late),
			Flight: strconv.Itoa(s.inFlight), Busy: format.Measured(s.busy),
			Response: s.response.texts(), Service: s.service.texts(),
		})
	}
	return rows
}

func oneDecimal(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

func (q quantiles) texts() [3]string {
	return [3]string{format.LatencyNumber(q.p50), format.LatencyNumber(q.p95), format.LatencyNumber(q.p99)}
}

// percentileRow is a line of the table of percentiles.
type percentileRow struct{ Name, Response, Service string }

func newPercentileRows(s *summary.Summary) []percentileRow {
	if s.Requests == 0 {
		return nil
	}
	r, v := s.Latency.Response, s.Latency.Service
	rows := []percentileRow{{"shortest", format.LatencyNumber(r.Min), format.LatencyNumber(v.Min)}}
	for _, p := range s.Percentiles {
		name := "p" + strconv.FormatFloat(round(p.Quantile*100), 'f', -1, 64)
		if p.Quantile >= 1 {
			name = "longest"
		}
		rows = append(rows, percentileRow{name, format.LatencyNumber(p.Response), format.LatencyNumber(p.Service)})
	}
	return append(rows,
		percentileRow{"mean", format.LatencyNumber(r.Mean), format.LatencyNumber(v.Mean)},
		percentileRow{"standard deviation", format.LatencyNumber(r.Stdev), format.LatencyNumber(v.Stdev)},
		percentileRow{"within one of the mean", format.Share(r.WithinStdev), format.Share(v.WithinStdev)})
}

// round takes away what multiplying by 100 adds: 99.9, not 99.90000000000001.
func round(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'f', 6, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

// thresholdRow is one threshold and what came of it.
type thresholdRow struct {
	Metric, Expression, Observed, Reason string
	Met                                  bool
}

func newThresholdRows(s *summary.Summary) []thresholdRow {
	rows := make([]thresholdRow, 0, len(s.Thresholds))
	for _, t := range s.Thresholds {
		observed := format.Missing
		if t.Observed != nil {
			observed = observedText(*t.Observed, t.Unit)
		}
		rows = append(rows, thresholdRow{t.Metric, t.Expression, observed, t.Reason, t.Met})
	}
	return rows
}

// observedText has more digits than other figures, so that a value does not
// read as the limit that it is just above.
func observedText(v float64, unit string) string {
	switch threshold.Unit(unit) {
	case threshold.Share:
		return format.Precise(round(v*100)) + " %"
	case threshold.PerSecond:
		return format.Precise(v) + " per second"
	case threshold.Count:
		return format.Precise(v)
	default:
		return format.Precise(v) + " " + unit
	}
}

// checkRow is one check.
type checkRow struct {
	Where, Name, Passes, Fails, Share string
	Held                              bool
}

func newCheckRows(s *summary.Summary) []checkRow {
	rows := make([]checkRow, 0, len(s.Checks))
	for _, c := range s.Checks {
		share := format.Missing
		if all := c.Passes + c.Fails; all > 0 {
			share = format.Share(float64(c.Passes) / float64(all))
		}
		rows = append(rows, checkRow{where(c.Scenario, c.Step), c.Name, format.Count(c.Passes), format.Count(c.Fails), share, c.Fails == 0})
	}
	return rows
}

// valueRow is what one step extracted under one name.
type valueRow struct {
	Where, Name, Count string
	Figures            []string // mean, least, p50, p95, p99, most and last
}

func newValueRows(s *summary.Summary) []valueRow {
	var rows []valueRow
	for i := range s.Values {
		v := &s.Values[i]
		row := valueRow{Where: where(v.Scenario, v.Step), Name: v.Name, Count: format.Count(v.Count)}
		for _, figure := range v.Figures() {
			text := format.Missing
			if v.Count > 0 {
				text = format.Measured(figure)
			}
			row.Figures = append(row.Figures, text)
		}
		rows = append(rows, row)
	}
	return rows
}

// where names a step within its scenario.
func where(scenario, step string) string {
	if scenario == "" || step == "" {
		return scenario + step
	}
	return scenario + " · " + step
}

// stepRow is one named step.
type stepRow struct {
	Where, Requests, Rate, Failed string
	Sent, Received                string    // of each request, in bytes
	Response, Service             [4]string // p50, p95, p99 and the longest
}

func newStepRows(s *summary.Summary) []stepRow {
	rows := make([]stepRow, 0, len(s.Steps))
	figures := func(l summary.Latency) [4]string {
		return [4]string{format.LatencyNumber(l.P50), format.LatencyNumber(l.P95), format.LatencyNumber(l.P99), format.LatencyNumber(l.Max)}
	}
	for _, step := range s.Steps {
		rows = append(rows, stepRow{
			where(step.Scenario, step.Name), format.Count(step.Requests), format.Measured(step.Rate), format.Count(step.Failed),
			each(step.SentBytes, step.Requests), each(step.ReceivedBytes, step.Requests),
			figures(step.Latency.Response), figures(step.Latency.Service),
		})
	}
	return rows
}

// journeyRow is the iterations of one scenario.
type journeyRow struct {
	Scenario, Ended, BrokenOff string
	Duration                   [4]string // p50, p95, p99 and the longest
}

func newJourneyRows(s *summary.Summary) []journeyRow {
	var rows []journeyRow
	for _, j := range s.Journeys {
		l := j.Duration
		rows = append(rows, journeyRow{
			j.Scenario, format.Count(j.Iterations), format.Count(j.BrokenOff),
			[4]string{format.LatencyNumber(l.P50), format.LatencyNumber(l.P95), format.LatencyNumber(l.P99), format.LatencyNumber(l.Max)},
		})
	}
	return rows
}

// each is how many bytes one request took.
func each(bytes, requests uint64) string {
	if bytes == 0 || requests == 0 {
		return format.Missing
	}
	return format.Bytes((bytes + requests/2) / requests)
}

// errorRow is one kind of error.
type errorRow struct{ Kind, Count, Example string }

func newErrorRows(s *summary.Summary) []errorRow {
	var rows []errorRow
	for _, kind := range byCount(s.Errors, func(e load.ErrorCount) uint64 { return e.Count }) {
		rows = append(rows, errorRow{kind, format.Count(s.Errors[kind].Count), s.Errors[kind].Example})
	}
	return rows
}

// byCount is the keys of what is most frequent first.
func byCount[V any](m map[string]V, of func(V) uint64) []string {
	keys := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(keys, func(a, b string) int {
		switch x, y := of(m[a]), of(m[b]); {
		case x > y:
			return -1
		case x < y:
			return 1
		default:
			return 0
		}
	})
	return keys
}

// statusRow is one HTTP status.
type statusRow struct {
	Status, Name, Count, Share string
	Failed                     bool
}

func newStatusRows(s *summary.Summary) []statusRow {
	var rows []statusRow
	for _, status := range slices.Sorted(maps.Keys(s.Status)) {
		n := s.Status[status]
		rows = append(rows, statusRow{
			strconv.Itoa(status), http.StatusText(status), format.Count(n),
			format.Share(float64(n) / float64(max(s.Requests, 1))), status >= http.StatusBadRequest,
		})
	}
	return rows
}

func webSocketFacts(s *summary.Summary) []fact {
	w := s.WebSocket
	if w == nil {
		return nil
	}
	facts := []fact{
		{"Connections opened", format.Count(w.Connects)}, {"Of them again", format.Count(w.Reconnects)}, {"Thrown out or lost", format.Count(w.Closed)},
		{"Messages sent", format.Count(w.Sent)}, {"Deliveries", format.Count(w.Delivered)}, {"Lost", format.Count(w.Lost)},
		{"Delivered twice", format.Count(w.Duplicates)}, {"Messages of others", format.Count(w.Other)},
	}
	for _, f := range w.Further() {
		facts = append(facts, fact{format.Capital(f.What), format.Count(f.Count)})
	}
	return facts
}

func generatorFacts(s *summary.Summary) []fact {
	g := s.Generator
	facts := []fact{
		{"Validity", s.Validity}, {"CPU", format.Measured(g.Busy) + " cores"}, {"CPU time", format.Measured(g.CPUSeconds) + " s"},
		{"CPU per request", format.Measured(g.CPUPerRequest) + " µs"}, {"Busiest event loop at work", format.Share(g.Working)},
	}
	if l := g.Lateness; l.Max > 0 {
		facts = append(facts,
			fact{"Sent within 1 ms of its time", format.Share(l.WithinMs)},
			fact{"Lateness p50, p99, p99.9, longest", fmt.Sprintf("%s, %s, %s, %s", format.Latency(l.P50), format.Latency(l.P99), format.Latency(l.P999), format.Latency(l.Max))})
	}
	facts = append(facts, fact{"Late", format.Count(s.Late)}, fact{"Dropped", format.Count(s.Dropped)}, fact{"Waited for a free user", format.Count(s.Waited)},
		fact{"Most in flight", strconv.Itoa(s.InFlight.Max)})
	if m := s.Machine; m.Cores > 0 {
		facts = append(facts, fact{"Machine", fmt.Sprintf("%s, %s, GOMAXPROCS %d", m.OS, format.Plural(m.Cores, "core"), m.GOMAXPROCS)})
	}
	return facts
}

func planFacts(s *summary.Summary) []fact {
	facts := []fact{
		{"Targets", strings.Join(s.Targets, ", ")}, {"Seed", strconv.FormatUint(s.Seed, 10)},
		{"Offered", format.Plural(s.Offered, "iteration") + ", " + format.Measured(s.OfferedRate) + " per second"},
		{"Begun and ended", format.Plural(s.Iterations, "iteration")}, {"Requests", format.Count(s.Requests)},
		{"Ended in time", format.Count(s.Completed)}, {"Failed", format.Count(s.Failed)},
		{"Sent", format.Bytes(s.SentBytes)}, {"Received", format.Bytes(s.ReceivedBytes)},
		{"Time-out", format.Seconds(s.Plan.Timeout.Seconds())},
	}
	if s.Plan.Protocol != "" {
		facts = append(facts, fact{"Protocol", s.Plan.Protocol})
	}
	if s.Plan.Connections > 0 {
		facts = append(facts, fact{"Connections at most", strconv.Itoa(s.Plan.Connections)})
	}
	return facts
}

// scenarioRow is one scenario in words.
type scenarioRow struct{ Name, Executor, Offers, Requests string }

func newScenarioRows(s *summary.Summary) []scenarioRow {
	rows := make([]scenarioRow, 0, len(s.Plan.Scenarios))
	for i := range s.Plan.Scenarios {
		c := &s.Plan.Scenarios[i]
		rows = append(rows, scenarioRow{c.Name, c.Executor, offers(c), requests(c)})
	}
	return rows
}

// offers is how much a scenario offers.
func offers(c *load.Scenario) string {
	during := " for " + format.Seconds(c.Duration.Seconds())
	var text string
	switch c.Executor {
	case load.ConstantArrivalRate:
		text = format.Setting(c.Rate) + " per second" + during + ", " + c.Arrivals
	case load.ConstantVUs:
		text = format.Plural(max(c.VUs, 0), "virtual user") + during
	case load.SharedIterations:
		text = fmt.Sprintf("%s by %s", format.Plural(c.Iterations, "iteration"), format.Plural(max(c.VUs, 0), "virtual user"))
	case load.PerVUIterations:
		text = fmt.Sprintf("%s by each of %s", format.Plural(c.Iterations, "iteration"), format.Plural(max(c.VUs, 0), "virtual user"))
	case load.RampingArrivalRate:
		text = "from " + format.Setting(c.StartRate) + " per second" + stages(c)
	case load.RampingVUs:
		text = "from " + format.Plural(max(c.StartVUs, 0), "virtual user") + stages(c)
	case load.Replay:
		if c.Log != nil {
			text = fmt.Sprintf("%s at %s times its speed", c.Log.Path, format.Setting(c.Log.Speed))
		}
	}
	if c.StartTime > 0 {
		text += ", after " + format.Seconds(c.StartTime.Seconds())
	}
	return text
}

func stages(c *load.Scenario) string {
	var b strings.Builder
	for _, stage := range c.Stages {
		b.WriteString(", to " + format.Setting(stage.Target) + " in " + format.Seconds(stage.Duration.Seconds()))
	}
	return b.String()
}

// requests is what a scenario's iteration consists of.
func requests(c *load.Scenario) string {
	if c.WebSocket != nil {
		return "WebSocket " + c.WebSocket.Path
	}
	var parts []string
	for _, step := range c.Steps {
		parts = append(parts, step.Request.Line())
	}
	if c.Weighted {
		return strings.Join(parts, " or ")
	}
	return strings.Join(parts, ", then ")
}

// planSource is the whole plan, as a generator reads it.
func planSource(s *summary.Summary) (string, error) {
	text, err := json.MarshalIndent(s.Plan, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write the plan: %w", err)
	}
	return string(text), nil
}
