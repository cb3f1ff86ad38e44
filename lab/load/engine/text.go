package engine

import (
	"strconv"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
)

// text is a text with placeholders, compiled.
type text []part

// part is literal text, followed by what its kind says.
type part struct {
	literal string
	then    partKind
	escape  load.Escape // of a body's value
	value   int         // for the kinds with a value: index into script.values
}

type partKind uint8

const (
	thenNothing     partKind = iota
	thenPathValue            // percent-encoded
	thenHeaderValue          // without control characters
	thenBodyValue            // as escape says
	thenBodyLength
	thenCookies
	thenCondition // whether what is in the user's cache still is the answer
	thenLogTarget // the target of an access log's line
)

// source is where a placeholder's value comes from.
type source struct {
	name      string
	extracted bool        // by an earlier step
	column    feed.Column // else: of the scenario's feeds
}

// append appends the text with values filled in.
func (t text) append(dst []byte, values [][]byte) []byte {
	for i := range t {
		p := &t[i]
		dst = append(dst, p.literal...)
		switch p.then {
		case thenPathValue, thenHeaderValue, thenBodyValue:
			dst = p.append(dst, p.then, values[p.value])
		default:
		}
	}
	return dst
}

// append appends a value as its kind of text requires.
func (p *part) append(dst []byte, kind partKind, value []byte) []byte {
	switch kind {
	case thenPathValue:
		return appendEscaped(dst, value)
	case thenHeaderValue:
		return appendPrintable(dst, value)
	default:
		return p.escape.Append(dst, value)
	}
}

// length is how long a body is with values filled in.
func (t text) length(values [][]byte) int {
	n := 0
	for i := range t {
		n += len(t[i].literal)
		if t[i].then == thenBodyValue {
			n += t[i].escape.Length(values[t[i].value])
		}
	}
	return n
}

// appendEscaped appends a value to a path or query: whatever it holds, it stays
// one piece of it. Slashes stay, so that a value may be a path.
func appendEscaped(dst, value []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range value {
		if kindOf[c]&plain != 0 {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// appendPrintable appends a value to a header, with a space for every control
// character: a value must not begin another header.
func appendPrintable(dst, value []byte) []byte {
	for _, c := range value {
		if kindOf[c]&printable == 0 {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// appendInt appends a number in decimal.
func appendInt(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
