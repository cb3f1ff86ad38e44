package experiment

import (
	"fmt"
	"strings"
	"unicode"

	"loadstone/block/spelling"
)

// decoder reads nodes into values and gathers what is wrong on the way. Every
// read returns a value that is safe to go on with, so that one mistake does
// not hide the next.
type decoder struct {
	file string
	errs Errors
	// files are those that the file names under load, columns the columns of
	// them that it uses.
	files   []reference
	columns []columnUse
	calls   []callUse // of gRPC

	loadOnly bool   // reads load, slo and seed alone
	measure  string // how the load is measured; empty if that cannot be told
	shape    shape  // of the scenario that is being read

	fromSetup map[string]*extraction // what the load's setup extracts, by name
}

// errorf records an error at n, as one line: names in the file can hold line
// breaks and what a terminal would obey.
func (d *decoder) errorf(n *node, format string, args ...any) {
	d.errs = append(d.errs, &Error{File: d.file, Line: n.line, Column: n.col, Message: oneLine(fmt.Sprintf(format, args...))})
}

// oneLine replaces line breaks and other control characters by spaces.
func oneLine(message string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message)
}

// describe says in a sentence what was found.
func describe(n *node) string {
	switch n.kind {
	case null:
		return "nothing"
	case list:
		if len(n.items) == 0 {
			return "an empty list"
		}
		return "a list"
	case mapping:
		if len(n.pairs) == 0 {
			return "an empty mapping"
		}
		return "a mapping"
	case text:
		return "the text " + spelling.Quote(n.text)
	default:
		return n.text
	}
}

// plain refuses a tag, which means something only within a variant.
func (d *decoder) plain(n *node) bool {
	if n.tag == "" {
		return true
	}
	d.errorf(n, "the tag %s means nothing here; remove it", n.tag)
	return false
}
