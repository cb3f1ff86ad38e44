package threshold

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/block/spelling"
)

// The keys of a selector. keyName is another word for keyStep: k6 names
// requests by the tag "name".
const (
	keyScenario = "scenario"
	keyStep     = "step"
	keyName     = "name"
	keyCheck    = "check"
	keyValue    = "value"
)

// CheckMetric says whether a metric, with or without a selector, is one that
// can have thresholds. The error is one sentence with what to write instead.
// Parse finds the same; this is for who wants to say it once for a list of
// thresholds.
func CheckMetric(name string) error {
	_, _, err := parseMetric(name)
	return err
}

// base returns a metric's name without its selector.
func base(name string) string {
	name, _, _ = strings.Cut(name, "{")
	return strings.TrimSpace(name)
}

// parseMetric reads a metric and k6's submetric syntax after it:
// http_req_duration{scenario:lookup,step:login}.
func parseMetric(written string) (Metric, Threshold, error) {
	t := Threshold{Metric: base(written), name: strings.TrimSpace(written)}
	m, ok := find(t.Metric)
	if !ok {
		return m, t, unknownMetric(t.Metric)
	}
	_, inner, selects := strings.Cut(t.name, "{")
	if !selects {
		return m, t, nil
	}
	inner, closed := strings.CutSuffix(inner, "}")
	if !closed {
		return m, t, fmt.Errorf("%s has a selector without an end; write %s", spelling.Quote(t.name), selectorExample(m))
	}
	tags, ok := splitTags(inner)
	if !ok {
		return m, t, fmt.Errorf("%s is no selector; write %s", spelling.Quote("{"+inner+"}"), selectorExample(m))
	}
	for _, tag := range tags {
		if err := setTag(&t, m, tag); err != nil {
			return m, t, err
		}
	}
	return m, t, nil
}

func unknownMetric(name string) error {
	if other := elsewhere[name]; other != "" {
		return fmt.Errorf("the load does not produce the metric %s; write %s, the nearest to it", spelling.Quote(name), other)
	}
	return fmt.Errorf("the load does not produce the metric %s; %s", spelling.Quote(name), spelling.Choose(name, names(metrics)))
}

// selectorExample returns an example of a metric with a selector, or the bare metric
// if it takes none.
func selectorExample(m Metric) string {
	if len(m.selectors) == 0 {
		return m.Name
	}
	return fmt.Sprintf("%s{%s:NAME}", m.Name, m.selectors[len(m.selectors)-1])
}

// setTag sets the field of t that a tag selects by.
func setTag(t *Threshold, m Metric, tag [2]string) error {
	key, value := tag[0], tag[1]
	if key == keyName {
		key = keyStep
	}
	field := map[string]*string{keyScenario: &t.Scenario, keyStep: &t.Step, keyCheck: &t.Check, keyValue: &t.Extracted}[key]
	switch {
	case key == "expected_response":
		return fmt.Errorf("expected_response leaves out the requests that failed, so that a system which fails fast looks fast; write %s without it and http_req_failed beside it", m.Name)
	case len(m.selectors) == 0:
		return fmt.Errorf("%s is counted over the whole load and has no selectors; write %s", m.Name, m.Name)
	case field == nil:
		return fmt.Errorf("%s cannot be selected by %s, which is not kept; %s", m.Name, spelling.Quote(key), spelling.Choose(key, m.selectors))
	case !slices.Contains(m.selectors, key):
		return fmt.Errorf("%s cannot be selected by %s; write %s", m.Name, key, selectorExample(m))
	case value == "":
		return fmt.Errorf("%s selects by %s without saying which; write %s{%s:NAME}", m.Name, key, m.Name, key)
	case *field != "":
		return fmt.Errorf("%s selects by %s twice; write one of them", m.Name, key)
	}
	*field = value
	return nil
}

// splitTags takes apart what stands between the braces: key:value, separated by
// commas. A value may be quoted, with " or ', and then have commas in it.
func splitTags(s string) (tags [][2]string, ok bool) {
	for {
		key, rest, found := strings.Cut(s, ":")
		key = strings.TrimSpace(key)
		if !found || key == "" || strings.ContainsAny(key, ",{}") {
			return nil, false
		}
		value, rest, ok := cutValue(strings.TrimSpace(rest))
		if !ok {
			return nil, false
		}
		tags = append(tags, [2]string{key, value})
		if rest == "" {
			return tags, true
		}
		s = rest[1:] // without the comma
	}
}

// cutValue takes one value off s. What is left is empty or begins with a comma.
func cutValue(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		end := strings.IndexByte(s, ',')
		if end < 0 {
			end = len(s)
		}
		return strings.TrimSpace(s[:end]), s[end:], true
	}
	value, rest, ok = strings.Cut(s[1:], s[:1])
	rest = strings.TrimSpace(rest)
	return value, rest, ok && (rest == "" || rest[0] == ',')
}
