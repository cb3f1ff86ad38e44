// Package text says which texts from outside may be kept and shown: to anybody, in any
// place, beside other text.
package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Check returns what is wrong with one line of text that people wrote, or nil. Field is
// what the text is called, for the error's sentence; most is its largest size in bytes.
// An empty text is wrong.
func Check(field, text string, most int) error {
	switch {
	case text == "":
		return fmt.Errorf("%s is empty: write one", field)
	case len(text) > most:
		return fmt.Errorf("%s has %d bytes: write at most %d", field, len(text), most)
	case strings.TrimSpace(text) != text:
		return fmt.Errorf("%s is %q: write it without spaces around it", field, text)
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return checkUnicode(field, text)
		}
	}
	return nil
}

// checkUnicode is the slow half of Check, for text beyond printable ASCII.
func checkUnicode(field, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%s is %q, which is not UTF-8: save the data as UTF-8", field, text)
	}
	for _, char := range text {
		switch {
		case unicode.IsControl(char):
			return fmt.Errorf("%s is %q: write it without control characters and line breaks", field, text)
		case unicode.In(char, unseen...):
			return fmt.Errorf("%s is %q: %U is not seen, or changes how the text around it is shown: write it without", field, text, char)
		}
	}
	return nil
}

// unseen are characters with which two names that look the same differ, or a name changes
// the text beside it on a page, a slip or a log: marks of the writing direction (U+061C,
// U+200E, U+202E, U+2066), line and paragraph separators (U+2028, U+2029), spaces
// of no width, private ones, and what fonts leave out. The joiners U+200C and U+200D are among
// them: Ethiopic, Latin and Arabic names are written without.
var unseen = []*unicode.RangeTable{
	unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}
