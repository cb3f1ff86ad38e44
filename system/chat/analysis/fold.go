package analysis

import (
	_ "embed" // for the table
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
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

const (
	dropped = -1
	space   = ' '
)

// folds is the table as one is looked up: what is added to a character is in the page that
// pages names for its upper bits, at its lower ones. Page 0 is that of most: nothing is added.
type folds struct {
	pages  [utf8.MaxRune>>pageBits + 1]uint8
	shifts [][1 << pageBits]rune
}

const pageBits = 8

var folded = parseFolds(foldTable)

// parseFolds panics where the table, a part of the program, is not in its form.
func parseFolds(table string) *folds {
	all := &folds{shifts: make([][1 << pageBits]rune, 1)}
	for line := range strings.Lines(table) {
		parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		number := func(text string) rune {
			n, err := strconv.ParseInt(text, 16, 32)
			if err != nil {
				panic(fmt.Sprintf("fold.tsv: %q: %v", line, err))
			}
			return rune(n)
		}
		for c := number(parts[0]); c <= number(parts[1]); c++ {
			switch what := parts[2]; {
			case what == "drop":
				all.add(c, dropped-c)
			case what[0] == '=':
				all.add(c, number(what[1:])-c)
			default:
				all.add(c, number(what))
			}
		}
	}
	return all
}

func (f *folds) add(c, shift rune) {
	page := &f.pages[c>>pageBits]
	if *page == 0 {
		*page = uint8(len(f.shifts))
		f.shifts = append(f.shifts, [1 << pageBits]rune{})
	}
	f.shifts[*page][c&(1<<pageBits-1)] = shift
}

func (f *folds) lookUp(c rune) rune {
	return c + f.shifts[f.pages[c>>pageBits]][c&(1<<pageBits-1)]
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
		c = folded.lookUp(c)
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
