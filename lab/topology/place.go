package topology

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MistakeError is something that is wrong with what a system is loaded from, and
// where that is written, as well as it is known.
type MistakeError struct {
	// File is what Config calls the file, or the overlay.
	File string
	// Line and Column count from 1. They are 0 where the place is not known, and
	// of an overlay: that is a part of another file, whose owner finds Path in it.
	Line, Column int
	Overlay      bool
	// Path are the keys that lead to the place, and in lists indices from 0;
	// empty if it is not known.
	Path    []string
	Message string // one sentence without the place

	cause error
}

// Error returns "file:line:column: message", or "file: message".
func (e *MistakeError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Unwrap returns what was found wrong.
func (e *MistakeError) Unwrap() error { return e.cause }

// Mistake returns err as a mistake at a path of keys in the last of the system's
// files that has that path, or in the first that has the longest part of it.
func (s *System) Mistake(err error, path ...string) error {
	l, failed := newLoad(s.config, nil)
	if failed != nil {
		return err // there are no files to blame
	}
	return l.mistake(err, err.Error(), wanted{path: path})
}

// blame says which of the files has what is wrong with what they say together.
func (l *load) blame(err error) error {
	return l.explained(err, len(l.files)-1, 0)
}

// explain blames a mistake on one file.
func (l *load) explain(file int, err error) error {
	return l.explained(err, file, file)
}

// explained finds the place of a mistake in the files from last back to first.
func (l *load) explained(err error, last, first int) error {
	text := reword(err)
	want := place(text)
	if fault, ok := errors.AsType[*resourceError](err); ok {
		want = wanted{path: fault.path}
	}
	if unknown, ok := errors.AsType[*UnknownServiceError](err); ok {
		want, text = wanted{path: []string{"services", unknown.Name}}, unknown.sentence()
	}
	part := load{files: l.files[first : last+1], names: l.names[first : last+1], config: l.config}
	return part.mistake(err, advise(lineForm.ReplaceAllString(text, "")), want)
}

// lineForm is a place that is given before the message instead.
var lineForm = regexp.MustCompile(`^line \d+: `)

// mistake is err at the place that is wanted: in the last file that has it, or
// else, since something is missing, in the first that has the most of it.
func (l *load) mistake(err error, text string, want wanted) error {
	e := &MistakeError{Message: text, cause: err}
	best := len(l.files) - 1
	var at spot
	for i := range slices.Backward(l.files) {
		found, ok := find(l.files[i].Content, want)
		if !ok || found.walked < at.walked {
			continue
		}
		best, at = i, found
		if found.walked == len(want.path) {
			break
		}
	}
	e.File, e.Path = l.names[best], at.path
	e.Overlay = filepath.Base(l.files[best].Filename) == overlayFile
	if !e.Overlay {
		e.Line, e.Column = at.line, at.column
	}
	return e
}

// wanted is a place by what leads to it.
type wanted struct {
	path         []string
	needle       string // text within what path leads to
	must         bool   // there is no place without the needle
	line, column int    // in place of a path
}

// placeForms say to which place a sentence belongs. The path's parts are
// separated by dots.
var placeForms = []struct {
	form         *regexp.Regexp
	path, needle string
}{
	{regexp.MustCompile(`^service "([^"]+)" depends on undefined service "([^"]+)"`), "services.$1.depends_on.$2", ""},
	{regexp.MustCompile(`^service "([^"]+)" refers to undefined (volume|network|config|secret) ([^\s:]+)`), "services.$1.${2}s.$3", ""},
	{regexp.MustCompile(`^service "([^"]+)" `), "services.$1", ""},
	{regexp.MustCompile(`^service (\S+) waits for (\S+) to `), "services.$1.depends_on.$2", ""},
	{regexp.MustCompile(`^dependency cycle detected: (\S+) -> (\S+)`), "services.$1.depends_on.$2", ""},
	{regexp.MustCompile(`^service [^:]+: (config|secret) ([^:]+): `), "${1}s.$2", ""},
	{regexp.MustCompile(`^volume ([^:]+): `), "volumes.$1", ""},
	{regexp.MustCompile(`^service ([^:]+): ([^\s:]+)`), "services.$1.$2", ""},
	{regexp.MustCompile("^([a-z]+\\.[^\\s:]+)[: ].*?`([^`]+)`"), "$1", "$2"},
	{regexp.MustCompile(`^([a-z]+\.[^\s:]+)[: ]`), "$1", ""},
	{regexp.MustCompile("^Compose has no key `([^`]+)`"), "$1", ""},
}

var (
	portForm    = regexp.MustCompile(`^(\d+) is not a port`)
	envFileForm = regexp.MustCompile(`^env file (\S+) not found`)
	linesForm   = regexp.MustCompile(`\bline (\d+)(?:, column (\d+))?`)
)

// place finds out what a sentence speaks of.
func place(text string) wanted {
	for _, p := range placeForms {
		if m := p.form.FindStringSubmatchIndex(text); m != nil {
			path := string(p.form.ExpandString(nil, p.path, text, m))
			return wanted{path: strings.Split(path, "."), needle: string(p.form.ExpandString(nil, p.needle, text, m))}
		}
	}
	if m := portForm.FindStringSubmatch(text); m != nil {
		return wanted{path: []string{"services"}, needle: m[1], must: true}
	}
	if m := envFileForm.FindStringSubmatch(text); m != nil {
		return wanted{path: []string{"services"}, needle: filepath.Base(m[1]), must: true}
	}
	all := linesForm.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return wanted{}
	}
	m := all[len(all)-1] // the others say where what contains it began
	if lineForm.MatchString(text) {
		m = all[0]
	}
	line, _ := strconv.Atoi(m[1])   // digits
	column, _ := strconv.Atoi(m[2]) // digits, or nothing
	return wanted{line: line, column: column}
}

