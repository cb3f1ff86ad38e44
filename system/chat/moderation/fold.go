package moderation

import (
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Fold returns a text as it is compared with others: what looks alike is the same. Letters
// are in their compatible form (NFKC) and small, without accents; letters of other scripts,
// digits and signs that pass for a Latin letter are that letter; and what is not seen is left
// out. The result is for comparison and not to be read. Folded twice, it is the same.
func Fold(text string) []rune {
	if folded, ok := foldSimple(text); ok {
		return folded
	}
	out := make([]rune, 0, len(text))
	plain := true // nothing is left that could be composed
	for _, r := range norm.NFKD.String(text) {
		if unicode.In(r, unseen...) || unicode.Is(accents, r) {
			continue
		}
		r = unicode.ToLower(r)
		if latin, ok := lookalikes[r]; ok {
			r = latin
		}
		plain = plain && r < firstComposed
		out = append(out, r)
	}
	if plain {
		return out
	}
	return []rune(norm.NFKC.String(string(out))) // syllables of Hangul are whole again
}

// firstComposed is before the first character that combines with another and is no accent.
const firstComposed = 0x0590

// foldSimple folds a text of ASCII and whole syllables of Hangul, as most are: in a tenth of the time.
func foldSimple(text string) ([]rune, bool) {
	out := make([]rune, 0, len(text))
	for _, r := range text {
		switch {
		case r >= 'A' && r <= 'Z':
			r |= 0x20
		case r >= firstSyllable && r <= lastSyllable:
		case r < ' ' || r >= 0x7f:
			return nil, false
		case r < 'a' || r > 'z':
			if latin, ok := lookalikes[r]; ok {
				r = latin
			}
		}
		out = append(out, r)
	}
	return out, true
}

// The syllables of Hangul, which stay as they are.
const firstSyllable, lastSyllable = 0xac00, 0xd7a3

// unseen are characters that are not seen: those of no width, marks of direction, tags and
// variants.
var unseen = []*unicode.RangeTable{unicode.Cf, unicode.Cc, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

// accents are marks on letters with which a word stays the same word to the eye. Marks that
// are vowels, as in Hebrew or Hindi, are not among them.
var accents = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x0300, Hi: 0x036f, Stride: 1}, {Lo: 0x1ab0, Hi: 0x1aff, Stride: 1}, {Lo: 0x1dc0, Hi: 0x1dff, Stride: 1},
	{Lo: 0x20d0, Hi: 0x20ff, Stride: 1}, {Lo: 0xfe20, Hi: 0xfe2f, Stride: 1},
}}

// lookalikes are small characters that pass for a small Latin letter.
var lookalikes = lookalikeTable()

func lookalikeTable() map[rune]rune {
	table := map[rune]rune{}
	for latin, others := range map[rune]string{
		'a': "4@аαɑ", 'b': "8вьβƅ", 'c': "сϲᴄ¢", 'd': "ԁɗđ", 'e': "3еεєҽ€", 'f': "ƒ", 'g': "9ɡց", 'h': "нһհ", 'i': "1іιıɩ|",
		'j': "јϳ", 'k': "кκ", 'l': "ӏłℓ", 'm': "мʍ", 'n': "ոηп", 'o': "0оοօσøө", 'p': "рρ", 'q': "ԛգ", 'r': "гᴦɼ",
		's': "5$ѕꜱ", 't': "7тτŧ", 'u': "υսʋ", 'v': "ѵν", 'w': "ԝωшѡ", 'x': "хχ", 'y': "уγүʏ", 'z': "2ᴢƶ",
	} {
		for _, r := range others {
			table[r] = latin
		}
	}
	return table
}

// inWord reports whether a character is part of a word.
func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// joined reports whether two characters are within one word: where there are spaces between
// words. In Korean, where particles are added to words, and in scripts without spaces, each
// place may be the end of one.
func joined(a, b rune) bool {
	return inWord(a) && inWord(b) && !unicode.In(a, unspaced...) && !unicode.In(b, unspaced...)
}

var unspaced = []*unicode.RangeTable{
	unicode.Hangul, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}
