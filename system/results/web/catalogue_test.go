package web

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// All languages have the same texts with the same placeholders. That each of
// them is used is checked when the pages are made.
func TestCatalogues(t *testing.T) {
	t.Parallel()
	first, err := loadCatalogue(languageCodes[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range languageCodes[1:] {
		c, err := loadCatalogue(code)
		if err != nil {
			t.Fatal(err)
		}
		for _, difference := range differences(first, c) {
			t.Error(difference)
		}
		for key, text := range c.texts {
			if strings.ContainsAny(text, "<>&@") {
				t.Errorf("%s: %s is %q: texts are plain", code, key, text)
			}
		}
	}
	files, err := catalogues.ReadDir("catalogue")
	if err != nil || len(files) != len(languageCodes) {
		t.Errorf("got %d catalogues, %v, want one for each of %q", len(files), err, languageCodes)
	}
}

func differences(a, b *catalogue) (found []string) {
	keys := slices.Concat(slices.Collect(maps.Keys(a.texts)), slices.Collect(maps.Keys(b.texts)))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		one, inA := a.texts[key]
		other, inB := b.texts[key]
		switch {
		case !inA:
			found = append(found, a.code+" lacks "+key)
		case !inB:
			found = append(found, b.code+" lacks "+key)
		case !slices.Equal(placeholders(one), placeholders(other)):
			found = append(found, key+" has other placeholders in "+b.code)
		}
	}
	return found
}

func TestDifferences(t *testing.T) {
	t.Parallel()
	a := &catalogue{code: "a", texts: map[string]string{"x": "{n} of {m}", "y": "1", "z": "same {p}"}}
	b := &catalogue{code: "b", texts: map[string]string{"x": "{n}", "w": "1", "z": "{p} same"}}
	got := strings.Join(differences(a, b), "; ")
	if want := "a lacks w; x has other placeholders in b; b lacks y"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	c := &catalogue{code: "a", used: map[string]bool{}, texts: map[string]string{"x": "{n} of {m}", "y": "never", "z": ""}}
	if got, err := c.text("x", "n", "1", "m", "2"); got != "1 of 2" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range [][]string{{"x", "n", "1"}, {"x", "n", "1", "m", "2", "o", "3"}, {"w"}, {"z"}} {
		if got, err := c.text(bad[0], bad[1:]...); err == nil {
			t.Errorf("%q: got %q and no error", bad, got)
		}
	}
	if got := c.unused(); !slices.Equal(got, []string{"y", "z"}) {
		t.Errorf("unused: got %q, want y and z", got)
	}
}

func TestInText(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for d, want := range map[time.Duration]string{
		-time.Hour: "in 1 second", 0: "in 1 second", 1001 * time.Millisecond: "in 2 seconds",
		89 * time.Second: "in 89 seconds", 90 * time.Second: "in 2 minutes", 119 * time.Minute: "in 119 minutes",
		2 * time.Hour: "in 2 hours", 149 * time.Minute: "in 2 hours", 47 * time.Hour: "in 47 hours",
		48 * time.Hour: "in 2 days", 1<<63 - 1: "in 106751 days",
	} {
		if got := s.editions[0].inText(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	wantText(t, ask(s, "GET", "/", "", "Accept-Language", "am-ET,am;q=0.9,en;q=0.5"), `<html lang="am">`)
	wantText(t, ask(s, "GET", "/?lang=en", "", "Accept-Language", "am"), `<html lang="en">`)
	wantText(t, ask(s, "GET", "/?lang=xx", "", "Accept-Language", "am"), `<html lang="am">`)
}
