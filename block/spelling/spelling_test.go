package spelling_test

import (
	"strings"
	"testing"

	"loadstone/block/spelling"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"rate", "duration", "preAllocatedVUs", "timeUnit"}
	for word, want := range map[string]string{
		"rte": "rate", "RATE": "rate", "duratoin": "duration", "preallocatedVUs": "preAllocatedVUs",
		"rata": "rate", "tare": "", "": "", "latency": "", strings.Repeat("x", 1<<20): "",
	} {
		got, ok := spelling.Nearest(word, known)
		if got != want || ok != (want != "") {
			t.Errorf("%.20s: got %q, %v, want %q", word, got, ok, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"ab", "ba", 1}, {"ዓለም", "ዓም", 1},
	} {
		if got := spelling.Distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	many := make([]string, 12)
	for i := range many {
		many[i] = strings.Repeat("n", i+8)
	}
	for got, want := range map[string]string{
		spelling.Choose("rte", []string{"rate", "count"}):        "write rate",
		spelling.Choose("zzzz", []string{"rate", "count"}):       "write one of: rate, count",
		spelling.Choose("zzzz", []string{"rate"}):                "write rate",
		spelling.ChooseName("lokup", []string{"lookup", "cart"}): `write "lookup"`,
		spelling.ChooseName("zzzzzzzz", []string{"a b"}):         `write "a b"`,
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := spelling.ChooseName("zzz", many); !strings.HasSuffix(got, " and 2 more") {
		t.Errorf("got %q, want ten names and a count", got)
	}
}
