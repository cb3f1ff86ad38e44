package summary

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/load"
	"loadstone/lab/term"
)

// offer says in a few words what a scenario offers: the place where wrk has its
// threads and connections.
func offer(s *load.Scenario) string {
	switch s.Executor {
	case load.ConstantVUs:
		return users(s, format.Plural(s.VUs, "virtual user"))
	case load.RampingVUs:
		most := float64(s.StartVUs)
		for _, stage := range s.Stages {
			most = max(most, stage.Target)
		}
		return users(s, fmt.Sprintf("%d to %s", s.StartVUs, format.Plural(int(most), "virtual user")))
	case load.ConstantArrivalRate:
		return perSecond(s.Rate) + " iterations/s" + arrivals(s)
	case load.RampingArrivalRate:
		return ramp(s) + " iterations/s" + arrivals(s)
	case load.SharedIterations:
		return fmt.Sprintf("%s shared by %s", format.Plural(s.Iterations, "iteration"), format.Plural(s.VUs, "virtual user"))
	case load.PerVUIterations:
		return fmt.Sprintf("%s with %s each", format.Plural(s.VUs, "virtual user"), format.Plural(s.Iterations, "iteration"))
	case load.Replay:
		if s.Log == nil {
			return "replay"
		}
		text := "replay of " + filepath.Base(s.Log.Path)
		if s.Log.Speed != 1 {
			text += fmt.Sprintf(" at %s times its speed", format.Setting(s.Log.Speed))
		}
		return text
	default:
		return s.Executor
	}
}

// ramp is the way that a rate takes. A long one is in the plan.
func ramp(s *load.Scenario) string {
	const mostStages = 4
	rates, highest := []string{perSecond(s.StartRate)}, s.StartRate
	for _, stage := range s.Stages {
		rates = append(rates, perSecond(stage.Target))
		highest = max(highest, stage.Target)
	}
	if len(s.Stages) > mostStages {
		return fmt.Sprintf("%d stages of up to %s", len(s.Stages), perSecond(highest))
	}
	return strings.Join(rates, " to ")
}

// users says what virtual users are: WebSocket clients, or users.
func users(s *load.Scenario, text string) string {
	if s.WebSocket == nil {
		return text
	}
	text += " as WebSocket clients"
	if ws := s.WebSocket; ws.Rate > 0 && ws.Senders > 0 {
		text += fmt.Sprintf(", %s of them sending %s/s each", format.Count(ws.Senders), format.Setting(ws.Rate))
	}
	return text
}

func perSecond(rate float64) string { return format.Setting(rate) }

func arrivals(s *load.Scenario) string {
	text := ""
	if s.Arrivals != "" {
		text = " (" + s.Arrivals + ")"
	}
	if s.MaxVUs > 0 {
		text += ", up to " + format.Plural(s.MaxVUs, "virtual user")
	}
	return text
}

// offers writes a line for each scenario, below the first line.
func (p *page) offers(plan *load.Plan) {
	means := ""
	if plan.Connections > 0 {
		means = format.Plural(plan.Connections, "connection")
	}
	if plan.Protocol == load.HTTP2 {
		means = strings.TrimPrefix(means+", HTTP/2", ", ")
	}
	if len(plan.Scenarios) == 1 {
		text := offer(&plan.Scenarios[0])
		if means != "" {
			text += ", " + means
		}
		p.wrapped(term.Plain, "  ", "    ", p.clean(text))
		return
	}
	for i := range plan.Scenarios {
		s := &plan.Scenarios[i]
		p.wrapped(term.Plain, "  ", "    ", p.clean(s.Name+": "+offer(s)))
	}
	if means != "" {
		p.line("  ", means)
	}
}

// scheduled says whether any of the load came from a schedule: only then can it
// be late, wait or be dropped.
func scheduled(plan *load.Plan) bool {
	for i := range plan.Scenarios {
		s := &plan.Scenarios[i]
		if s.Open() || s.WebSocket != nil && s.WebSocket.Rate > 0 {
			return true
		}
	}
	return false
}

// secondsOf writes seconds as wrk does.
func secondsOf(seconds float64) string { return strconv.FormatFloat(seconds, 'f', 2, 64) + "s" }
