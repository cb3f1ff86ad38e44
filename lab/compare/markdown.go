package compare

import (
	"fmt"
	"io"
	"strings"

	"loadstone/lab/term"
)

// Markdown writes a difference for a pull request: the headline first, then the tables, and the rest folded away.
func Markdown(w io.Writer, d *Difference) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", term.Escape(d.Headline()))
	if d.Base == d.Sample {
		fmt.Fprintf(&b, "Variants of %s\n", term.Escape(describe(d.Base)))
	} else {
		fmt.Fprintf(&b, "- A: %s\n- B: %s\n", term.Escape(describe(d.Base)), term.Escape(describe(d.Sample)))
	}
	for _, t := range d.Tables {
		fmt.Fprintf(&b, "\n**%s**\n\n", term.Escape(t.heading()))
		if len(t.Rows) > 0 {
			b.WriteString(t.laidOut(d).Markdown("lrrl"))
		}
		for _, n := range t.AllNotes() {
			fmt.Fprintf(&b, "\n%s\n", term.Escape(n))
		}
	}
	if len(d.Settings) > 0 {
		b.WriteString("\n" + d.settingsTable().Markdown("lll"))
	}
	if source := strings.Join(d.shownSource(), "\n"); source != "" {
		fence := "```"
		for strings.Contains(source, fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "\n<details><summary>The experiment files differ</summary>\n\n%sdiff\n%s\n%s\n\n</details>\n",
			fence, source, fence)
	}
	for _, text := range d.Warnings {
		fmt.Fprintf(&b, "\n> ⚠ %s\n", term.Escape(text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
