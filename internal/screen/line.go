package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"loadstone/lab/term"
)

// span is a piece of a line in one style.
type span struct {
	style term.Style
	text  string
}

// line is one row of a screen.
type line []span

// say makes a line, or a part of one, of plain text.
func say(text string) line { return line{{term.Plain, text}} }

// width is how many columns a line takes.
func (l line) width() int {
	n := 0
	for _, s := range l {
		n += term.Columns(s.text)
	}
	return n
}

// fit shortens a line to a width; what is missing shows as an ellipsis.
func (l line) fit(width int) line {
	if l.width() <= width {
		return l
	}
	left := width - 1
	var short line
	for _, s := range l {
		n := term.Columns(s.text)
		if n > left {
			return append(short, span{s.style, term.Front(s.text, left) + "…"})
		}
		short = append(short, s)
		left -= n
	}
	return short
}

// paint writes a line with its colours, or without.
func (l line) paint(b *strings.Builder, color bool) {
	for _, s := range l {
		b.WriteString(s.style.Paint(s.text, color))
	}
}

// clean makes text from outside fit to be drawn: every character that is no
// picture becomes a question mark.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// named writes text into the first column, figure into one of those beside it.
func named(text string) string { return term.Pad(text, labelWidth) }

func figure(text string) string {
	return strings.Repeat(" ", max(0, figureWidth-term.Columns(text))) + text
}
