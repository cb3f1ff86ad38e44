package threshold

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/block/spelling"
)

const (
	aggregationPattern = `[A-Za-z_][A-Za-z0-9_]*(?:\([^)]*\))?`
	operatorPattern    = `===|==|!=|<=|>=|<|>`
	numberPattern      = `[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?`
	unitPattern        = `ms|s|m|h|%|/s|(?:[kKMG]i?)?B(?:/s)?`
)

var (
	form           = regexp.MustCompile(`^\s*(` + aggregationPattern + `)\s*(` + operatorPattern + `)\s*(\S+)\s*(.*?)\s*$`)
	percentileForm = regexp.MustCompile(`^p\(\s*([0-9]+(?:\.[0-9]+)?)\s*\)$`)
	valueForm      = regexp.MustCompile(`^` + numberPattern + `$`)
	withUnitForm   = regexp.MustCompile(`^(` + numberPattern + `)(` + unitPattern + `)$`)
	barePercentile = regexp.MustCompile(`^(?:p|P)([0-9]+(?:\.[0-9]+)?)$`)
	overForm       = regexp.MustCompile(`^over\s+(\S+)$`)
	overMeantForm  = regexp.MustCompile(`^(?:in|for|per|within|during|every|each)\s+([0-9]+(?:ms|s|m|h))$`)
	joinedForm     = regexp.MustCompile(`^(?:and|or|&&|\|\||,|;)(?:\s|$)`)
	digitsForm     = regexp.MustCompile(`^[0-9]+$`)
)

// Parse reads a threshold on a metric, which may carry a selector in k6's
// syntax: http_req_duration{step:login}, with name for step and scenario
// besides; checks{check:TEXT}. The expression is k6's, and may end in a window:
// p(95)<200 over 10s. The error is one sentence with what to write instead; it
// carries no position.
func Parse(metric, expression string) (Threshold, error) {
	m, t, err := parseMetric(metric)
	if err != nil {
		return Threshold{}, err
	}
	p := form.FindStringSubmatch(expression)
	if p == nil {
		return Threshold{}, notOne(m, expression)
	}
	t.Operator, t.source = p[2], strings.TrimSpace(expression)
	if t.Aggregation, t.Percentile, err = parseAggregation(m, p[1]); err != nil {
		return Threshold{}, err
	}
	value, over := p[3], p[4]
	if withUnitForm.MatchString(value + over) {
		value, over = value+over, "" // a unit after a space
	}
	if t.Value, err = parseValue(m, p[1]+p[2], value); err != nil {
		return Threshold{}, err
	}
	if over == "" {
		return t, nil
	}
	if t.Over, err = parseOver(m, expression, p[1]+p[2]+value, over); err != nil {
		return Threshold{}, err
	}
	if err := overKnown(m, t); err != nil {
		return Threshold{}, err
	}
	return t, nil
}

// ofValues are what k6's custom metrics have and values of answers are asked for by another
// word.
var ofValues = map[string]string{"value": "last", "rate": "avg", "share": "avg", "total": "sum"}

func notOne(m Metric, expression string) error {
	return fmt.Errorf("%s is no threshold; write an aggregation, a comparison and a number, such as %s", spelling.Quote(expression), m.example)
}

// otherWords are what k6's aggregations are called elsewhere.
var otherWords = map[string]string{
	"mean": "avg", "average": "avg", "median": "med", "minimum": "min", "maximum": "max", "total": "count", "share": "rate",
}

// parseAggregation checks an aggregation, and takes a percentile apart.
func parseAggregation(m Metric, written string) (word string, percentile float64, err error) {
	valid := m.aggregations()
	if other := ofValues[written]; m.Kind == KindValue && other != "" {
		return "", 0, fmt.Errorf("%s has no %s; write %s", m.Name, written, other)
	}
	if other := otherWords[written]; slices.Contains(valid, other) {
		return "", 0, fmt.Errorf("%s has no %s; write %s", m.Name, written, other)
	}
	if bare := barePercentile.FindStringSubmatch(written); bare != nil && m.hasPercentiles() {
		return "", 0, fmt.Errorf("%s is not an aggregation; write p(%s)", oneLine(written), oneLine(bare[1]))
	}
	if strings.HasPrefix(written, "p(") && m.hasPercentiles() {
		p := percentileForm.FindStringSubmatch(written)
		if p == nil {
			return "", 0, fmt.Errorf("%s is no percentile; write a number from 0 to 100 in it, such as p(95)", oneLine(written))
		}
		n, err := strconv.ParseFloat(p[1], 64)
		if err != nil || n > 100 {
			return "", 0, fmt.Errorf("there is no percentile %s; write a number from 0 to 100, such as p(99.9)", oneLine(p[1]))
		}
		return "p", n, nil
	}
	if !slices.Contains(valid, written) || written == "p(N)" {
		return "", 0, fmt.Errorf("%s has no %s; %s, such as %s", m.Name, oneLine(written), spelling.Choose(written, valid), m.example)
	}
	return written, 0, nil
}

