package screen

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/format"
	"loadstone/lab/term"
	"loadstone/lab/threshold"
)

// The columns' widths. Three figures beside a label make 40.
const (
	labelWidth  = 13
	figureWidth = 9
)

// busyShare is the part of a core for each thread from which the generator may
// be late without the system's doing.
const busyShare = 0.8

// lines makes the whole screen. From the top down it gets less important, so a
// low terminal loses the end of it.
func (s *Screen) lines(width, height int, outcomes []threshold.Outcome) []line {
	t := s.tally
	lines := []line{{{term.Bold, clean(s.cfg.Title)}}}
	if s.cfg.Total > 0 {
		lines = append(lines, s.bar(width))
	} else {
		lines = append(lines, labelled("elapsed", clock(t.seconds)+s.phase()))
	}
	lines = append(lines, nil)
	lines = append(lines, s.rate(width)...)
	lines = append(lines, s.counts(width)...)
	lines = append(lines, nil)
	lines = append(lines, s.latencies()...)
	lines = append(lines, nil, s.errors())
	if t.checks > 0 {
		lines = append(lines, s.checks())
	}
	lines = append(lines, s.generator())
	if len(outcomes) > 0 {
		lines = append(lines, thresholds(outcomes, height-len(lines)-1, width)...)
	}
	return lines[:min(len(lines), height)]
}

// labelled is a line with its name in the first column.
func labelled(name, text string) line {
	return line{{term.Faint, named(name)}, {term.Plain, text}}
}

// phase says that nothing is measured yet, or that nothing is offered any more.
func (s *Screen) phase() string {
	switch {
	case s.tally.now.Warmup:
		return "  warm-up"
	case s.tally.now.Drain:
		return "  draining"
	default:
		return ""
	}
}

// bar is the time that has passed: shaded what the warm-up took, full what was
// measured.
func (s *Screen) bar(width int) line {
	t, total := s.tally, s.cfg.Total.Seconds()
	times := fmt.Sprintf(" %s / %s", clock(t.seconds), clock(total)) + s.phase()
	cells := max(width-len(times)-2, 3)
	at := func(seconds float64) int { return int(math.Round(min(seconds/total, 1) * float64(cells))) }
	warm, done := at(t.warmup), at(t.seconds)
	return line{
		{term.Plain, "["},
		{term.Yellow, strings.Repeat("▒", warm)},
		{term.Green, strings.Repeat("█", done-warm)},
		{term.Faint, strings.Repeat("·", cells-done)},
		{term.Plain, "]" + times},
	}
}

// rate is the rate of now and a drawing of its past.
func (s *Screen) rate(width int) []line {
	t := s.tally
	past := t.rates[max(0, len(t.rates)-max(width-labelWidth, 1)):]
	most := slices.Max(past)
	text := format.Figure(t.rates[len(t.rates)-1]) + " req/s"
	first := labelled("rate", text)
	first = append(first, span{term.Faint, "   most " + format.Figure(most)})
	return []line{first, labelled(fmt.Sprintf("last %d s", len(past)), sparkline(past, most))}
}

// levels are the heights of a sparkline.
var levels = []rune("▁▂▃▄▅▆▇█")

// sparkline draws values from zero to most, one character each.
func sparkline(values []float64, most float64) string {
	var b strings.Builder
	for _, v := range values {
		level := 0
		if most > 0 {
			level = int(math.Round(v / most * float64(len(levels)-1)))
		}
		b.WriteRune(levels[min(max(level, 0), len(levels)-1)])
	}
	return b.String()
}

// counts are the work in flight and what did not go as planned.
func (s *Screen) counts(width int) []line {
	t := s.tally
	flight := labelled("in flight", format.Count(uint64(max(t.now.InFlight, 0))))
	failed := line{{term.Faint, "failed "}, {alarm(t.failed), format.Count(t.failed)}, {term.Faint, " (" + format.FixedShare(t.failed, t.requests) + ")"}}
	missed := line{
		{term.Faint, "late "}, {alarm(t.late), format.Count(t.late)},
		{term.Faint, "   dropped "}, {alarm(t.dropped), format.Count(t.dropped)},
	}
	if width >= 72 {
		return []line{slices.Concat(flight, say("   "), failed, say("   "), missed)}
	}
	return []line{
		slices.Concat(flight, say("   "), line{{term.Faint, "failed "}, {alarm(t.failed), format.Count(t.failed)}}),
		slices.Concat(line{{term.Faint, named("")}}, missed),
	}
}

