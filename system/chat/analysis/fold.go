package analysis

import (
	_ "embed" // for the table
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// foldTable says what becomes of characters, one range a line: the first, the last, and what.
// Other characters stay as they are.
//
//	=0020   this one
//	+20     the one so much above, or below with -; in hexadecimal as all here
//	drop    nothing
//
//go:embed fold.tsv
var foldTable string

// fold is a line of it.
type fold struct {
	first, last rune
	shift       rune
	to          rune // 0 to shift, dropped to drop
}

const (
	dropped = -1
	space   = ' '
)

// ascii is what becomes of those, and folds of the others.
var (
	folds = parseFolds(foldTable)
	ascii = foldASCII()
)

// parseFolds panics where the table, a part of the program, is not in its form.
func parseFolds(table string) []fold {
	var all []fold
	for line := range strings.Lines(table) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		number := func(text string) rune {
			n, err := strconv.ParseInt(text, 16, 32)
			if err != nil {
				panic(fmt.Sprintf("fold.tsv: %q: %v", line, err))
			}
			return rune(n)
		}
		f := fold{first: number(parts[0]), last: number(parts[1])}
		switch what := parts[2]; {
		case what == "drop":
			f.to = dropped
		case what[0] == '=':
			f.to = number(what[1:])
		default:
			f.shift = number(what)
		}
		all = append(all, f)
	}
	return all
}

func foldASCII() (table [128]rune) {
	for c := range table {
		table[c] = lookUp(rune(c))
	}
	return table
}

func lookUp(c rune) rune {
	i, _ := slices.BinarySearchFunc(folds, c, func(f fold, c rune) int { return int(f.last - c) })
	if i == len(folds) || c < folds[i].first {
		return c
	}
	if to := folds[i].to; to != 0 {
		return to
	}
	return c + folds[i].shift
}

// The conjoining letters of Korean, and the syllables: (lead*vowels + vowel)*tails + tail.
const (
	leads, vowels, tails                   = 19, 21, 28
	firstLead, firstVowel, beforeTail      = 0x1100, 0x1161, 0x11a7
	firstSyllable, lastSyllable       rune = 0xac00, 0xac00 + leads*vowels*tails - 1
)

// compose is the syllable of two that follow each other, or 0.
func compose(a, b rune) rune {
	switch {
	case a >= firstLead && a < firstLead+leads && b >= firstVowel && b < firstVowel+vowels:
		return firstSyllable + ((a-firstLead)*vowels+b-firstVowel)*tails
	case b > beforeTail && b < beforeTail+tails && a >= firstSyllable && a <= lastSyllable && (a-firstSyllable)%tails == 0:
		return a + b - beforeTail
	}
	return 0
}

// Sizes of what is looked at, in characters.
const (
	// maxRun is how often one may follow itself: five as three.
	maxRun = 3
	// Longest bounds a message: what follows is not looked at.
	Longest = 100
)

// Normalise appends a text as the model looks at it, with a space around it, to dst:
//
//  1. each character as fold.tsv has it; several spaces are one, and there is none at either end
//  2. Korean letters of NFD are the syllables of NFC
//  3. one that follows itself more than twice is left out
//  4. what is behind the first Longest is left out
//
// A byte that is not UTF-8 is U+FFFD.
func Normalise(dst []rune, text string) []rune {
	dst = append(dst[:0], space)
	run, pending := 0, rune(space) // pending is what the next character may become one syllable with
	for _, c := range text {
		switch {
		case c < 128:
			c = ascii[c]
		case c < firstSyllable || c > lastSyllable:
			c = lookUp(c)
		}
		if c == dropped {
			continue
		}
		if c >= firstVowel && c < beforeTail+tails {
			if s := compose(pending, c); s != 0 {
				pending = s
				continue
			}
		}
		if dst, run = follow(dst, run, pending); len(dst) > Longest {
			pending = space
			break
		}
		pending = c
	}
	if dst, _ = follow(dst, run, pending); dst[len(dst)-1] != space {
		dst = append(dst, space)
	}
	return dst
}

// follow appends a character to dst, of which the last is there run times in a row, unless it
// is a second space or there more than maxRun times.
func follow(dst []rune, run int, c rune) ([]rune, int) {
	if c != dst[len(dst)-1] {
		return append(dst, c), 1
	}
	if run++; c == space || run > maxRun {
		return dst, run
	}
	return append(dst, c), run
}
