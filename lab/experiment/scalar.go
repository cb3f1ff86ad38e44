package experiment

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/block/spelling"
)

const (
	durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	ratePattern     = `^[0-9]+(\.[0-9]+)?/[smh]$`
	sharePattern    = `^[0-9]+(\.[0-9]+)?%$`

	// maxDuration bounds every duration, so that sums of them stay exact.
	maxDuration = 7 * 24 * time.Hour
	// maxRate bounds every rate, in requests per second: gaps of 100 ns. A
	// higher one is a mistyped one.
	maxRate = 1e7
)

var (
	durationForm = regexp.MustCompile(durationPattern)
	amountForm   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	rateForm     = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?/ ?([A-Za-z]+)$`)
	shareForm    = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(%?)$`)
	wholeForm    = regexp.MustCompile(`^[+-]?[0-9]+$`)
)

// string reads text as its tags have it.
func (f field) string() string {
	form := forms[f.tag.Get("form")]
	switch {
	case f.tag.has("scalar"):
		return f.scalar(f.tag.Get("scalar"))
	case f.tag.has("path"):
		return f.path(f.tag.Get("path"))
	case f.tag.has("enum"):
		return f.oneOf(f.tag.words())
	case form.read != nil:
		return form.read(f)
	}
	text := f.text()
	if text != "" {
		form.check(f.decoder, f.n)
	}
	return text
}

// text reads a line of text that is not empty.
func (f field) text() string {
	switch {
	case !f.given():
		return ""
	case f.n.kind == boolean || f.n.kind == integer || f.n.kind == number:
		f.errorf(f.n, "%s must be text, not %s; write %s: %q", f.key, f.n.text, f.key, f.n.text)
		return ""
	case f.n.kind == null || f.n.kind == text && strings.TrimSpace(f.n.text) == "":
		f.errorf(f.n, "%s is empty; write %s", f.key, f.example)
		return ""
	case f.n.kind != text:
		f.wrong("text")
		return ""
	}
	return f.n.text
}

// scalar reads any scalar as it is written; want is what it must be.
func (f field) scalar(want string) string {
	if f.n.kind == list || f.n.kind == mapping || f.n.kind == null {
		f.wrong(want)
		return ""
	}
	return f.n.text
}

// path reads the path of a file, and returns it from where the program runs, but
// for a Compose file, whose path is relative to the experiment. Whether there is
// such a file is looked at when the experiment is loaded.
func (f field) path(what string) string {
	path := f.text()
	if path == "" {
		return ""
	}
	if strings.ContainsRune(path, 0) {
		f.errorf(f.n, "%s cannot be the path of a file; write %s", spelling.Quote(path), f.example)
		return ""
	}
	from := path
	if !filepath.IsAbs(path) {
		from = filepath.Join(filepath.Dir(f.file), path)
	}
	f.files = append(f.files, reference{n: f.n, path: from, what: what})
	if what == composeFile {
		return path
	}
	return from
}

// oneOf reads one of a few words.
func (f field) oneOf(words []string) string {
	word := f.text()
	if word == "" || slices.Contains(words, word) {
		return word
	}
	f.errorf(f.n, "%s cannot be %s; %s", f.key, spelling.Quote(word), spelling.Choose(word, words))
	return ""
}

// boolean reads true or false.
func (f field) boolean() bool {
	if f.n.kind != boolean {
		f.wrong("true or false")
		return false
	}
	return strings.EqualFold(f.n.text, "true")
}

// whole reads a whole number.
func (f field) whole() int64 {
	low, high := f.tag.whole("min", 0), f.tag.whole("max", 0)
	isText := f.n.kind == text
	if !wholeForm.MatchString(f.n.text) || isText && f.n.quoted || f.n.kind == list || f.n.kind == mapping {
		if isText && wholeForm.MatchString(f.n.text) && strings.HasPrefix(f.example, f.key+":") {
			f.example = f.key + ": " + f.n.text
		}
		f.wrong("a whole number")
		return low
	}
	v, err := strconv.ParseInt(f.n.text, 10, 64)
	if err != nil || v < low || v > high {
		f.errorf(f.n, "%s must be from %d to %d, not %s; write %s", f.key, low, high, f.n.text, f.example)
		return low
	}
	return v
}

// unsigned reads a whole number, of any size if it has no bound.
func (f field) unsigned() uint64 {
	if f.tag.has("max") {
		return uint64(f.whole())
	}
	if v, err := strconv.ParseUint(f.n.text, 10, 64); err == nil && f.n.kind == integer {
		return v
	}
	f.wrong("a whole number from 0 to 18446744073709551615")
	return 0
}

