package screen

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// style is how a piece of a line looks.
type style int

const (
	plainText style = iota
	faint
	strong
	good
	bad
	warn
)

// paints are the styles' select graphic rendition parameters.
var paints = map[style]string{faint: "2", strong: "1", good: "32", bad: "31", warn: "33"}

// span is a piece of a line in one style.
type span struct {
	style style
	text  string
}

// line is one row of a screen.
type line []span

// say makes a line, or a part of one, of plain text.
func say(text string) line { return line{{plainText, text}} }

// width is a line's length in characters, which is in columns as long as no
// character is a wide one.
func (l line) width() int {
	n := 0
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
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
		n := utf8.RuneCountInString(s.text)
		if n > left {
			return append(short, span{s.style, string([]rune(s.text)[:left]) + "…"})
		}
		short = append(short, s)
		left -= n
	}
	return short
}

// paint writes a line with its colours, or without.
func (l line) paint(b *strings.Builder, color bool) {
	for _, s := range l {
		if code := paints[s.style]; color && code != "" {
			b.WriteString("\x1b[" + code + "m" + s.text + "\x1b[0m")
		} else {
			b.WriteString(s.text)
		}
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
func named(text string) string {
	return text + strings.Repeat(" ", max(0, labelWidth-utf8.RuneCountInString(text)))
}

func figure(text string) string {
	return strings.Repeat(" ", max(0, figureWidth-utf8.RuneCountInString(text))) + text
}
