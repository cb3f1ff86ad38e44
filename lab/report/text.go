package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
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
// table with a row per variant, how capacity grew with size, then why each variant bears what it bears. It
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

type style string

// The styles, as ANSI SGR parameters.
const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// summary lays the text out. Every string of the result passes printable
// before it is measured or written.
type summary struct {
	b      strings.Builder
	result *result.Result
	width  int
	color  bool
}

func (s *summary) paint(st style, text string) string {
	if !s.color || st == plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

func (s *summary) line(text string) { s.b.WriteString(text + "\n") }

// prose writes text wrapped to the width; lead stands before the first line,
// and the others are indented by its width.
func (s *summary) prose(lead, text string, st style) {
	indent := columns(lead)
	for i, line := range wrap(printable(text), max(s.width-indent, MinWidth/2)) {
		if i == 0 {
			s.line(lead + s.paint(st, line))
			continue
		}
		s.line(strings.Repeat(" ", indent) + s.paint(st, line))
	}
}

func (s *summary) head() {
	title := s.result.Question
	if title == "" {
		title = s.result.Experiment
	}
	s.line("")
	s.prose("  ", title, bold)
	s.prose("  ", answer(s.result).String(), plain)
}

// variant writes why one variant bears what it bears.
func (s *summary) variant(v *result.Variant) {
	s.line("")
	lead := "  " + s.paint(bold, printable(v.Name))
	if s.width < MinWidth*3/2 || columns(v.Name) > s.width/4 {
		s.line(lead)
		s.prose("    ", v.Verdict.Summary, plain)
	} else {
		s.prosePainted(lead+"  ", 4+columns(printable(v.Name)), v.Verdict.Summary)
	}
	for _, w := range v.Verdict.Witnesses {
		s.prose("    "+padded(printable(w.Name), labelWidth), w.Evidence, faint)
	}
	if v.Verdict.Agreement != "" {
		s.prose("    "+padded("agreement", labelWidth), v.Verdict.Agreement, faint)
	}
	if v.Verdict.Advice != "" {
		s.prose("    "+padded("change", labelWidth), v.Verdict.Advice, plain)
	}
	g := &grid{columns: []column{{gap: 4}, {gap: 1}, {gap: 2}, {gap: 2, right: true}}}
	for _, written := range v.SLO {
		slo := objective(written)
		st := green
		if !slo.Met {
			st = red
		}
		g.add(cell{slo.mark(), st}, cell{text: printable(slo.Metric)}, cell{text: printable(slo.Threshold)},
			cell{slo.observed(), st})
	}
	for _, line := range g.lines(s.paint) {
		s.line(line)
	}
	s.faults(v)
	for _, ratio := range v.Ratios {
		s.prose("    ", ratio.Component+" "+ratio.Name+" "+format.Measured(ratio.Value), faint)
	}
}

// prosePainted is prose whose lead has colour codes, so that its width, indent,
// is given.
func (s *summary) prosePainted(lead string, indent int, text string) {
	lines := wrap(printable(text), s.width-indent)
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

func padded(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-columns(s)))
}

func (s *summary) warnings() {
	all := allWarnings(s.result)
	if len(all) == 0 {
		return
	}
	s.line("")
	for _, warning := range all {
		s.prose("  ! ", warning, yellow)
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
	s.prose("  ", strings.Join(environmentFacts(s.result), " · "), faint)
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
	add(e.Kernel != "", e.Kernel)
	add(e.Driver != "", e.Driver+" driver")
	add(true, limitsText(e))
	add(true, coresText(e))
	add(e.Version != "", "loadstone "+e.Version)
	add(e.Go != "", e.Go)
	add(true, fmt.Sprintf("seed %d", r.Seed))
	add(e.ProbeCPU > 0 && format.Finite(e.ProbeCPU), "watching cost "+format.Measured(e.ProbeCPU)+" cores")
	add(r.Finished.After(r.Started), "took "+format.Duration(r.Finished.Sub(r.Started)))
	return facts
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
