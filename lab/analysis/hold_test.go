package analysis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
)

// What a search found and did not last is told, and so is a capacity that nobody held.
func TestWhatDoesNotLastIsTold(t *testing.T) {
	t.Parallel()
	exp := &experiment.Experiment{Measure: experiment.Capacity, Search: experiment.Search{Hold: time.Minute}}
	hold := func(rate float64, held bool) archive.Measure {
		return archive.Measure{Kind: string(capacity.Hold), Try: capacity.Try{Purpose: capacity.Hold, Rate: rate, Held: held, Reason: "the backlog grew"}}
	}
	search := func(rate float64, held bool) archive.Measure {
		return archive.Measure{Kind: string(capacity.Search), Try: capacity.Try{Purpose: capacity.Search, Rate: rate, Held: held}}
	}
	base := []archive.Measure{search(70, true), search(80, true), search(90, true), search(100, true), search(110, false)}
	for name, c := range map[string]struct {
		measures []archive.Measure
		capacity float64
		warnings []string
	}{
		"it lasts":             {[]archive.Measure{hold(100, true)}, 100, nil},
		"the second lasts":     {[]archive.Measure{hold(100, false), hold(90, true)}, 90, []string{"did not last for 1m0s (100 a second: the backlog grew)"}},
		"none of three does":   {[]archive.Measure{hold(100, false), hold(90, false), hold(80, false)}, 70, []string{"no rate was seen to last for 1m0s, and the capacity is what short attempts sustained (100 a second: the backlog grew)"}},
		"it was not looked at": {nil, 100, []string{"no rate was seen to last for 1m0s"}},
	} {
		trial := archive.Trial{Measures: slices.Concat(base, c.measures)}
		var o observed
		out, _ := trial.Conclude()
		o.search(out)
		o.held(exp, trial)
		lower, none := lasting([]observed{o}, exp.Search.Hold)
		got := slices.DeleteFunc([]string{lower, none}, func(s string) bool { return s == "" })
		if o.capacity != c.capacity || len(got) != len(c.warnings) {
			t.Errorf("%s: got %g and %q, want %g and %q", name, o.capacity, got, c.capacity, c.warnings)
			continue
		}
		for i, want := range c.warnings {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: got %q, want %q", name, got[i], want)
			}
		}
	}
	var o observed
	o.capacity = 100
	o.held(&experiment.Experiment{}, archive.Trial{Measures: base})
	if lower, none := lasting([]observed{o}, 0); lower+none != "" {
		t.Errorf("nobody asked for it to last: got %q and %q", lower, none)
	}
}
