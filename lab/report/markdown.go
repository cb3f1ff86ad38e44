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
	fmt.Fprintf(&b, "### %s\n\n", markdownText(title))
	for _, p := range answer(r) {
		text := markdownText(p.Text)
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
			fmt.Fprintf(&b, "> ⚠ %s\n>\n", markdownText(text))
		}
	}
	markdownReasons(r, &b)
	fmt.Fprintf(&b, "\n<sub>%s</sub>\n", markdownText(strings.Join(environmentFacts(r), " · ")))
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
	row := func(cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
	b.WriteByte('\n')
	if r.MeasuresLoad() {
		row("variant", "offered, "+markdownText(r.RateUnit()), "p50", "p95", "p99", "failed", "objectives", "limited by")
		row("---", "---:", "---:", "---:", "---:", "---:", "---", "---")
	} else {
		row("variant", "capacity, "+markdownText(r.RateUnit()), "ratio", "p95", "objectives", "limited by")
		row("---", "---:", "---:", "---:", "---", "---")
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		name, limit, objectives := "**"+markdownText(v.Name)+"**", markdownText(limitedBy(v)), objectivesCell(v).Text
		p := v.Latency.Response
		if r.MeasuresLoad() {
			row(name, format.Measured(v.Rate), format.Latency(p.P50), format.Latency(p.P95), format.Latency(p.P99), format.Percent(v.Failed), objectives, limit)
			continue
		}
		value, interval := capacityCells(v, false)
		tilde, ratio, of := ratioCells(r, v.Name)
		row(name, markdownText(strings.TrimSpace(value+" "+interval)),
			markdownText(strings.TrimSpace(strings.Join([]string{tilde, ratio, of}, " "))), format.Latency(p.P95), objectives, limit)
	}
	legend := &summary{result: r, width: 1 << 16}
	legend.legend(hasTilde(r))
	fmt.Fprintf(b, "\n%s\n", markdownText(legend.b.String()))
}

// markdownReasons gives the bottleneck of each variant.
func markdownReasons(r *result.Result, b *strings.Builder) {
	if len(r.Variants) == 0 {
		return
	}
	b.WriteString("\n<details><summary>What limits each variant</summary>\n")
	for i := range r.Variants {
		d := &r.Variants[i].Verdict
		fmt.Fprintf(b, "\n**%s**: %s\n", markdownText(r.Variants[i].Name), markdownText(d.Summary))
		for _, w := range d.Witnesses {
			fmt.Fprintf(b, "- %s: %s\n", markdownText(w.Name), markdownText(w.Evidence))
		}
		if d.Agreement != "" {
			fmt.Fprintf(b, "- agreement: %s\n", markdownText(d.Agreement))
		}
		if d.Advice != "" {
			fmt.Fprintf(b, "- what to change first: %s\n", markdownText(d.Advice))
		}
	}
	b.WriteString("\n</details>\n")
}

// markdownText keeps text from being read as markup, and within its line.
func markdownText(text string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", "\\*", "_", "\\_",
		"`", "\\`", "[", "\\[", "]", "\\]", "~", "\\~", "@", "@\u200b", "#", "\\#", "://", ":\u200b//",
	).Replace(term.Printable(text))
}
