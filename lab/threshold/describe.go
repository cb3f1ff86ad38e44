package threshold

import (
	"slices"
	"strings"
)

// All returns every metric that some load produces, in the order in which they are
// listed.
func All() []Metric { return slices.Clone(metrics) }

// Meaning says what the metric is, and what can be asked of it.
func (m Metric) Meaning() string {
	asked := strings.Join(m.aggregations(), ", ")
	if m.Kind == KindCount {
		asked = "count, or rate per second"
	}
	return m.meaning + ": " + asked + "."
}

// Selectable says whether the metric is also known of parts of a load.
func (m Metric) Selectable() bool { return len(m.selectors) > 0 }

// Pattern is a regular expression of what [Parse] takes for the metric, as far as
// one can say it.
func (m Metric) Pattern() string {
	value := `[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?`
	forms := strings.Join(m.aggregations(), "|")
	switch m.Kind {
	case KindShare:
		value = `(0+(\.[0-9]+)?|1(\.0+)?|[0-9]+(\.[0-9]+)?[eE]-[0-9]+)`
	case KindTime, KindValue:
		forms = strings.Replace(forms, "p(N)", `p\(\s*(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)\s*\)`, 1)
	default:
	}
	return `^\s*(` + forms + `)\s*(===|==|!=|<=|>=|<|>)\s*` + value + `(\s+over\s+([0-9]+(\.[0-9]+)?(ms|s|m|h))+)?\s*$`
}
