package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// directive is one of NGINX's, with where it stands in the text, so that it can
// be changed there and everything else, line numbers too, stays as it is.
type directive struct {
	name       string
	args       []word
	start, end int // of all of it, with its semicolon or its block
	open       int // where the block's text begins; 0 for none
	block      []directive
}

// word is one argument without its quotes.
type word struct {
	text       string
	start, end int // with its quotes
}

// deepest bounds the nesting of blocks: NGINX has no use for more than six.
const deepest = 50

// nginxParser reads a configuration as NGINX's own lexer does: words end at
// white space, a semicolon or a brace, but ${name} is part of a word.
type nginxParser struct {
	text string
	at   int
}

func parseNginx(text string) ([]directive, error) {
	p := &nginxParser{text: text}
	return p.directives(0)
}

func (p *nginxParser) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+strings.Count(p.text[:p.at], "\n"), fmt.Sprintf(format, args...))
}

// directives reads up to the brace that closes the block, or the end.
func (p *nginxParser) directives(depth int) ([]directive, error) {
	if depth > deepest {
		return nil, p.errorf("blocks are nested too deeply")
	}
	var all []directive
	for {
		p.skip()
		switch {
		case p.at == len(p.text) && depth == 0:
			return all, nil
		case p.at == len(p.text):
			return nil, p.errorf("a block is not closed; a } is missing")
		case p.text[p.at] == '}' && depth > 0:
			return all, nil
		case strings.IndexByte("{};", p.text[p.at]) >= 0:
			return nil, p.errorf("there is a %q where a directive should begin", p.text[p.at])
		}
		d, err := p.directive(depth)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
}

func (p *nginxParser) directive(depth int) (directive, error) {
	d := directive{start: p.at}
	for {
		p.skip()
		if p.at == len(p.text) {
			return d, p.errorf("the directive %q does not end; a ; is missing", d.name)
		}
		switch p.text[p.at] {
		case ';':
			p.at++
			d.end = p.at
			return d, nil
		case '{':
			p.at++
			d.open = p.at
			var err error
			if d.block, err = p.directives(depth + 1); err != nil {
				return d, err
			}
			p.at++
			d.end = p.at
			return d, nil
		case '}':
			return d, p.errorf("the directive %q does not end before the }; a ; is missing", d.name)
		}
		w, err := p.word()
		if err != nil {
			return d, err
		}
		if w.start == d.start {
			d.name = w.text
		} else {
			d.args = append(d.args, w)
		}
	}
}

// skip passes white space and comments.
func (p *nginxParser) skip() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		case '#':
			if i := strings.IndexByte(p.text[p.at:], '\n'); i >= 0 {
				p.at += i
			} else {
				p.at = len(p.text)
			}
		default:
			return
		}
	}
}

func (p *nginxParser) word() (word, error) {
	w := word{start: p.at}
	var text strings.Builder
	if quote := p.text[p.at]; quote == '"' || quote == '\'' {
		for p.at++; p.at < len(p.text); p.at++ {
			switch c := p.text[p.at]; {
			case c == '\\' && p.at+1 < len(p.text):
				p.at++
				text.WriteString(unescaped(p.text[p.at]))
			case c == quote:
				p.at++
				w.text, w.end = text.String(), p.at
				return w, nil
			default:
				text.WriteByte(c)
			}
		}
		p.at = w.start
		return w, p.errorf("a quote is not closed")
	}
	for ; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		if strings.IndexByte(" \t\r\n;", c) >= 0 || c == '{' && (p.at == w.start || p.text[p.at-1] != '$') {
			break
		}
		if c == '\\' && p.at+1 < len(p.text) {
			p.at++
			text.WriteString(unescaped(p.text[p.at]))
			continue
		}
		text.WriteByte(c)
	}
	w.text, w.end = text.String(), p.at
	return w, nil
}

// unescaped is what NGINX makes of a backslash and c: it takes the backslash
// off before a quote or another, and keeps it before anything else.
func unescaped(c byte) string {
	switch c {
	case '"', '\'', '\\', ' ':
		return string(c)
	default:
		return `\` + string(c)
	}
}

// quoted is a word as NGINX reads it back.
func quoted(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\r\n;{}\"'\\#") {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// edit replaces the text from start to end.
type edit struct {
	start, end int
	text       string
}

// apply makes edits, which must not overlap, in a text. Those at the same place
// are made in the order in which they are given.
func apply(text string, edits []edit) string {
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.start, b.start) })
	var out strings.Builder
	at := 0
	for _, e := range edits {
		out.WriteString(text[at:e.start])
		out.WriteString(e.text)
		at = e.end
	}
	out.WriteString(text[at:])
	return out.String()
}
