package threshold

import (
	"regexp"
	"testing"
)

// TestPatternAgreesWithParse holds what an editor is told to what is parsed.
func TestPatternAgreesWithParse(t *testing.T) {
	t.Parallel()
	for _, m := range All() {
		pattern := regexp.MustCompile(m.Pattern())
		for _, expression := range []string{
			m.example, "avg<1", "min<1", "med>=1e3", "max<1", "p(99.9)<=1", "p(101)<1", "count>1", "rate<0.5", "rate<1", "rate<2",
			"rate<1e-3", "p(95)<200ms", "fast", " rate < 1 ",
		} {
			if _, err := Parse(m.Name, expression); (err == nil) != pattern.MatchString(expression) {
				t.Errorf("%s: %q: Parse says %v, the pattern matches: %v", m.Name, expression, err, err != nil)
			}
		}
		if _, err := Parse(m.Name+"{scenario:a}", m.example); (err == nil) != m.Selectable() {
			t.Errorf("%s: Selectable is %v, Parse says %v", m.Name, m.Selectable(), err)
		}
	}
}
