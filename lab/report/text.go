package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
)

// MinWidth is the narrowest terminal, in columns, that Text lays out for. A
// narrower one gets the layout of MinWidth.
const MinWidth = 40

// Options say what a terminal can show.
type Options struct {
	Color bool // ANSI colours; whether NO_COLOR is set is the caller's to find out
	Width int  // columns to lay out for, such as 80
}

// Text writes the summary of r for a terminal: the question and its answer, a
// table with a row per variant, how capacity grew with size, then the bottleneck of each variant. It
// fails only if w does.
func Text(w io.Writer, r *result.Result, o Options) error {
	s := &summary{result: r, width: max(o.Width, MinWidth), color: o.Color}
	s.head()
	s.table()
	s.scaling()
	for i := range r.Variants {
		s.variant(&r.Variants[i])
	}
	s.warnings()
	s.environment()
	if _, err := io.WriteString(w, s.b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// summary lays the text out. Every string of the result passes printable
// before it is measured or written.
type summary struct {
	b      strings.Builder
	result *result.Result
	width  int
	color  bool
}

func (s *summary) line(text string) { s.b.WriteString(text + "\n") }

// prose writes text wrapped to the width; lead stands before the first line,
// and the others are indented by its width.
func (s *summary) prose(lead, text string, st term.Style) {
	indent := term.Columns(lead)
	for i, line := range term.Wrap(term.Printable(text), max(s.width-indent, MinWidth/2)) {
		if i == 0 {
			s.line(lead + st.Paint(line, s.color))
			continue
		}
		s.line(strings.Repeat(" ", indent) + st.Paint(line, s.color))
	}
}

func (s *summary) head() {
	title := s.result.Question
	if title == "" {
		title = s.result.Experiment
	}
	s.line("")
	s.prose("  ", title, term.Bold)
	s.prose("  ", answer(s.result).String(), term.Plain)
}

// variant writes the bottleneck of one variant.
func (s *summary) variant(v *result.Variant) {
	s.line("")
	lead := "  " + term.Bold.Paint(term.Printable(v.Name), s.color)
	if s.width < MinWidth*3/2 || term.Columns(v.Name) > s.width/4 {
		s.line(lead)
		s.prose("    ", v.Verdict.Summary, term.Plain)
	} else {
		s.prosePainted(lead+"  ", 4+term.Columns(term.Printable(v.Name)), v.Verdict.Summary)
	}
	for _, w := range v.Verdict.Witnesses {
		s.prose("    "+term.Pad(term.Printable(w.Name), labelWidth), w.Evidence, term.Faint)
	}
	if v.Verdict.Agreement != "" {
		s.prose("    "+term.Pad("agreement", labelWidth), agreement(&v.Verdict), term.Faint)
	}
	if v.Verdict.Advice != "" {
		s.prose("    "+term.Pad("change", labelWidth), v.Verdict.Advice, term.Plain)
	}
	g := &term.Table{Columns: []term.Column{{Gap: 4}, {Gap: 1}, {Gap: 2}, {Gap: 2, Right: true}, {Gap: 2}}}
	for _, written := range v.SLO {
		slo := objective(written)
		st := term.Green
		if !slo.Met {
			st = term.Red
		}
		g.Add(st.Cell(slo.mark()), term.Plain.Cell(term.Printable(slo.Metric)), term.Plain.Cell(term.Printable(slo.Threshold)),
			st.Cell(slo.observed()), term.Plain.Cell(slo.note()))
	}
	for _, line := range g.Lines(s.color) {
		s.line(line)
	}
	for i := range v.Journeys {
		lead := "journey"
		if len(v.Journeys) > 1 {
			lead = v.Journeys[i].Scenario
		}
		s.prose("    "+term.Pad(term.Printable(lead), labelWidth), journey(&v.Journeys[i]), term.Plain)
	}
	s.faults(v)
	for _, ratio := range v.Ratios {
		s.prose("    ", ratio.Component+" "+ratio.Name+" "+format.Measured(ratio.Value), term.Faint)
	}
}

// prosePainted is prose whose lead has colour codes, so that its width, indent,
// is given.
func (s *summary) prosePainted(lead string, indent int, text string) {
	lines := term.Wrap(term.Printable(text), s.width-indent)
	if len(lines) == 0 {
		s.line(strings.TrimRight(lead, " "))
	}
	for i, line := range lines {
		if i == 0 {
			s.line(lead + line)
			continue
		}
		s.line(strings.Repeat(" ", indent) + line)
	}
}

// labelWidth is the column of a witness's name: "perturbation" and two spaces.
const labelWidth = 14

func (s *summary) warnings() {
	all := allWarnings(s.result)
	if len(all) == 0 {
		return
	}
	s.line("")
	for _, warning := range all {
		s.prose("  ! ", warning, term.Yellow)
	}
}

// allWarnings are the run's warnings and then each variant's, named.
func allWarnings(r *result.Result) []string {
	all := slices.Clone(r.Warnings)
	for _, v := range r.Variants {
		for _, warning := range v.Warnings {
			all = append(all, v.Name+": "+warning)
		}
	}
	return all
}

func (s *summary) environment() {
	s.line("")
	s.prose("  ", strings.Join(environmentFacts(s.result), " · "), term.Faint)
}

// environmentFacts are the machine, the versions and the run in short phrases,
// those that are known.
func environmentFacts(r *result.Result) []string {
	e := r.Environment
	facts := []string{}
	add := func(known bool, fact string) {
		if known {
			facts = append(facts, fact)
		}
	}
	add(e.Cores > 0, format.Plural(e.Cores, "core"))
	add(e.CPU != "", e.CPU)
	add(e.MemoryBytes > 0, format.Bytes(e.MemoryBytes))
	add(e.Kernel != "", "Linux "+e.Kernel)
	add(e.Driver != "", e.Driver+" driver")
	add(true, limitsText(e))
	add(true, coresText(e))
	add(e.Version != "", "loadstone "+e.Version)
	add(e.Go != "", e.Go)
	add(true, fmt.Sprintf("seed %d", r.Seed))
	add(r.WarmupSeconds > 0, warmupText(r))
	add(e.ProbeCPU > 0 && format.Finite(e.ProbeCPU), "watching cost "+format.Measured(e.ProbeCPU)+" cores")
	add(speedText(e.Speed) != "", speedText(e.Speed))
	add(r.Finished.After(r.Started), "took "+format.Duration(r.Finished.Sub(r.Started)))
	return facts
}

func warmupText(r *result.Result) string {
	return "each trial warmed up for " + format.Seconds(r.WarmupSeconds)
}

// speedText is by how much the machine's speed varied between trials; empty if that is not known.
func speedText(s *result.SpeedRange) string {
	if s == nil || s.Least.ComputingMS <= 0 || s.Least.MemoryMS <= 0 {
		return ""
	}
	return fmt.Sprintf("speed within %s (computing) and %s (memory)",
		format.Percent(s.Most.ComputingMS/s.Least.ComputingMS-1), format.Percent(s.Most.MemoryMS/s.Least.MemoryMS-1))
}

func coresText(e result.Environment) string {
	if e.CoresAwake {
		return "idle cores kept awake"
	}
	return "idle cores may halt"
}

func limitsText(e result.Environment) string {
	switch {
	case !e.LimitsEnforced:
		return "CPU limits not enforced"
	case e.CgroupVersion > 0:
		return fmt.Sprintf("CPU limits enforced (cgroup v%d)", e.CgroupVersion)
	default:
		return "CPU limits enforced"
	}
}
