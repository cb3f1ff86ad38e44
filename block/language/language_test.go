package language

import (
	"strings"
	"testing"
)

var languages = []string{"en", "am", "de"}

func TestPreferred(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]string{
		"": "en", "am": "am", "AM-et": "am", "en-GB,en;q=0.9,am;q=0.8": "en", "fr,am;q=0.3": "am",
		"en;q=0.5, am;q=0.7": "am", "de;q=0.7,am;q=0.7": "de", "am;q=0": "en", "am;q=NaN": "en", "am;q=2": "en", "am;q=": "en", "am;x=1": "en", "*": "en",
		"amh": "en", ",,,;;,": "en", strings.Repeat("fr,", 15) + "am": "am", strings.Repeat("fr,", 16) + "am": "en", strings.Repeat("x", 300) + ",am": "en",
		"am ; q = 0.5": "am", "\xff;q=,;;=": "en",
	} {
		if got := languages[Preferred(accept, languages)]; got != want {
			t.Errorf("%q: got %s, want %s", accept, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]int{"en": 0, "AM-ET": 1, "de-": 2, "": -1, "deu": -1, "-de": -1} {
		if got, ok := Find(tag, languages); ok != (want >= 0) || got != max(want, 0) {
			t.Errorf("%q: got %d and %v, want %d", tag, got, ok, want)
		}
	}
}

func FuzzPreferred(f *testing.F) {
	f.Add("en;q=0.5, am;q=0.7,*")
	f.Fuzz(func(t *testing.T, accept string) {
		if got := Preferred(accept, languages); got < 0 || got >= len(languages) {
			t.Errorf("%q: got %d", accept, got)
		}
	})
}
