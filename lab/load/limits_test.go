package load

import (
	"strings"
	"testing"
)

func TestLowerBoundHasItsReasons(t *testing.T) {
	t.Parallel()
	good := Result{Offered: 1000, Scheduled: 1000, Generator: Generator{Working: 0.5, Busy: 1.5, Cores: 2, MachineBusy: 0.9, Throttled: 0.005}}
	if why := good.Validity(); len(why) > 0 {
		t.Errorf("got %+v, want nothing", why)
	}
	for want, c := range map[string]struct {
		spoil  func(*Result)
		shared bool
	}{
		"more than 5 ms late":          {func(r *Result) { r.Late = 11 }, false},
		"1.2 % of the requests":        {func(r *Result) { r.Offered, r.Late = 100_000, 12 }, false}, // a closed model beside
		"dropped 1 arrivals although":  {func(r *Result) { r.Dropped, r.DroppedLate = 9, 1 }, false},
		"event loop":                   {func(r *Result) { r.Generator.Working = 0.95 }, false},
		"used 1.90 of the machine's 2": {func(r *Result) { r.Generator.Busy = 1.9 }, false},
		"no local port":                {func(r *Result) { r.Errors = map[string]ErrorCount{"port_exhausted": {Count: 1}} }, false},
		"the machine was full":         {func(r *Result) { r.Generator.MachineBusy = 0.98 }, true},
		"quota of its control group":   {func(r *Result) { r.Generator.Throttled = 0.2 }, true},
	} {
		bad := good
		c.spoil(&bad)
		if why := bad.Validity(); len(why) != 1 || !strings.Contains(why[0].Text, want) || why[0].Shared != c.shared {
			t.Errorf("got %+v, want one reason about %q, shared: %v", why, want, c.shared)
		}
	}
}

// TestDropsOfTheSystemAreNoReason: every user waited for it until the timeout.
func TestDropsOfTheSystemAreNoReason(t *testing.T) {
	t.Parallel()
	r := Result{Offered: 1000, Scheduled: 1000, Dropped: 300, Waited: 700}
	if why := r.Validity(); len(why) > 0 {
		t.Errorf("got %+v, want nothing", why)
	}
}

// TestResultsBeforeSchedulesWereCounted are judged by what they have.
func TestResultsBeforeSchedulesWereCounted(t *testing.T) {
	t.Parallel()
	r := Result{Offered: 1000, Late: 11}
	if got := r.LateShare(); got != 0.011 {
		t.Errorf("got %v, want 0.011", got)
	}
}