// alarm is the style of a count that is best zero.
func alarm(n uint64) term.Style {
	if n > 0 {
		return term.Red
	}
	return term.Plain
}

// latencies are response and service time, in the last window and all over.
func (s *Screen) latencies() []line {
	t := s.tally
	lines := []line{{{term.Faint, named("ms") + figure("p50") + figure("p95") + figure("p99")}}}
	for _, row := range []struct {
		name string
		of   *hdrhistogram.Histogram
	}{
		{"response now", t.nowResponse},
		{"         all", t.response},
		{"service  now", t.nowService},
		{"         all", t.service},
	} {
		lines = append(lines, labelled(row.name,
			figure(quantile(row.of, 50))+figure(quantile(row.of, 95))+figure(quantile(row.of, 99))))
	}
	return lines
}

// errors are the failures by kind, the most frequent first.
func (s *Screen) errors() line {
	t := s.tally
	if len(t.errors) == 0 {
		return labelled("errors", "none")
	}
	kinds := slices.SortedFunc(maps.Keys(t.errors), func(a, b string) int {
		if t.errors[a] != t.errors[b] {
			return int(math.Copysign(1, float64(t.errors[b])-float64(t.errors[a])))
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		parts = append(parts, clean(kind)+" "+format.Count(t.errors[kind]))
	}
	return line{{term.Faint, named("errors")}, {term.Red, strings.Join(parts, ", ")}}
}

func (s *Screen) checks() line {
	t := s.tally
	l := labelled("checks", format.Count(t.checks-min(t.checkFails, t.checks))+" ✓   ")
	return append(l, span{alarm(t.checkFails), format.Count(t.checkFails) + " ✗"})
}

// generator is the generator's own use of the processor.
func (s *Screen) generator() line {
	busy, threads := s.tally.now.Busy, s.cfg.Threads
	text := strings.TrimSpace(fmt.Sprintf("%.2f of %d core", busy, threads))
	if threads > 1 {
		text += "s"
	}
	l := labelled("generator", text)
	if busy > busyShare*float64(threads) {
		l = append(l, span{term.Yellow, "  ▲ busy"})
	}
	return l
}

// thresholds are the outcomes so far under a blank line, in as many rows as
// there are. Where they do not all fit the crossed ones come first.
func thresholds(outcomes []threshold.Outcome, rows, width int) []line {
	if len(outcomes) > rows {
		outcomes = slices.Clone(outcomes)
		slices.SortStableFunc(outcomes, func(a, b threshold.Outcome) int {
			switch {
			case a.Met == b.Met:
				return 0
			case b.Met:
				return -1
			default:
				return 1
			}
		})
	}
	shown := len(outcomes)
	if shown > rows {
		shown = max(rows-1, 0)
	}
	lines := []line{nil}
	for _, o := range outcomes[:shown] {
		lines = append(lines, outcome(o, width))
	}
	if rest := outcomes[shown:]; len(rest) > 0 {
		crossed := 0
		for _, o := range rest {
			if !o.Met {
				crossed++
			}
		}
		lines = append(lines, line{{term.Faint, fmt.Sprintf("… %d more, %d of them crossed", len(rest), crossed)}})
	}
	return lines
}

// outcome is one threshold. What was observed stays in sight, so it is the name
// that gives way.
func outcome(o threshold.Outcome, width int) line {
	mark := span{term.Green, "✓ "}
	if !o.Met {
		mark = span{term.Red, "✗ "}
	}
	observed := "  " + format.Precise(o.Observed)
	name := say(clean(o.Metric + "  " + o.Threshold)).fit(max(width-2-len([]rune(observed)), 1))
	l := slices.Concat(line{mark}, name, line{{mark.style, observed}})
	if o.Reason != "" {
		l = append(l, span{term.Faint, "  " + clean(o.Reason)})
	}
	return l
}
