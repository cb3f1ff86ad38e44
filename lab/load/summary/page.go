package summary

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"loadstone/lab/term"
)

// Style is how text looks.
type Style struct {
	// Color has colours set by escape sequences, as terminals understand them.
	Color bool
	// ASCII keeps to the letters that every terminal and every pipe can carry.
	ASCII bool
	// Width is how many columns there are. Fewer than 60 count as 60: a table
	// needs that many.
	Width int
}

// DefaultStyle is for pipes and files: no colour, UTF-8, 80 columns.
func DefaultStyle() Style { return Style{Width: 80} }

const leastWidth = 60

// page is a text in the making.
type page struct {
	style Style
	b     strings.Builder
}

func newPage(style Style) *page {
	style.Width = max(style.Width, leastWidth)
	return &page{style: style}
}

// line writes one line, without what would be blank at its end.
func (p *page) line(parts ...string) {
	p.b.WriteString(strings.TrimRight(strings.Join(parts, ""), " "))
	p.b.WriteByte('\n')
}

// heading begins a section.
func (p *page) heading(title string) {
	p.line()
	p.line(p.paint(term.Bold, title))
}

func (p *page) paint(style term.Style, text string) string { return style.Paint(text, p.style.Color) }

// mark is the sign for what holds and what does not, in its colour.
func (p *page) mark(ok bool) string {
	style, sign, word := term.Red, "✗", "FAIL"
	if ok {
		style, sign, word = term.Green, "✓", "PASS"
	}
	if p.style.ASCII {
		sign = word
	}
	return p.paint(style, sign)
}

// or is one of two ways to write the same: the second if only ASCII will do.
func (p *page) or(text, ascii string) string {
	if p.style.ASCII {
		return ascii
	}
	return text
}

// clean makes text of others fit for a terminal: a server must not be able to
// move the cursor by what it answers.
func (p *page) clean(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.IsPrint(r) && r != utf8.RuneError && (r < utf8.RuneSelf || !p.style.ASCII):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return strings.TrimSpace(b.String())
}

// wrapped writes text on as many lines as it takes, the first of them after
// first, the others below it after indent. A word that is longer than a line is
// broken.
func (p *page) wrapped(style term.Style, first, indent, text string) {
	room := p.style.Width - max(term.Columns(first), term.Columns(indent))
	for {
		part := term.Front(text, room)
		if len(part) < len(text) {
			if space := strings.LastIndexByte(text[:len(part)+1], ' '); space > 0 {
				part = text[:space]
			}
		}
		p.line(p.paint(style, first+part))
		text = strings.TrimLeft(text[len(part):], " ")
		if text == "" {
			return
		}
		first = indent
	}
}

// cut shortens text to so many columns.
func (p *page) cut(text string, columns int) string {
	if term.Columns(text) <= columns {
		return text
	}
	dots := p.or("…", "...")
	return term.Front(text, max(columns-term.Columns(dots), 1)) + dots
}

// table writes rows in columns. align has a letter for each column: l or r.
// The first column is cut if the table would be wider than the page.
func (p *page) table(align string, rows [][]string) {
	const leastName = 8
	t := term.Table{Columns: term.Columned(2, align)}
	widest := 0
	for _, row := range rows {
		t.AddTexts(row...)
		widest = max(widest, term.Columns(row[0]))
	}
	if over := t.Width() - p.style.Width; over > 0 {
		t = term.Table{Columns: t.Columns}
		for _, row := range rows {
			row[0] = p.cut(row[0], max(widest-over, min(widest, leastName)))
			t.AddTexts(row...)
		}
	}
	p.b.WriteString(t.Text(p.style.Color))
}
