package difference

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"loadstone/lab/compare"
	"loadstone/lab/report"
)

// Text writes a difference for a terminal or a pipe: aligned columns, with
// colours if they are wanted.
func Text(w io.Writer, d *Difference, color bool) error {
	var b strings.Builder
	if d.Base == d.Sample {
		fmt.Fprintf(&b, "run %s\n", describe(d.Base))
	} else {
		fmt.Fprintf(&b, "A  %s\nB  %s\n", describe(d.Base), describe(d.Sample))
	}
	for _, t := range d.Tables {
		fmt.Fprintf(&b, "\n%s\n", t.heading())
		grid := [][]string{t.header(d)}
		for _, r := range t.Rows {
			grid = append(grid, r.cells())
		}
		if len(t.Rows) == 0 {
			grid = nil // there are only notes
		}
		writeGrid(&b, grid, func(row int) string {
			if !color || row == 0 {
				return ""
			}
			return paint(t.Rows[row-1].Change)
		})
		for _, n := range t.notes() {
			fmt.Fprintf(&b, "  %s\n", n)
		}
	}
	if len(d.Settings) > 0 {
		grid := [][]string{{"what differs", "A", "B"}}
		for _, s := range d.Settings {
			grid = append(grid, []string{s.What, s.Base, s.Sample})
		}
		b.WriteByte('\n')
		writeGrid(&b, grid, func(int) string { return "" })
	}
	if len(d.Source) > 0 {
		b.WriteString("\nthe experiment files differ: - A, + B\n")
		for _, line := range d.shownSource() {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	for i, text := range d.Warnings {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "warning: %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func describe(r Run) string {
	return fmt.Sprintf("%s (%s, %s)", r.Name, r.Experiment, r.Started.UTC().Format("2006-01-02 15:04 MST"))
}

// heading says what the table compares and how.
func (t *Table) heading() string {
	unit := ""
	if len(t.Rows) > 0 {
		unit = t.Rows[0].Metric.Unit
	}
	out := t.Title
	if unit != "" && unit != "share" {
		out += ", " + unit
	}
	if t.Reference != "" {
		out += "; the change is relative to " + t.Reference + ", round by round"
	}
	return out
}

func (t *Table) header(d *Difference) []string {
	if d.Base == d.Sample {
		return []string{"", "first", "second", "change"}
	}
	return []string{"", "A", "B", "change"}
}

// notes are the table's own, and those of its comparisons, each once.
func (t *Table) notes() []string {
	var out []string
	seen := make(map[string]bool)
	add := func(text string) {
		if text != "" && !seen[text] {
			seen[text] = true
			out = append(out, text)
		}
	}
	for _, n := range t.Notes {
		add(n)
	}
	counted, bounds := 0, false
	for _, r := range t.Rows {
		bounds = bounds || r.BaseBound || r.SampleBound
		if r.Result == nil {
			continue
		}
		if r.Result.Outcome != compare.TooFew {
			counted++
		}
		for _, w := range r.Result.Warnings {
			add(w)
		}
	}
	if counted > 1 {
		add(fmt.Sprintf("p is corrected for %d comparisons (Holm); the intervals are not", counted))
	}
	if bounds {
		add("≥ is a lower bound: the measurement ended before the system did, and the comparison knows nothing of what lies beyond")
	}
	return out
}

func (r *Row) cells() []string {
	if r.Metric.Unit == "share" {
		return []string{r.Name, report.Percent(r.Base.Value), report.Percent(r.Sample.Value), r.verdict()}
	}
	return []string{r.Name, measured(r.Base, r.BaseBound), measured(r.Sample, r.SampleBound), r.verdict()}
}

// measured is a median with its interval, or a dash.
func measured(iv compare.Interval, bound bool) string {
	if iv.Value == 0 {
		return "–"
	}
	v, low, high := report.MeasuredInterval(iv.Value, iv.Low, iv.High)
	if bound {
		v = "≥" + v
	}
	if iv.Confidence == 0 {
		return v
	}
	return fmt.Sprintf("%s [%s, %s]", v, low, high)
}

// verdict says what the comparison found: "~" or the change, its interval and p.
func (r *Row) verdict() string {
	if r.Result == nil {
		return r.Note
	}
	res := r.Result
	n := fmt.Sprintf("n=%d", res.N)
	if res.Test == compare.RankSum {
		n = fmt.Sprintf("n=%d+%d", res.BaseN, res.N)
	}
	numbers := fmt.Sprintf("%s  %s %s", span(res.Ratio), probability(r.Adjusted), n)
	switch {
	case res.Outcome == compare.TooFew:
		return fmt.Sprintf("%s  %s %s: too few trials, %d of each are needed", factor(res.Ratio.Value, ratioOf(res.Ratio)), span(res.Ratio), n, res.Needed)
	case r.Note != "":
		return fmt.Sprintf("?  %s (%s)", numbers, r.Note)
	case res.Outcome == compare.Indistinct:
		return "~  " + numbers
	default:
		return fmt.Sprintf("%s  %s  %s", factor(res.Ratio.Value, ratioOf(res.Ratio)), numbers, r.Change)
	}
}

func probability(p float64) string {
	if p < 0.001 {
		return "p<0.001"
	}
	return fmt.Sprintf("p=%.3f", p)
}

// span is the interval of a ratio.
func span(iv compare.Interval) string {
	if iv.Confidence == 0 {
		return "[no interval]"
	}
	times := ratioOf(iv)
	return fmt.Sprintf("[%s, %s]", factor(iv.Low, times), factor(iv.High, times))
}

// ratioOf says whether a change is so large that it reads better as a factor.
func ratioOf(iv compare.Interval) bool { return iv.High > 2 || iv.Low < 0.5 }

// factor writes a ratio as a change in per cent, or as a factor.
func factor(ratio float64, times bool) string {
	if times {
		return "×" + report.Measured(ratio)
	}
	percent := 100 * (ratio - 1)
	if math.Abs(percent) < 0.05 {
		return "0.0 %"
	}
	sign := "+"
	if percent < 0 {
		sign = "−"
	}
	return fmt.Sprintf("%s%.1f %%", sign, math.Abs(percent))
}

func paint(c compare.Change) string {
	switch c {
	case compare.Better:
		return "\x1b[32m"
	case compare.Worse:
		return "\x1b[31m"
	default:
		return ""
	}
}

// writeGrid aligns all columns but the last, which is the one that is painted.
func writeGrid(b *strings.Builder, grid [][]string, color func(row int) string) {
	var widths []int
	for _, row := range grid {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for at, row := range grid {
		var line strings.Builder
		for i, c := range row {
			if i == len(row)-1 {
				if paint := color(at); paint != "" {
					c = paint + c + "\x1b[0m"
				}
				line.WriteString(c)
				break
			}
			line.WriteString(c + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
		}
		fmt.Fprintf(b, "  %s\n", strings.TrimRight(line.String(), " "))
	}
}

// maxSource is how many lines of a difference between experiment files are shown.
const maxSource = 60

// shownSource are the lines in which the files differ, as diff writes them.
func (d *Difference) shownSource() []string {
	var out []string
	for i, l := range d.Source {
		if i == maxSource {
			return append(out, fmt.Sprintf("… and %d more lines", len(d.Source)-maxSource))
		}
		sign := "-"
		if l.In == "sample" {
			sign = "+"
		}
		out = append(out, fmt.Sprintf("%s%4d  %s", sign, l.Number, l.Text))
	}
	return out
}