func (m Metric) hasPercentiles() bool { return m.Kind == KindTime || m.Kind == KindValue }

// oneLine returns a word of an expression for a message: as it is if it can be
// read, else quoted.
func oneLine(written string) string {
	if q := spelling.Quote(written); q != `"`+written+`"` {
		return q
	}
	return written
}

// parseValue reads the number that a threshold compares with. left is what
// stands before it, for the message.
func parseValue(m Metric, left, written string) (float64, error) {
	const longest = 40 // of what still is a number to somebody
	if len(written) > longest {
		return 0, fmt.Errorf("%s is not a number; write %s", spelling.Quote(written), m.example)
	}
	if unit := withUnitForm.FindStringSubmatch(written); unit != nil {
		return 0, unitError(m, left, unit)
	}
	if strings.HasPrefix(written, "-") && valueForm.MatchString(written[1:]) {
		return 0, fmt.Errorf("%s is never negative; write a number above 0, as in %s", m.Name, m.example)
	}
	v, err := strconv.ParseFloat(written, 64)
	if err != nil || !valueForm.MatchString(written) {
		return 0, fmt.Errorf("%s is not a number; write %s", spelling.Quote(written), m.example)
	}
	if m.Kind == KindShare && v > 1 {
		return 0, fmt.Errorf("%s is a share from 0 to 1, never %s; write %s%s for %s %%", m.Name, written, left, number(v/100), written)
	}
	return v, nil
}

// bytesOf has the units of data, without "B" and "/s".
var bytesOf = map[string]float64{
	"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "ki": 1 << 10, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
}

// unitError explains a number with a unit: written is the whole, the number,
// the unit.
func unitError(m Metric, left string, written []string) error {
	n, err := strconv.ParseFloat(written[1], 64)
	prefix, isBytes := strings.CutSuffix(strings.TrimSuffix(written[2], "/s"), "B")
	switch {
	case err == nil && m.Kind == KindShare && written[2] == "%":
		return fmt.Errorf("%s has a unit, and %s is a share; write %s%s", written[0], m.Name, left, number(n/100))
	case err == nil && m.Kind == KindTime && written[2] == "s":
		return fmt.Errorf("%s has a unit, and thresholds are in milliseconds without it; write %s%s", written[0], left, number(n*1000))
	case m.Kind == KindTime && written[2] == "ms":
		return fmt.Errorf("%s has a unit, and thresholds are in milliseconds without it; write %s%s", written[0], left, written[1])
	case err == nil && m.isBytes() && isBytes:
		return fmt.Errorf("%s has a unit, and %s is in bytes without it; write %s%s", written[0], m.Name, left, number(n*bytesOf[prefix]))
	default:
		return fmt.Errorf("%s has a unit, and a threshold has none; write %s%s", written[0], left, written[1])
	}
}

// number writes a number as a threshold may have it.
func number(v float64) string {
	if v >= 1e15 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// parseOver reads the window at the end of an expression. left is what stands
// before it, for the message.
func parseOver(m Metric, expression, left, written string) (time.Duration, error) {
	if meant := overMeantForm.FindStringSubmatch(written); meant != nil {
		return 0, fmt.Errorf("%s is no window; write %s over %s", spelling.Quote(written), left, meant[1])
	}
	if joinedForm.MatchString(written) {
		return 0, fmt.Errorf("%s is more than one threshold; write each as an entry of the list, the first as %s", spelling.Quote(expression), left)
	}
	if written == "over" {
		return 0, fmt.Errorf("%s says over without how long; write %s over 10s", spelling.Quote(expression), left)
	}
	word := overForm.FindStringSubmatch(written)
	if word == nil {
		return 0, notOne(m, expression)
	}
	if digitsForm.MatchString(word[1]) {
		return 0, fmt.Errorf("the window %s has no unit; write over %ss", word[1], word[1])
	}
	over, err := time.ParseDuration(word[1])
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s is no length of a window; write over 10s, with a number and s or m", spelling.Quote(word[1]))
	case over < time.Second || over%time.Second != 0:
		return 0, fmt.Errorf("a window is whole seconds, not %s; write over %s", word[1], max(over.Round(time.Second), time.Second))
	case over > MostOver:
		return 0, fmt.Errorf("a window is an hour at most, not %s; write over 60m, or leave it out for the load as a whole", word[1])
	}
	return over, nil
}

// overKnown refuses a window where only the whole load is known.
func overKnown(m Metric, t Threshold) error {
	switch {
	case t.knownWhileRunning():
		return nil
	case m.inWindows:
		return fmt.Errorf("in windows, %s are known together only; write %s without a selector, or the threshold without over", m.Name, m.Name)
	default:
		return fmt.Errorf("%s is known of the load as a whole only; write the threshold without over", m.Name)
	}
}

// knownWhileRunning says whether the seconds of a load have what the threshold
// is about.
func (t Threshold) knownWhileRunning() bool {
	m, ok := find(t.Metric)
	return ok && m.inWindows && (t.Metric != Checks || t.Scenario+t.Step+t.Check == "")
}
