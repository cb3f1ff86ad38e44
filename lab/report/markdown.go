package report

import (
	"fmt"
	"io"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/result"
	"loadstone/lab/term"
)

// Markdown writes r for a pull request: the question and its answer, a table
// with a row per variant, and the rest folded away. It fails only if w does.
func Markdown(w io.Writer, r *result.Result) error {
	var b strings.Builder
	title := r.Question
	if title == "" {
		title = r.Experiment
	}
	fmt.Fprintf(&b, "### %s\n\n", term.Escape(title))
	for _, p := range answer(r) {
		text := term.Escape(p.Text)
		if p.Strong && text != "" {
			text = "**" + text + "**"
		} else { // the spaces around what is stressed are part of the sentence
			text = p.Text[:leading(p.Text)] + text + p.Text[len(p.Text)-trailing(p.Text):]
		}
		b.WriteString(text)
	}
	b.WriteString("\n")
	markdownTable(r, &b)
	if warnings := allWarnings(r); len(warnings) > 0 {
		b.WriteByte('\n')
		for _, text := range warnings {
			fmt.Fprintf(&b, "> ⚠ %s\n>\n", term.Escape(text))
		}
	}
	markdownReasons(r, &b)
	fmt.Fprintf(&b, "\n<sub>%s</sub>\n", term.Escape(strings.Join(environmentFacts(r), " · ")))
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

func leading(s string) int  { return len(s) - len(strings.TrimLeft(s, " ")) }
func trailing(s string) int { return min(len(s)-len(strings.TrimRight(s, " ")), len(s)-leading(s)) }

// markdownTable writes a row per variant, and what the signs in it mean.
func markdownTable(r *result.Result, b *strings.Builder) {
	if len(r.Variants) == 0 {
		return
	}
	rate := r.RateUnit()
	align, t := "lrrrll", term.NewTable(0, "llllll", "variant", "capacity, "+rate, "ratio", "p95", "objectives", "limited by")
	if r.MeasuresLoad() {
		align, t = "lrrrrrll", term.NewTable(0, "llllllll", "variant", "offered, "+rate, "p50", "p95", "p99", "failed", "objectives", "limited by")
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		p := v.Latency.Response
		value, interval := capacityCells(v, false)
		tilde, ratio, of := ratioCells(r, v.Name)
		texts := []string{strings.TrimSpace(value + " " + interval), strings.TrimSpace(strings.Join([]string{tilde, ratio, of}, " ")), format.Latency(p.P95)}
		if r.MeasuresLoad() {
			texts = []string{format.Measured(v.Rate), format.Latency(p.P50), format.Latency(p.P95), format.Latency(p.P99), format.Percent(v.Failed)}
		}
		texts = append(texts, objectivesCell(v).Text, limitedBy(v))
		t.Add(append([]term.Cell{term.Bold.Cell(v.Name)}, term.Plain.Cells(texts...)...)...)
	}
	b.WriteString("\n" + t.Markdown(align))
	legend := &summary{result: r, width: 1 << 16}
	legend.legend(hasTilde(r))
	fmt.Fprintf(b, "\n%s\n", term.Escape(legend.b.String()))
}

// markdownReasons gives the bottleneck of each variant.
func markdownReasons(r *result.Result, b *strings.Builder) {
	if len(r.Variants) == 0 {
		return
	}
	b.WriteString("\n<details><summary>What limits each variant</summary>\n")
	for i := range r.Variants {
		d := &r.Variants[i].Verdict
		fmt.Fprintf(b, "\n**%s**: %s\n", term.Escape(r.Variants[i].Name), term.Escape(d.Summary))
		for _, w := range d.Witnesses {
			fmt.Fprintf(b, "- %s: %s\n", term.Escape(w.Name), term.Escape(w.Evidence))
		}
		if d.Agreement != "" {
			fmt.Fprintf(b, "- agreement: %s\n", term.Escape(agreement(d)))
		}
		if d.Advice != "" {
			fmt.Fprintf(b, "- what to change first: %s\n", term.Escape(d.Advice))
		}
	}
	b.WriteString("\n</details>\n")
}