// factor reads a number above 0.
func (f field) factor() float64 {
	low, high, counted := f.tag.number("min"), f.tag.number("max"), f.tag.Get("unit")
	v, err := strconv.ParseFloat(f.n.text, 64)
	if f.n.kind != integer && f.n.kind != number || !amountForm.MatchString(f.n.text) {
		if counted != "" {
			f.wrong("a number of " + counted)
		} else {
			f.wrong("a number above 0")
		}
		return low
	}
	if err != nil || v < low || v > high {
		bounds := strings.TrimSuffix(f.tag.Get("min")+" to "+f.tag.Get("max")+" "+counted, " ")
		f.errorf(f.n, "%s must be from %s, not %s; write %s", f.key, bounds, f.n.text, f.example)
		return low
	}
	return v
}

// share reads a part of one, 5% or 0.05.
func (f field) share() Share {
	low, high := f.tag.number("min"), f.tag.number("max")
	m := shareForm.FindStringSubmatch(f.n.text)
	if m == nil || f.n.kind == list || f.n.kind == mapping || m[2] == "" && f.n.quoted {
		f.wrong("a share")
		return 0
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if m[2] == "" && err == nil && v >= 1 {
		f.errorf(f.n, "%s %s is not a part of one; write %s%%", f.key, m[1], m[1])
		return 0
	}
	if m[2] != "" {
		v /= 100
	}
	if err != nil || v < low || v > high {
		f.errorf(f.n, "%s must be from %g%% to %g%%, not %s; write %s", f.key, 100*low, 100*high, f.n.text, f.example)
		return 0
	}
	return Share(v)
}

// duration reads a duration of at least low.
func (f field) duration(low time.Duration) time.Duration {
	if amountForm.MatchString(f.n.text) && f.n.kind != list && f.n.kind != mapping {
		f.errorf(f.n, "%s %s has no unit; write %ss or %sms", f.key, f.n.text, f.n.text, f.n.text)
		return 0
	}
	if f.n.kind != text || !durationForm.MatchString(f.n.text) {
		f.wrong("a number with its unit (ms, s, m or h)")
		return 0
	}
	v, err := time.ParseDuration(f.n.text)
	if err != nil || v > maxDuration {
		f.errorf(f.n, "%s %s is more than a week; write %s", f.key, f.n.text, f.example)
		return 0
	}
	if v < low {
		least := "above 0"
		if low > 1 {
			least = "at least " + low.String()
		}
		f.errorf(f.n, "%s must be %s, not %s; write %s", f.key, least, f.n.text, f.example)
		return 0
	}
	return v
}

// timeUnit is k6's unit for rates that are written as bare numbers.
type timeUnit struct {
	given bool // also when it is broken
	each  time.Duration
}

// rate reads a rate in requests per second: above 0, but where min says 0.
func (f field) rate() Rate {
	unit := timeUnit{}
	if f.tag.has("bare") {
		unit = f.shape.unit
	}
	before := len(f.errs)
	v := f.rateIn(unit)
	unitBroken := unit.given && unit.each == 0
	if v == 0 && len(f.errs) == before && !unitBroken && f.tag.Get("min") != "0" {
		f.errorf(f.n, "%s must be above 0; write %s", f.key, f.example)
	}
	return v
}

// rateIn reads a rate of at least 0, which has no unit of its own where there is
// a timeUnit.
func (f field) rateIn(unit timeUnit) Rate {
	written := strings.TrimPrefix(f.n.text, "-") // empty for a list or a mapping
	m := rateForm.FindStringSubmatch(written)
	bare := amountForm.MatchString(written) && !f.n.quoted
	switch {
	case m == nil && !bare:
		f.wrong("a number with its unit (/s, /m or /h)")
		return 0
	case written != f.n.text:
		f.errorf(f.n, "%s %s is negative; write %s", f.key, f.n.text, f.example)
		return 0
	case bare && !unit.given:
		f.errorf(f.n, "%s %s has no unit; write %s/s", f.key, written, written)
		return 0
	case bare:
		return f.perSecond(written, unit.each)
	case unit.given:
		f.errorf(f.n, "%s %s has a unit and the scenario has a timeUnit; write one of the two, such as %s: %s without timeUnit", f.key, written, f.key, written)
		return 0
	}
	amount, per := m[1], m[2]
	each, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[per]
	switch tight := amount + "/" + per; {
	case !ok:
		f.errorf(f.n, "%s %s has the unknown unit %q; write %s/s, %s/m or %s/h", f.key, written, per, amount, amount, amount)
		return 0
	case tight != written:
		f.errorf(f.n, "%s %s has a space in it; write %s", f.key, spelling.Quote(written), tight)
		return 0
	}
	return f.perSecond(amount, each)
}

func (f field) perSecond(amount string, each time.Duration) Rate {
	if each <= 0 {
		return 0 // a broken timeUnit, which was reported
	}
	v, err := strconv.ParseFloat(amount, 64)
	v /= each.Seconds()
	if err != nil || v > maxRate {
		f.errorf(f.n, "%s %s is more than %d/s; write %s", f.key, f.n.text, int(maxRate), f.example)
		return 0
	}
	return Rate(v)
}
