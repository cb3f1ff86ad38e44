package web

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"
)

// hole is a place in a page that a request fills.
type hole uint8

const (
	holeID hole = iota
	holeReload
	holeMoment
	holeRelative
	holeName
	holeSchool
	holeRegion
	holeBirth
	holeSex
	holeTotal
	holeAverage
	holePassMark
	holeMark // the first of as many as a stream has subjects
)

const holeCount = holeMark + subjects

var holeNames = [holeCount]string{
	"id", "reload", "moment", "relative", "name", "school", "region", "birth", "sex",
	"total", "average", "passmark", "mark0", "mark1", "mark2", "mark3", "mark4", "mark5", "mark6",
}

// values fill the holes. They are plain text: escaping is the sheet's business.
type values [holeCount]string

// holeEdge stands around a hole's name in what the template makes.
const holeEdge = "@@"

// sheet is a page with everything done that does not depend on the request: the
// bytes between the holes, and which hole comes where.
//
// html/template would walk its tree for every request and look up each field by
// reflection, which costs several times the budget of a result. So it runs once
// for each page and language, and what it leaves to do is to copy and to escape.
// All holes are in text or in quoted attributes of HTML, where the one escape
// below is right; a test looks at every hole's surroundings.
type sheet struct {
	parts []string // one more than holes
	holes []hole
}

func newSheet(html string) (*sheet, error) {
	s := &sheet{}
	for i, piece := range strings.Split(html, holeEdge) {
		if i%2 == 0 {
			s.parts = append(s.parts, piece)
			continue
		}
		h, err := holeNamed(piece)
		if err != nil {
			return nil, err
		}
		s.holes = append(s.holes, h)
	}
	if len(s.parts) != len(s.holes)+1 {
		return nil, fmt.Errorf("a page has an odd number of %s", holeEdge)
	}
	return s, nil
}

func holeNamed(name string) (hole, error) {
	for i, known := range holeNames {
		if name == known {
			return hole(i), nil
		}
	}
	return 0, fmt.Errorf("a page has no hole named %q", name)
}

// write makes the page the response's body.
func (s *sheet) write(to *fasthttp.Response, v *values) {
	to.ResetBody()
	for i, h := range s.holes {
		to.AppendBodyString(s.parts[i])
		if text := v[h]; clean(text) {
			to.AppendBodyString(text)
		} else {
			to.AppendBody(appendEscaped(nil, text))
		}
	}
	to.AppendBodyString(s.parts[len(s.holes)])
}

// clean reports whether a text needs no escape: ASCII from the space on, without
// the five characters that mean something in HTML.
func clean(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c >= 0x7f:
			return false
		case c == '<' || c == '>' || c == '&' || c == '"' || c == '\'':
			return false
		}
	}
	return true
}

// appendEscaped appends a text for use in HTML's text and quoted attributes.
// Control characters and what is not UTF-8 become U+FFFD: neither can be in a
// page, and a decoder that guesses must not find its own meaning in them.
func appendEscaped(dst []byte, text string) []byte {
	for _, char := range text {
		switch {
		case char == '<':
			dst = append(dst, "&lt;"...)
		case char == '>':
			dst = append(dst, "&gt;"...)
		case char == '&':
			dst = append(dst, "&amp;"...)
		case char == '"':
			dst = append(dst, "&#34;"...)
		case char == '\'':
			dst = append(dst, "&#39;"...)
		case char < ' ' || (char >= 0x7f && char < 0xa0):
			dst = utf8.AppendRune(dst, utf8.RuneError)
		default:
			dst = utf8.AppendRune(dst, char)
		}
	}
	return dst
}
