package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
		first.Message = fmt.Sprintf("%s more here and below; correct those above and check again", count(more, "error"))
		out = append(out[:maxErrors:maxErrors], &first)
	}
	return out
}

// count returns "1 error" or "3 errors".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// choose returns what to write instead of a word that is none of the known
// ones: the nearest of them, or else all of them.
func choose(word string, known []string) string {
	if near, ok := nearest(word, known); ok {
		return "write " + near
	}
	if len(known) == 1 {
		return "write " + known[0]
	}
	return "write one of: " + strings.Join(known, ", ")
}

// nearest returns the known word that differs least from word, if it is near
// enough to be what was meant: two typing errors, or one in a short word.
func nearest(word string, known []string) (string, bool) {
	limit := 2
	if len(word) < 6 {
		limit = 1
	}
	best, found := "", false
	for _, k := range known {
		if abs(len(k)-len(word)) > 2 {
			continue // cannot be near, and word may be as long as a file
		}
		if n := distance(strings.ToLower(word), strings.ToLower(k)); n <= limit {
			best, found, limit = k, true, n-1
		}
	}
	return best, found
}

func abs(n int) int { return max(n, -n) }

// distance is the number of characters to insert, remove, replace or swap with
// their neighbour to turn a into b (Levenshtein with adjacent transpositions).
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	rows := make([][]int, len(s)+1)
	for i := range rows {
		rows[i] = make([]int, len(t)+1)
		rows[i][0] = i
	}
	for j := range t {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(s); i++ {
		for j := 1; j <= len(t); j++ {
			replace := rows[i-1][j-1]
			if s[i-1] != t[j-1] {
				replace++
			}
			rows[i][j] = min(replace, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(s)][len(t)]
}
