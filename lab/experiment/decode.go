package experiment

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
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

// section reads one mapping of the format. It remembers which keys it was
// asked for: those are the keys that there are.
type section struct {
	*decoder
	n     *node
	place *node  // where a missing key is reported
	what  string // "the experiment"
	known []string
	hints map[string]hint // by key that is not ours

	missing []lack
	meant   map[string]bool // keys that a wrong one was meant to be
}

// hint says what to write instead of a key, and for which key of ours it stands.
type hint struct{ instead, means string }

// lack is a key that must be there and is not.
type lack struct{ key, example string }

// section returns nil, after recording an error, if n is no mapping. example
// is what to write instead.
func (d *decoder) section(n, place *node, what, example string) *section {
	if !d.plain(n) {
		return nil
	}
	if n.kind != mapping {
		d.errorf(n, "%s must have keys, not %s; write %s", what, describe(n), example)
		return nil
	}
	return &section{decoder: d, n: n, place: place, what: what, meant: make(map[string]bool)}
}

// need returns the field of a key that must be there.
func (s *section) need(key, example string) field {
	f := s.may(key, example)
	if f.n == nil {
		s.missing = append(s.missing, lack{key, example})
	}
	return f
}

// may returns the field of a key that can be left out.
func (s *section) may(key, example string) field {
	s.known = append(s.known, key)
	f := field{decoder: s.decoder, key: key, example: example}
	if p, ok := s.n.pair(key); ok && s.plain(p.value) {
		f.n, f.place = p.value, p.key
	} else if ok {
		f.n, f.broken = p.value, true
	}
	return f
}

// has says whether a key is there.
func (s *section) has(key string) bool {
	_, ok := s.n.pair(key)
	return ok
}

// done refuses every key that was not asked for, and reports those that are
// missing.
func (s *section) done() {
	for _, p := range s.n.pairs {
		if !slices.Contains(s.known, p.key.text) {
			s.unknown(p.key, s.known)
		}
	}
	s.lacks()
}

// unknown refuses a key.
func (s *section) unknown(key *node, known []string) {
	instead := spelling.Choose(key.text, known)
	if h, ok := s.hints[key.text]; ok {
		instead = h.instead
		s.meant[h.means] = true
	} else if near, ok := spelling.Nearest(key.text, known); ok {
		s.meant[near] = true
	}
	s.errorf(key, "%s has no key %s; %s", s.what, spelling.Quote(key.text), instead)
}

// lacks reports the keys that are missing, but for those of which a misspelt
// form was reported.
func (s *section) lacks() {
	for _, m := range s.missing {
		if !s.meant[m.key] {
			s.errorf(s.place, "%s has no %s; write %s", s.what, m.key, m.example)
		}
	}
}

// field is the value of one key. Without a value (n is nil) or with a broken
// one its methods return zero and report nothing: somebody has.
type field struct {
	*decoder
	key     string
	example string
	n       *node
	place   *node // of the key
	broken  bool
}

// given says whether there is a value to read.
func (f field) given() bool { return f.n != nil && !f.broken }

// wrong reports that the value is not what it must be.
func (f field) wrong(want string) {
	f.errorf(f.n, "%s must be %s, not %s; write %s", f.key, want, describe(f.n), f.example)
}

// text reads a line of text that is not empty.
func (f field) text() string {
	switch {
	case !f.given():
		return ""
	case f.n.kind == boolean || f.n.kind == integer || f.n.kind == number:
		f.errorf(f.n, "%s must be text, not %s; write %s: %q", f.key, f.n.text, f.key, f.n.text)
		return ""
	case f.n.kind == null || f.n.kind == text && strings.TrimSpace(f.n.text) == "":
		f.errorf(f.n, "%s is empty; write %s", f.key, f.example)
		return ""
	case f.n.kind != text:
		f.wrong("text")
		return ""
	}
	return f.n.text
}

const (
	namePattern = `^[A-Za-z0-9][A-Za-z0-9._-]*$`
	maxName     = 63
)

var nameForm = regexp.MustCompile(namePattern)

// validName reports whether the name at n can name a directory, and stand
// between others in a line.
func (d *decoder) validName(n *node, what, example string) bool {
	if len(n.text) <= maxName && nameForm.MatchString(n.text) {
		return true
	}
	d.errorf(n, "the %s %s cannot be a name; write letters, digits, dots, dashes and underscores, at most %d, as in %s",
		what, spelling.Quote(n.text), maxName, example)
	return false
}

// oneOf reads one of a few words.
func (f field) oneOf(words ...string) string {
	word := f.text()
	if word == "" || slices.Contains(words, word) {
		return word
	}
	f.errorf(f.n, "%s cannot be %s; %s", f.key, spelling.Quote(word), spelling.Choose(word, words))
	return ""
}

var wholeForm = regexp.MustCompile(`^[+-]?[0-9]+$`)

// whole reads a whole number from low to high.
func (f field) whole(low, high int64) int64 {
	if !f.given() {
		return low
	}
	isText := f.n.kind == text
	if !wholeForm.MatchString(f.n.text) || isText && f.n.quoted || f.n.kind == list || f.n.kind == mapping {
		if isText && wholeForm.MatchString(f.n.text) && strings.HasPrefix(f.example, f.key+":") {
			f.example = f.key + ": " + f.n.text
		}
		f.wrong("a whole number")
		return low
	}
	v, err := strconv.ParseInt(f.n.text, 10, 64)
	if err != nil || v < low || v > high {
		f.errorf(f.n, "%s must be from %d to %d, not %s; write %s", f.key, low, high, f.n.text, f.example)
		return low
	}
	return v
}
