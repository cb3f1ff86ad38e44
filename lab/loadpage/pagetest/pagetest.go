// Package pagetest has what the tests of pages share that people get as one file: it
// reads a page as XML, and its checks find what is wrong with the elements. It needs
// no browser, so it says nothing of what a page looks like but for its colours.
//
// A check returns one sentence for each problem. Which checks a page must pass is for
// its test to say.
package pagetest

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// Hostile are names as an attacker or an accident would give them: each must be
// shown as the text that it is.
var Hostile = []string{
	`"><script>alert(1)</script>`,
	`' onload='alert(1)' x='`,
	`</title></style></svg></pre></code>--><!--<b>`,
	`]]>&lt;&amp;{{.Title}}{{.Verdict}}<?php ?><!DOCTYPE x>`,
	"\x00\x1b[2J\u202e\ufffe\xff</p>",
	`javascript:alert(1)`,
	`https://example.org/x.js`,
}

// Element is one element of a page, with what a check needs to know of it.
type Element struct {
	Name    string
	Attr    map[string]string
	Parents []string // their names, the outermost first
	Text    string   // its own, without that of elements inside
}

// Parse reads a page as XML, strictly: every element closed, in order,
// every attribute quoted, every special character escaped. HTML asks for less;
// a page that passes has no markup of which anybody's name became a part.
func Parse(tb testing.TB, page string) []*Element {
	tb.Helper()
	decoder := xml.NewDecoder(strings.NewReader(page))
	var all, open []*Element
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			tb.Fatalf("the page is not well-formed: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &Element{Name: token.Name.Local, Attr: map[string]string{}}
			for _, p := range open {
				e.Parents = append(e.Parents, p.Name)
			}
			for _, a := range token.Attr {
				e.Attr[a.Name.Local] = a.Value
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].Text += string(token)
			}
		}
	}
	return all
}

// Shown are the texts of a page, one after the other, with single blanks.
func Shown(elements []*Element) string {
	var b strings.Builder
	for _, e := range elements {
		b.WriteString(" " + strings.Join(strings.Fields(e.Text), " ") + " ")
	}
	return b.String()
}
