package dashboards

import (
	"slices"
	"strings"
	"testing"
)

// aggregators may be followed by their grouping in place of a parenthesis.
var aggregators = []string{
	"sum", "min", "max", "avg", "count", "group", "stddev", "stdvar", "topk", "bottomk", "count_values", "quantile",
}

// groupings are followed by a list of labels.
var groupings = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}

var operators = []string{"and", "or", "unless", "bool", "offset", "atan2", "inf", "nan"}

// selectors are the series that a PromQL expression asks for, as it writes
// them: name{label="value"}. It is no parser, for Prometheus is one and is asked
// as well: of an expression that Prometheus refuses it makes anything.
func selectors(expr string) []string {
	var found []string
	for i := 0; i < len(expr); {
		switch c := expr[i]; {
		case c == '"' || c == '\'' || c == '`':
			i = afterString(expr, i)
		case c == '[':
			i = after(expr, i, ']')
		case c == '{':
			end := after(expr, i, '}')
			found = append(found, expr[i:end])
			i = end
		case c >= '0' && c <= '9': // a number or a duration
			for i < len(expr) && (isName(expr[i]) || expr[i] == '.') {
				i++
			}
		case isName(c):
			start := i
			for i < len(expr) && isName(expr[i]) {
				i++
			}
			name, next := expr[start:i], skipSpace(expr, i)
			follows := byte(0)
			if next < len(expr) {
				follows = expr[next]
			}
			switch {
			case slices.Contains(groupings, strings.ToLower(name)):
				if follows == '(' {
					i = after(expr, next, ')')
				}
			case follows == '(', slices.Contains(operators, strings.ToLower(name)), slices.Contains(aggregators, name):
			case follows == '{':
				i = after(expr, next, '}')
				found = append(found, name+expr[next:i])
			default:
				found = append(found, name)
			}
		default:
			i++
		}
	}
	return found
}

func isName(c byte) bool {
	return c == '_' || c == ':' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func skipSpace(expr string, i int) int {
	for i < len(expr) && strings.IndexByte(" \t\n", expr[i]) >= 0 {
		i++
	}
	return i
}

// after is the index after the next end, strings left out.
func after(expr string, i int, end byte) int {
	for i < len(expr) && expr[i] != end {
		if c := expr[i]; c == '"' || c == '\'' {
			i = afterString(expr, i)
			continue
		}
		i++
	}
	return min(i+1, len(expr))
}

// afterString is the index after the string that begins at i.
func afterString(expr string, i int) int {
	quote := expr[i]
	for i++; i < len(expr) && expr[i] != quote; i++ {
		if expr[i] == '\\' {
			i++
		}
	}
	return min(i+1, len(expr))
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string][]string{
		`up`: {"up"},
		`sum by (job, le) (rate(a_b{x="}\"", y=~"c|d"}[1m])) / 2e3`: {`a_b{x="}\"", y=~"c|d"}`},
		`a:b:c > 0.19 and on (x) group_left (y) max(d) without (z)`: {"a:b:c", "d"},
		`histogram_quantile(0.5, x_bucket) or vector(0)`:            {"x_bucket"},
		`label_replace(m, "a", "$1", "b", "(.*)") == bool 1`:        {"m"},
		`sum(a offset 5m) unless {job="x"}`:                         {"a", `{job="x"}`},
		`time() - max by (c) (s{k=~".+"})`:                          {`s{k=~".+"}`},
		`count(count by (cpu) (n))`:                                 {"n"},
		`"up`:                                                       nil,
	} {
		if got := selectors(expr); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}
