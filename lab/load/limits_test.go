package load

import (
	"strings"
	"testing"
)

func TestLowerBoundHasItsReasons(t *testing.T) {
	t.Parallel()
	good := Result{Offered: 1000, Generator: Generator{Working: 0.5, Busy: 1.5, Cores: 2}}
	if why := good.Validity(); len(why) > 0 {
		t.Errorf("got %q, want nothing", why)
	}
	for want, spoil := range map[string]func(*Result){
		"more than 5 ms late": func(r *Result) { r.Late = 11 },
		"event loop":          func(r *Result) { r.Generator.Working = 0.95 },
		"cores":               func(r *Result) { r.Generator.Busy = 1.9 },
		"no local port":       func(r *Result) { r.Errors = map[string]ErrorCount{"port_exhausted": {Count: 1}} },
		"dropped":             func(r *Result) { r.Dropped = 1 },
	} {
		bad := good
		spoil(&bad)
		if why := bad.Validity(); len(why) != 1 || !strings.Contains(why[0], want) {
			t.Errorf("got %q, want one reason about %q", why, want)
		}
	}
}