// spot is a place in a text.
type spot struct {
	line, column int
	path         []string // that leads there
	walked       int      // parts of the wanted path
}

// find finds a place, or the nearest above it that there is. ok is false if
// not even the first key is there.
func find(text []byte, want wanted) (s spot, ok bool) {
	if want.line > 0 {
		return spot{line: want.line, column: max(want.column, firstColumn(text, want.line))}, true
	}
	file, err := parser.ParseBytes(text, 0)
	if err != nil || len(file.Docs) == 0 {
		return s, false
	}
	node := file.Docs[0].Body
	for parts := want.path; len(parts) > 0; {
		next, n := along(node, parts)
		if n == 0 {
			break
		}
		s.to(next)
		node, parts = next.value, parts[n:]
		s.walked += n
	}
	if want.needle != "" && s.walked > 0 {
		steps := search(node, want.needle)
		if steps == nil && want.must {
			return spot{}, false
		}
		for _, next := range steps {
			s.to(next)
		}
	}
	return s, s.walked > 0
}

func (s *spot) to(next step) {
	at := next.at.GetToken().Position
	s.line, s.column, s.path = at.Line, at.Column, append(s.path, next.key)
}

// firstColumn is where the text of a line begins.
func firstColumn(text []byte, line int) int {
	lines := strings.Split(string(text), "\n")
	if line > len(lines) {
		return 1
	}
	return 1 + len(lines[line-1]) - len(strings.TrimLeft(lines[line-1], " \t"))
}

// step is one level down in a text.
type step struct {
	key   string
	at    ast.Node // that names it
	value ast.Node
}

// steps are all ways down.
func steps(node ast.Node) []step {
	if anchor, ok := node.(*ast.AnchorNode); ok {
		node = anchor.Value
	}
	var all []step
	switch n := node.(type) {
	case *ast.MappingValueNode:
		all = append(all, step{n.Key.GetToken().Value, n.Key, n.Value})
	case *ast.MappingNode:
		for _, entry := range n.Values {
			all = append(all, step{entry.Key.GetToken().Value, entry.Key, entry.Value})
		}
	case *ast.SequenceNode:
		for i, item := range n.Values {
			all = append(all, step{strconv.Itoa(i), item, item})
		}
	}
	return all
}

// along is the way down that parts begin with, and how many of them it takes:
// more than one if the key itself has dots. In a list it is the item with that
// text, alone or before a colon, or with that index.
func along(node ast.Node, parts []string) (step, int) {
	all := steps(node)
	for n := 1; n <= len(parts); n++ {
		key := strings.Join(parts[:n], ".")
		for _, s := range all {
			text := scalar(s.value)
			if s.key == key || s.at == s.value && (text == key || strings.HasPrefix(text, key+":")) {
				return s, n
			}
		}
	}
	return step{}, 0
}

// search is the way to the first key or scalar with a text in it.
func search(node ast.Node, needle string) []step {
	for _, s := range steps(node) {
		if s.at != s.value && strings.Contains(s.key, needle) {
			return []step{s}
		}
		if strings.Contains(scalar(s.value), needle) {
			return []step{s}
		}
		if below := search(s.value, needle); below != nil {
			return append([]step{s}, below...)
		}
	}
	return nil
}

// scalar is the text of a scalar; empty for what has parts.
func scalar(node ast.Node) string {
	if s, ok := node.(ast.ScalarNode); ok {
		return s.GetToken().Value
	}
	return ""
}
