package term

import "strings"

var markup = strings.NewReplacer(
	"\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "&", "&amp;", "*", "\\*", "_", "\\_",
	"`", "\\`", "[", "\\[", "]", "\\]", "~", "\\~", "@", "@\u200b", "#", "\\#", "://", ":\u200b//",
)

// Escape keeps text from being read as Markdown, and within its line.
func Escape(text string) string { return markup.Replace(Printable(text)) }

// Markdown returns the rows as a table in Markdown, of which the first is the
// header. align has a letter for each column: l or r. Cells with a style are bold.
func (t *Table) Markdown(align string) string {
	var b strings.Builder
	for i, row := range t.rows {
		for _, c := range row {
			text := Escape(c.Text)
			if text != "" && c.Style != Plain && i > 0 {
				text = "**" + text + "**"
			}
			b.WriteString("| " + text + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString("|" + strings.NewReplacer("l", "---|", "r", "---:|").Replace(align) + "\n")
		}
	}
	return b.String()
}
