package experiment

import (
	"regexp"
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
	// maxLength bounds the stages of a scenario together, as the load generator
	// does.
	maxLength = 30 * 24 * time.Hour
	// maxRate bounds every rate, in requests per second: gaps of 100 ns. A
	// higher one is a mistyped one.
	maxRate = 1e7
)

var (
	durationForm = regexp.MustCompile(durationPattern)
	amountForm   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	rateForm     = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?/ ?([A-Za-z]+)$`)
)

// duration reads a duration of at least low.
func (f field) duration(low time.Duration) time.Duration {
	if !f.given() {
		return 0
	}
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

// rate reads a rate of at least 0, in requests per second.
func (f field) rate(unit timeUnit) Rate {
	if !f.given() {
		return 0
	}
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
	return f.rateWithUnit(written, m[1], m[2])
}

func (f field) rateWithUnit(written, amount, unit string) Rate {
	each, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	switch tight := amount + "/" + unit; {
	case !ok:
		f.errorf(f.n, "%s %s has the unknown unit %q; write %s/s, %s/m or %s/h", f.key, written, unit, amount, amount, amount)
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

// positiveRate reads a rate above 0.
func (f field) positiveRate(unit timeUnit) Rate {
	if !f.given() {
		return 0
	}
	before := len(f.errs)
	v := f.rate(unit)
	unitBroken := unit.given && unit.each == 0
	if v == 0 && len(f.errs) == before && !unitBroken {
		f.errorf(f.n, "%s must be above 0; write %s", f.key, f.example)
	}
	return v
}

// factor reads a number above 0, from low to high.
func (f field) factor(low, high float64) float64 {
	if !f.given() {
		return low
	}
	if !amountForm.MatchString(f.n.text) || f.n.quoted || f.n.kind == list || f.n.kind == mapping {
		f.wrong("a number above 0")
		return low
	}
	v, err := strconv.ParseFloat(f.n.text, 64)
	if err != nil || v < low || v > high {
		f.errorf(f.n, "%s must be from %g to %g, not %s; write %s", f.key, low, high, f.n.text, f.example)
		return low
	}
	return v
}

var shareForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(%?)$`)

// share reads a part of one, 5% or 0.05, from low to high.
func (f field) share(low, high Share) Share {
	if !f.given() {
		return 0
	}
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
	if err != nil || Share(v) < low || Share(v) > high {
		f.errorf(f.n, "%s must be from %g%% to %g%%, not %s; write %s", f.key, 100*low, 100*high, f.n.text, f.example)
		return 0
	}
	return Share(v)
}
