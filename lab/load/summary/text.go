package summary

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/term"
)

// Text writes the summary for people: the lines that wrk writes, thresholds and
// checks as k6 has them, and below them what neither shows. If the measurement
// itself was the limit, the first line says so.
//
// Numbers have three significant digits but where wrk or a threshold has more:
// a figure beside its limit must not round to it.
func (s *Summary) Text(w io.Writer, style Style) error {
	p := newPage(style)
	s.silence(p)
	s.doubts(p)
	for _, note := range s.Notes {
		p.wrapped(term.Yellow, "note: ", "  ", p.clean(note))
	}
	s.wrk(p)
	s.thresholds(p)
	s.checks(p)
	if !s.silent() {
		s.percentiles(p)
	}
	s.journeys(p)
	s.far(p)
	s.values(p)
	s.caches(p)
	s.steps(p)
	s.errors(p)
	s.statuses(p)
	s.websocket(p)
	s.generator(p)
	if _, err := io.WriteString(w, p.b.String()); err != nil {
		return fmt.Errorf("write the summary of a load: %w", err)
	}
	return nil
}

// drainedMuch is the share of the requests that were done after the load's end
// from which on a reader would wonder about the rate.
const drainedMuch = 0.01

// silent says whether requests were made and not one was answered. How soon each
// of them failed is no latency then, and not shown to people as one.
func (s *Summary) silent() bool { return s.Requests > 0 && len(s.Status) == 0 && s.WebSocket == nil }

// silence says so before anything else.
func (s *Summary) silence(p *page) {
	if s.silent() {
		p.wrapped(term.Red, "", "  ", fmt.Sprintf("nothing was answered: all %s failed", format.Plural(s.Requests, "request")))
	}
}

// doubts says why the figures are a lower bound only, before any of them.
func (s *Summary) doubts(p *page) {
	if s.Validity == Valid {
		return
	}
	reasons := s.ValidityReasons
	if len(reasons) == 0 {
		p.line(p.paint(term.Yellow, s.Validity))
		return
	}
	p.wrapped(term.Yellow, s.Validity+": ", "  ", p.clean(reasons[0]))
	for _, reason := range reasons[1:] {
		p.wrapped(term.Yellow, "  and: ", "    ", p.clean(reason))
	}
}

// wrk writes wrk's lines. Their figures have wrk's digits and no commas, so
// that what reads wrk's output reads these.
func (s *Summary) wrk(p *page) {
	warmup := ""
	if s.WarmupSeconds > 0 {
		warmup = ", after " + length(s.WarmupSeconds) + " of warm-up"
	}
	at := " test"
	if s.URL != "" { // only a k6 script knows its own targets
		at += " @ " + p.clean(s.URL)
	}
	p.line("Running ", length(s.Seconds), at, warmup)
	if more := len(s.Targets) - 1; more > 0 {
		p.line("  and ", format.Plural(more, "more target"))
	}
	p.offers(&s.Plan)
	if s.Aborted != "" {
		p.wrapped(term.Yellow, "  ended early: ", "    ", p.clean(s.Aborted))
	}
	spread := func(name string, l Latency) []string {
		return []string{
			"  " + name, p.milliseconds(l.Mean), p.milliseconds(l.Stdev), p.milliseconds(l.Max),
			strconv.FormatFloat(l.WithinStdev*100, 'f', 2, 64) + "%",
		}
	}
	if s.Requests > 0 && !s.silent() {
		rows := [][]string{{"Latency Stats", "Avg", "Stdev", "Max", "+/- Stdev"}}
		if !s.ServiceTimeOnly {
			rows = append(rows, spread("Response", s.Latency.Response))
		}
		p.table("lrrrr", append(rows, spread("Service", s.Latency.Service)))
	}
	drained := ""
	if left := s.Requests - min(s.Completed, s.Requests); float64(left) > drainedMuch*float64(s.Requests) {
		drained = fmt.Sprintf(" (%d of them done after its end)", left)
	}
	p.line(fmt.Sprintf("  %d requests in %s, %s read%s", s.Requests, secondsOf(s.Seconds), wrkBytes(float64(s.ReceivedBytes)), drained))
	var bad uint64
	for status, n := range s.Status {
		if status >= 400 {
			bad += n
		}
	}
	if bad > 0 {
		p.line(p.paint(term.Red, fmt.Sprintf("  Non-2xx or 3xx responses: %d", bad)))
	}
	if s.Failed > 0 {
		p.line(p.paint(term.Red, fmt.Sprintf("  Failed requests: %d (%s)", s.Failed, percent(s.FailedShare))))
	}
	p.line(fmt.Sprintf("Requests/sec: %9.2f", s.Rate))
	p.line(fmt.Sprintf("Transfer/sec: %11s", wrkBytes(ratio(float64(s.ReceivedBytes)*ratio(float64(s.Completed), float64(s.Requests)), s.Seconds))))
}

