package probe

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// What is no number is left out: it could not be kept.
func TestWhatIsNoNumberIsLeftOut(t *testing.T) {
	t.Parallel()
	got, err := parse(strings.NewReader("# TYPE busy gauge\nbusy{k=\"a\"} NaN\nbusy{k=\"b\"} +Inf\nbusy{k=\"c\"} 3\n"))
	if err != nil || len(got) != 1 || got[`busy{k="c"}`] != 3 {
		t.Errorf("got %v, %v; want c alone", got, err)
	}
}

func TestSeriesAreThoseOfTheInstanceInTheSpan(t *testing.T) {
	t.Parallel()
	at := func(s float64, instance, series string) Scrape {
		return Scrape{At: moment(s), Instance: instance, Values: map[string]float64{series: 1, "other": 1}}
	}
	v := View{Instance: "a-1", From: moment(1), To: moment(3), Scrapes: []Scrape{
		at(0, "a-1", `busy{k="early"}`), at(1, "a-1", `busy{k="y"}`), at(2, "b-1", `busy{k="b"}`), at(2, "a-1", `busy{k="x"}`), at(3, "a-1", `busy{k="y"}`),
	}}
	got := v.Series(func(series string) bool { return strings.HasPrefix(series, "busy") })
	if want := []string{`busy{k="x"}`, `busy{k="y"}`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWorkedOffEndsWhereItIsQuiet(t *testing.T) {
	t.Parallel()
	done := func(counts ...float64) []Scrape {
		var out []Scrape
		for i, n := range counts {
			out = append(out, Scrape{At: moment(float64(i) / 4), Instance: "a-1", Values: map[string]float64{"done": n}})
		}
		return out
	}
	for name, c := range map[string]struct {
		scrapes       []Scrape
		grown, within float64
	}{
		"a flush":         {done(0, 100, 200, 250, 250, 400), 150, 0.65},
		"nothing":         {done(0, 100, 100, 100), 0, 0},
		"hardly anything": {done(0, 100, 101, 102), 0, 0},
		"not quiet yet":   {done(0, 100, 200, 300), 200, 0.65},
		"one scrape":      {done(0, 100), 0, 0},
		"no scrapes":      {nil, 0, 0},
	} {
		v := View{Scrapes: c.scrapes, Instance: "a-1", From: moment(0.1), To: moment(10)}
		grown, within := v.WorkedOff(func(series string) bool { return series == "done" }, 8)
		if grown != c.grown || math.Abs(within-c.within) > 1e-9 {
			t.Errorf("%s: got %g within %g s, want %g within %g", name, grown, within, c.grown, c.within)
		}
	}
}
