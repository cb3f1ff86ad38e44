package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/format"
)

// maxErrors is how many errors one reading reports: enough to repair a file in
// one go, few enough to read.
const maxErrors = 20

// Error is one thing that is wrong with an experiment file. Message is one
// sentence: what was wrong and what to write instead.
type Error struct {
	File    string
	Line    int // from 1
	Column  int // from 1, in characters
	Message string
}

// Error returns "file:line:column: message".
func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
}

// Errors is everything that was found wrong with a file, by position: at most
// 20 errors, and one more that says how many were left out.
type Errors []*Error

// Error returns one line for each error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.As each *Error.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// sorted returns the errors by position, each once (what stands behind an
// alias is read as often as it is used), cut at maxErrors. It is nil for none.
func (es Errors) sorted() error {
	if len(es) == 0 {
		return nil
	}
	out := slices.Clone(es)
	slices.SortStableFunc(out, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	out = slices.CompactFunc(out, func(a, b *Error) bool { return *a == *b })
	if more := len(out) - maxErrors; more > 0 {
		first := *out[maxErrors]
		first.Message = fmt.Sprintf("%s more here and below; correct those above and check again", format.Plural(more, "error"))
		out = append(out[:maxErrors:maxErrors], &first)
	}
	return out
}