// shownQuantiles are the lines of the table that people read; the JSON has more.
var shownQuantiles = []float64{0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1}

func (s *Summary) percentiles(p *page) {
	rows := [][]string{{"", "response", "service"}}
	for _, line := range s.Percentiles {
		if !slices.Contains(shownQuantiles, line.Quantile) {
			continue
		}
		name := "p" + format.Short(line.Quantile*100, 4)
		if line.Quantile == 1 {
			name = "max"
		}
		rows = append(rows, []string{name, p.milliseconds(line.Response), p.milliseconds(line.Service)})
	}
	if len(rows) == 1 {
		return
	}
	p.heading("Latency")
	if s.ServiceTimeOnly {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 1, 2)
		}
		p.table("lr", rows)
		return
	}
	p.table("lrr", rows)
	p.line("  response: since the request was due; service: since it was sent")
}

// journeys has the iterations that are more than a request.
func (s *Summary) journeys(p *page) {
	if len(s.Journeys) == 0 {
		return
	}
	rows := [][]string{{"", "ended", "broke off", "p50", "p95", "p99", "max"}}
	for i := range s.Journeys {
		j := &s.Journeys[i]
		rows = append(rows, []string{
			p.clean(j.Scenario), format.Count(j.Iterations), format.Count(j.BrokenOff),
			p.milliseconds(j.Duration.P50), p.milliseconds(j.Duration.P95), p.milliseconds(j.Duration.P99), p.milliseconds(j.Duration.Max),
		})
	}
	p.heading("Iterations, with how long they took")
	p.table("lrrrrrr", rows)
}

// caches has what users' caches did.
func (s *Summary) caches(p *page) {
	if len(s.Caches) == 0 {
		return
	}
	rows := [][]string{{"", "hits", "revalidated", "in full", "held in the end", "largest"}}
	for _, c := range s.Caches {
		rows = append(rows, []string{
			p.clean(c.Scenario), format.Count(c.Hits), format.Count(c.Revalidations), format.Count(c.Fetched),
			format.Bytes(uint64(c.HeldBytes)), format.Bytes(uint64(c.LargestBytes)),
		})
	}
	p.heading("Users' caches")
	p.table("lrrrrr", rows)
}

// steps compares the steps, if there are several.
func (s *Summary) steps(p *page) {
	if len(s.Steps) < 2 {
		return
	}
	scenarios := map[string]bool{}
	for i := range s.Steps {
		scenarios[s.Steps[i].Scenario] = true
	}
	rows := [][]string{{"", "requests", "req/s", "failed", "p50", "p95", "p99"}}
	bytes := [][]string{{"", "sent", "received"}}
	for i := range s.Steps {
		step := &s.Steps[i]
		name := step.Name
		if len(scenarios) > 1 {
			name = step.Scenario + "/" + name
		}
		l := &step.Latency.Response
		rows = append(rows, []string{
			p.clean(name), format.Count(step.Requests), format.Figure(step.Rate), format.Count(step.Failed),
			p.milliseconds(l.P50), p.milliseconds(l.P95), p.milliseconds(l.P99),
		})
		if n := step.Requests; n > 0 && step.SentBytes > 0 {
			bytes = append(bytes, []string{p.clean(name), format.Bytes((step.SentBytes + n/2) / n), format.Bytes((step.ReceivedBytes + n/2) / n)})
		}
	}
	p.heading("Steps, with their response times")
	p.table("lrrrrrr", rows)
	if len(bytes) > 1 {
		p.heading("Bytes on the wire, of a request and of its answer")
		p.table("lrr", bytes)
	}
}

