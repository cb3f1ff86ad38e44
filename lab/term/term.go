// Package term lays text out for a terminal: tables aligned by columns, lines
// wrapped to a width, colours that are left out where they are not wanted, and
// names from outside made harmless. In a pipe its tables are plain text.
//
// It writes to nothing and knows no type of the lab; package format writes the
// numbers in its cells.
package term

// Style is how text looks, as the parameter of a select graphic rendition.
type Style string

// The styles of summaries, tables and the live screen.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Faint  Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Colors says whether what is written to a terminal, or not to one, has
// colours. NO_COLOR and a dumb terminal forbid them.
func Colors(terminal bool, getenv func(string) string) bool {
	return terminal && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// Paint returns text in the style, or as it is if there are no colours.
func (s Style) Paint(text string, color bool) string {
	if !color || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}
