// Package spelling finds what somebody meant to write: the known word that is
// nearest to one that is none, and the text of a message that says so. It knows
// letters and no language.
package spelling

import (
	"strconv"
	"strings"
)

// Quote quotes text for a message, and shortens what is long.
func Quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return strconv.Quote(s)
}

// Choose returns what to write instead of a word that is none of the known
// ones: "write " and the nearest of them, or else all of them.
func Choose(word string, known []string) string {
	if near, ok := Nearest(word, known); ok {
		return "write " + near
	}
	if len(known) == 1 {
		return "write " + known[0]
	}
	return "write one of: " + strings.Join(known, ", ")
}

// ChooseName is Choose for names that a user gave, of which there may be many
// and of any spelling.
func ChooseName(word string, known []string) string {
	const most = 10
	quoted := make([]string, 0, most)
	for _, k := range known[:min(len(known), most)] {
		quoted = append(quoted, Quote(k))
	}
	if near, ok := Nearest(word, known); ok {
		return "write " + Quote(near)
	}
	text := "write one of: " + strings.Join(quoted, ", ")
	if len(known) == 1 {
		text = "write " + quoted[0]
	}
	if more := len(known) - most; more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// Nearest returns the known word that differs least from word, if it is near
// enough to be what was meant: two typing errors, or one in a short word.
func Nearest(word string, known []string) (string, bool) {
	limit := 2
	if len(word) < 6 {
		limit = 1
	}
	best, found := "", false
	for _, k := range known {
		if max(len(k)-len(word), len(word)-len(k)) > 2 {
			continue // cannot be near, and word may be as long as a file
		}
		if n := Distance(strings.ToLower(word), strings.ToLower(k)); n <= limit {
			best, found, limit = k, true, n-1
		}
	}
	return best, found
}

// Distance is the number of characters to insert, remove, replace or swap with
// their neighbour to turn a into b (Levenshtein with adjacent transpositions).
// It takes time and memory by the product of their lengths.
func Distance(a, b string) int {
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