// errors has the kinds of errors, the most frequent first.
func (s *Summary) errors(p *page) {
	if len(s.Errors) == 0 {
		return
	}
	p.heading("Errors")
	kinds := slices.SortedFunc(maps.Keys(s.Errors), func(a, b string) int {
		if x, y := s.Errors[a].Count, s.Errors[b].Count; x != y {
			return order(y, x)
		}
		return order(a, b)
	})
	for _, kind := range kinds {
		e := s.Errors[kind]
		p.line("  ", p.paint(term.Red, p.clean(kind)), "  ", format.Count(e.Count))
		if example := p.clean(e.Example); example != "" {
			p.wrapped(term.Plain, "    ", "    ", example)
		}
	}
}

// statuses has the answers by status.
func (s *Summary) statuses(p *page) {
	if len(s.Status) == 0 {
		return
	}
	var all uint64
	for _, n := range s.Status {
		all += n
	}
	var rows [][]string
	for _, status := range slices.Sorted(maps.Keys(s.Status)) {
		n := s.Status[status]
		rows = append(rows, []string{strconv.Itoa(status), format.Count(n), percent(float64(n) / float64(all))})
	}
	p.heading("Status codes")
	p.table("lrr", rows)
}

func (s *Summary) websocket(p *page) {
	ws := s.WebSocket
	if ws == nil {
		return
	}
	p.heading("WebSocket")
	rows := [][]string{
		{"connections opened", format.Count(ws.Connects)},
		{"  of them again", format.Count(ws.Reconnects)},
		{"thrown out or lost", format.Count(ws.Closed)},
		{"messages sent", format.Count(ws.Sent)},
		{"delivered", format.Count(ws.Delivered)},
		{"lost", format.Count(ws.Lost)},
		{"delivered twice", format.Count(ws.Duplicates)},
		{"of others", format.Count(ws.Other)},
		{"before they were due", format.Count(ws.Early)},
	}
	for _, f := range ws.Further() {
		rows = append(rows, []string{f.What, format.Count(f.Count)})
	}
	p.table("lr", rows)
}

// generator says what the figures cost, and how well the schedule was kept.
func (s *Summary) generator(p *page) {
	g := &s.Generator
	cpu := format.Figure(g.CPUSeconds) + " s"
	if s.Requests > 0 {
		cpu += ", " + p.milliseconds(g.CPUPerRequest/1000) + " per request"
	}
	cores := "cores"
	if s.Machine.Cores > 0 {
		cores = "of " + format.Plural(s.Machine.Cores, "core")
	}
	rows := [][2]string{
		{"CPU", cpu},
		{"busy", format.Figure(g.Busy) + " " + cores},
	}
	if g.Working > 0 {
		rows[1][1] += ", busiest event loop at work " + percent(g.Working) + " of the time"
	}
	if scheduled(&s.Plan) {
		rows = append(rows, s.schedule(p)...)
	}
	rows = append(rows, [2]string{"seed", strconv.FormatUint(s.Seed, 10)})
	p.heading("Generator")
	for _, row := range rows {
		p.wrapped(term.Plain, "  "+term.Pad(row[0], len("lateness"))+"  ", strings.Repeat(" ", 12), row[1])
	}
}

// schedule says how well the intended times were kept.
func (s *Summary) schedule(p *page) [][2]string {
	of := func(n uint64, why string) string {
		if n == 0 {
			return "0"
		}
		text := format.Count(n)
		if n <= s.Offered { // messages are not among the iterations
			text += " (" + percent(float64(n)/float64(s.Offered)) + ")"
		}
		return text + ", " + why
	}
	rows := [][2]string{
		{"offered", format.Plural(s.Offered, "iteration") + ", " + format.Figure(s.OfferedRate) + "/s"},
		{"late", of(s.Late, "by more than 5 ms, which is the generator's doing")},
		{"waited", of(s.Waited, "because no virtual user or connection was free")},
		{"dropped", of(s.Dropped, "because none came free in time; no percentile has them")},
	}
	if l := &s.Generator.Lateness; l.Max > 0 || l.WithinMs > 0 {
		rows = append(rows, [2]string{"lateness", fmt.Sprintf("p50 %s, p99 %s, p99.9 %s, %s within 1 ms",
			p.milliseconds(l.P50), p.milliseconds(l.P99), p.milliseconds(l.P999), percent(l.WithinMs))})
	}
	return rows
}
