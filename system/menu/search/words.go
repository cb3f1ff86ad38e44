package search

import (
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxWords is how many words of a query count: nobody types more to find a dish.
const maxWords = 8

// words are those of a text as they are compared: letters and digits, small, without marks.
// Where a script has no spaces each character is a word.
func words(text string) []string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(text) {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			b.WriteRune(' ')
			b.WriteRune(r)
			b.WriteRune(' ')
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(unicode.ToLower(r))
		case !unicode.IsMark(r) && r != '\'' && r != '\u2019': // as in crème, and l'eau
			b.WriteRune(' ')
		}
	}
	return strings.Fields(b.String())
}

// query is what is looked for.
type query []string

// parse reads what somebody typed.
func parse(text string) query {
	const most = 400 // bytes; a dish's name has half of that
	if len(text) > most {
		text = text[:most]
	}
	all := words(text)
	return query(all[:min(len(all), maxWords)])
}

// match is the query in the language of FTS5. Words are letters and digits, and quoted all the
// same, for some are operators.
func (q query) match() string {
	return `"` + strings.Join(q, `" AND "`) + `" *`
}

// short is the query with as much of the last word as has an index, and whether that is less.
func (q query) short() (query, bool) {
	last := []rune(q[len(q)-1])
	if len(last) <= indexed {
		return q, false
	}
	return append(slices.Clone(q[:len(q)-1]), string(last[:indexed])), true
}

// suits reports whether a dish with these words has all of the query's, the last of them
// perhaps as a beginning.
func (q query) suits(dish []string) bool {
	for i, word := range q {
		last := i == len(q)-1
		if !slices.ContainsFunc(dish, func(w string) bool { return w == word || last && strings.HasPrefix(w, word) }) {
			return false
		}
	}
	return true
}
