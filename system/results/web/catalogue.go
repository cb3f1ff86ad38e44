package web

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed catalogue/*.json
var catalogues embed.FS

// languageCodes are the languages with a catalogue. The first is the default.
// A further language is a file catalogue/CODE.json and its code here.
var languageCodes = [...]string{"en", "am"}

// catalogue is the texts of one language by key. A text may have placeholders,
// {name}. It notes what is used, so that a text that no page shows is found.
type catalogue struct {
	code  string
	texts map[string]string
	used  map[string]bool
}

func loadCatalogue(code string) (*catalogue, error) {
	raw, err := catalogues.ReadFile("catalogue/" + code + ".json")
	if err != nil {
		return nil, fmt.Errorf("read the texts of language %q: %w", code, err)
	}
	c := &catalogue{code: code, used: map[string]bool{}}
	if err := json.Unmarshal(raw, &c.texts); err != nil {
		return nil, fmt.Errorf("read the texts of language %q: %w", code, err)
	}
	return c, nil
}

// text returns the text of a key with its placeholders filled, given as names
// and values in turn. Both a placeholder without a value and a value without a
// placeholder are errors: a translation has lost or invented one.
func (c *catalogue) text(key string, pairs ...string) (string, error) {
	text, ok := c.texts[key]
	if !ok || text == "" {
		return "", fmt.Errorf("language %q has no text %q", c.code, key)
	}
	c.used[key] = true
	want := placeholders(text)
	for i := 0; i+1 < len(pairs); i += 2 {
		name := "{" + pairs[i] + "}"
		at := slices.Index(want, name)
		if at < 0 {
			return "", fmt.Errorf("language %q, text %q: there is no placeholder %s", c.code, key, name)
		}
		want = slices.Delete(want, at, at+1)
		text = strings.ReplaceAll(text, name, pairs[i+1])
	}
	if len(want) > 0 {
		return "", fmt.Errorf("language %q, text %q: placeholder %s has no value", c.code, key, want[0])
	}
	return text, nil
}

// unused lists the keys that nothing has asked for, sorted.
func (c *catalogue) unused() []string {
	var keys []string
	for key := range c.texts {
		if !c.used[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// placeholders lists the different placeholders of a text, sorted.
func placeholders(text string) []string {
	var found []string
	for {
		_, rest, ok := strings.Cut(text, "{")
		if !ok {
			break
		}
		name, rest, ok := strings.Cut(rest, "}")
		if !ok {
			break
		}
		found = append(found, "{"+name+"}")
		text = rest
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// phrases are the texts that are put together for each request. Their
// placeholders have been checked, and are still in them.
type phrases struct {
	date, moment string
	months       [12]string
	in           [4]plural // seconds, minutes, hours, days
	female, male string
}

// plural has the two forms that English has. A language with more takes a
// form that reads well with every number.
type plural struct{ one, other string }

var spans = [...]struct {
	name string
	unit time.Duration
	// below is how long a time may be to be told in this unit.
	below time.Duration
}{
	{"seconds", time.Second, 90 * time.Second},
	{"minutes", time.Minute, 2 * time.Hour},
	{"hours", time.Hour, 48 * time.Hour},
	{"days", 24 * time.Hour, 1<<63 - 1},
}

func newPhrases(c *catalogue) (phrases, error) {
	var p phrases
	var first error
	get := func(key string, names ...string) string {
		var pairs []string
		for _, name := range names {
			pairs = append(pairs, name, "{"+name+"}")
		}
		text, err := c.text(key, pairs...)
		if err != nil && first == nil {
			first = err
		}
		return text
	}
	p.date = get("date", "day", "month", "year")
	p.moment = get("moment", "date", "time", "offset")
	p.female, p.male = get("result.female"), get("result.male")
	for i := range p.months {
		p.months[i] = get("month." + strconv.Itoa(i+1))
	}
	for i, span := range spans {
		p.in[i] = plural{get("in."+span.name+".one", "n"), get("in."+span.name+".other", "n")}
	}
	return p, first
}

// dateText writes a day of the Gregorian calendar. month is from 1 to 12.
func (p *phrases) dateText(year, month, day int) string {
	return fill(p.date, "{day}", strconv.Itoa(day), "{month}", p.months[month-1], "{year}", strconv.Itoa(year))
}

// momentText writes a day and time with its distance from UTC, for a reader
// whose clock may be set to another zone.
func (p *phrases) momentText(t time.Time) string {
	return fill(p.moment,
		"{date}", p.dateText(t.Year(), int(t.Month()), t.Day()),
		"{time}", t.Format("15:04"), "{offset}", t.Format("-07:00"))
}

// inText writes how far away something is, in one unit. Seconds and minutes are
// rounded up: who comes back after that long is not too early. Hours and days
// are rounded to the nearest.
func (p *phrases) inText(d time.Duration) string {
	d = max(d, time.Second)
	for i, span := range spans {
		if d < span.below || i == len(spans)-1 {
			n := int((d-1)/span.unit) + 1
			if span.unit >= time.Hour {
				n = int(d.Round(span.unit) / span.unit)
			}
			if n == 1 {
				return fill(p.in[i].one, "{n}", "1")
			}
			return fill(p.in[i].other, "{n}", strconv.Itoa(n))
		}
	}
	return ""
}

// fill replaces each placeholder, given in turn with its value, everywhere.
func fill(text string, pairs ...string) string {
	for i := 0; i+1 < len(pairs); i += 2 {
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}
