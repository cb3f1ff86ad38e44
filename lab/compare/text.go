package compare

import (
	"fmt"
	"io"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/stats"
	"loadstone/lab/term"
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
	fmt.Fprintf(&b, "%s\n", d.Headline())
	for _, t := range d.Tables {
		fmt.Fprintf(&b, "\n%s\n", t.heading())
		if len(t.Rows) > 0 { // else there are only notes
			b.WriteString(t.laidOut(d).Text(color))
		}
		for _, n := range t.AllNotes() {
			fmt.Fprintf(&b, "  %s\n", n)
		}
	}
	if len(d.Settings) > 0 {
		b.WriteString("\n" + d.settingsTable().Text(color))
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

// Heading says what the table compares, with its unit.
func (t *Table) Heading() string {
	if len(t.Rows) == 0 || t.Rows[0].Metric.Unit == "" || t.Rows[0].Metric.Unit == "share" {
		return t.Title
	}
	return t.Title + ", " + t.Rows[0].Metric.Unit
}

// heading says how it compares, too.
func (t *Table) heading() string {
	out := t.Heading()
	if t.Reference != "" {
		out += "; the change is relative to " + t.Reference + ", round by round"
	}
	return out
}

// laidOut are the rows as a terminal and Markdown show them.
func (t *Table) laidOut(d *Difference) *term.Table {
	base, sample := "A", "B"
	if d.Base == d.Sample {
		base, sample = "first", "second"
	}
	table := term.NewTable(2, "llll", "", base, sample, "change")
	for _, r := range t.Rows {
		cells := term.Plain.Cells(r.Name, r.BaseText(), r.SampleText())
		table.Add(append(cells, style(r.Change).Cell(r.changeText()))...)
	}
	return table
}

func (d *Difference) settingsTable() *term.Table {
	table := term.NewTable(2, "lll", "what differs", "A", "B")
	for _, s := range d.Settings {
		table.AddTexts(s.What, s.Base, s.Sample)
	}
	return table
}

// AllNotes are the table's own, and those of its comparisons, each once.
func (t *Table) AllNotes() []string {
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
	counted, bounds, joint := 0, false, false
	for _, r := range t.Rows {
		bounds = bounds || r.BaseBound || r.SampleBound
		if r.Result == nil {
			continue
		}
		joint = joint || r.Result.Test == stats.Range
		if r.Result.Outcome != stats.TooFew {
			counted++
		}
		for _, w := range r.Result.Warnings {
			add(w)
		}
	}
	switch {
	case joint:
		add("all pairs of variants were compared together, round by round (Tukey): p and intervals allow for that")
	case counted > 1:
		add(fmt.Sprintf("p is corrected for %d comparisons (Holm); the intervals are not", counted))
	}
	if bounds {
		add("≥ is a lower bound: the measurement ended before the system did, and the comparison knows nothing of what lies beyond")
	}
	return out
}

// BaseText is what was measured of the base: a median with its interval, or a dash.
func (r *Row) BaseText() string { return r.measured(r.Base, r.BaseBound) }

// SampleText is the same of the sample.
func (r *Row) SampleText() string { return r.measured(r.Sample, r.SampleBound) }

func (r *Row) measured(iv stats.Interval, bound bool) string {
	if r.Metric.Unit == "share" {
		return format.Percent(iv.Value)
	}
	return Median(iv, bound)
}

// Words are the comparison in words; ok is false if there was nothing to compare,
// which Note explains.
func (r *Row) Words() (words Compared, ok bool) {
	if r.Result == nil {
		return Compared{}, false
	}
	return InWords(r.Result, r.Adjusted, r.Change, r.Note), true
}

// changeText is what the comparison found: "~" or the change, its interval and p.
func (r *Row) changeText() string {
	words, ok := r.Words()
	if !ok {
		return r.Note
	}
	res := r.Result
	n := fmt.Sprintf("n=%d", res.N)
	if res.Test == stats.RankSum {
		n = fmt.Sprintf("n=%d+%d", res.BaseN, res.N)
	}
	numbers := fmt.Sprintf("%s  p%s %s", words.Interval, words.P, n)
	switch {
	case res.Outcome == stats.TooFew:
		return fmt.Sprintf("%s  %s %s: %s", words.Change, words.Interval, n, words.Reading)
	case r.Note != "":
		return fmt.Sprintf("?  %s (%s)", numbers, words.Reading)
	case res.Outcome == stats.Indistinct:
		return "~  " + numbers
	default:
		return fmt.Sprintf("%s  %s  %s", words.Change, numbers, words.Reading)
	}
}

// style is green for what got better and red for what got worse.
func style(c stats.Change) term.Style {
	switch c {
	case stats.Better:
		return term.Green
	case stats.Worse:
		return term.Red
	default:
		return term.Plain
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
