package compare

import (
	"fmt"
	"io"
	"strings"

	"loadstone/lab/stats"
)

// Markdown writes a difference for a pull request: the headline first, then the tables, and the rest folded away.
func Markdown(w io.Writer, d *Difference) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", plain(d.Headline()))
	if d.Base == d.Sample {
		fmt.Fprintf(&b, "Variants of %s\n", plain(describe(d.Base)))
	} else {
		fmt.Fprintf(&b, "- A: %s\n- B: %s\n", plain(describe(d.Base)), plain(describe(d.Sample)))
	}
	for _, t := range d.Tables {
		fmt.Fprintf(&b, "\n**%s**\n\n", plain(t.heading()))
		if len(t.Rows) > 0 {
			fmt.Fprintf(&b, "|%s |\n|---|---:|---:|---|\n", strings.Join(t.header(d), " | "))
		}
		for _, r := range t.Rows {
			cells := r.cells()
			for i := range cells {
				cells[i] = plain(cells[i])
			}
			if r.Change != stats.Unclear {
				cells[3] = "**" + cells[3] + "**"
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		for _, n := range t.AllNotes() {
			fmt.Fprintf(&b, "\n%s\n", plain(n))
		}
	}
	if len(d.Settings) > 0 {
		b.WriteString("\n| what differs | A | B |\n|---|---|---|\n")
		for _, s := range d.Settings {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", plain(s.What), plain(s.Base), plain(s.Sample))
		}
	}
	if len(d.Source) > 0 {
		fence := "```"
		for strings.Contains(strings.Join(d.shownSource(), "\n"), fence) {
			fence += "`"
		}
		fmt.Fprintf(&b, "\n<details><summary>The experiment files differ</summary>\n\n%sdiff\n%s\n%s\n\n</details>\n",
			fence, strings.Join(d.shownSource(), "\n"), fence)
	}
	for _, text := range d.Warnings {
		fmt.Fprintf(&b, "\n> ⚠ %s\n", plain(text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// plain keeps text from being read as markup, and within its cell.
func plain(text string) string {
	return strings.NewReplacer(
		"\\", "\\\\", "|", "\\|", "\n", " ", "\r", " ", "<", "&lt;", ">", "&gt;", "&", "&amp;",
		"*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "]", "\\]", "~", "\\~", "@", "@\u200b",
	).Replace(text)
}
