package verdict

import (
	"strings"
	"testing"
)

// component is one with two instances' worth of defaults: given its share and
// how hot it ran at capacity, its bound follows.
func component(name string, capacity, busy, throttled float64) Component {
	c := Component{Name: name, Instances: 1, LimitCPUs: 0.25, Busy: busy, Throttled: throttled}
	if busy > 0 {
		c.Bound = capacity / busy
		c.DemandMS = 1000 * 0.25 / c.Bound
	}
	return c
}

func TestJudge(t *testing.T) {
	t.Parallel()
	const x = 1000
	for name, c := range map[string]struct {
		in        Input
		status    string
		component string
	}{
		"one at its limit": {
			Input{Capacity: x, Components: []Component{component("api", x, 0.96, 0.8), component("db", x, 0.3, 0.02)}},
			Named, "api",
		},
		"the one behind at its limit": {
			Input{Capacity: x, Components: []Component{component("api", x, 0.5, 0.1), component("db", x, 0.93, 0.7)}},
			Named, "db",
		},
		"nobody near the limit": {
			Input{Capacity: x, Components: []Component{component("api", x, 0.3, 0), component("db", x, 0.2, 0)}},
			Undecided, "",
		},
		"two at the limit": {
			Input{Capacity: x, Components: []Component{component("api", x, 0.95, 0.8), component("db", x, 0.94, 0.8)}},
			Tied, "",
		},
		// Throttled for another's sake: bursts at half the share.
		"throttled though not needed": {
			Input{Capacity: x, Components: []Component{component("api", x, 0.5, 0.6)}},
			Undecided, "",
		},
		// A hot bound that nobody was held back by.
		"busy share without saturation": {
			Input{Capacity: x, Components: []Component{component("api", x, 0.82, 0.1)}},
			Undecided, "",
		},
		"no limits": {
			Input{Capacity: x, Components: []Component{{Name: "api", Instances: 1, DemandMS: 1}}},
			Undecided, "",
		},
		"no capacity": {Input{Components: []Component{component("api", x, 0.96, 0.8)}}, Undecided, ""},
		"generator limited": {
			Input{Capacity: x, LowerBound: "the generator was late", Components: []Component{component("api", x, 0.96, 0.8)}},
			LowerBoundOnly, "",
		},
		"machine full": {
			Input{Capacity: x, MachineBusy: 0.99, Components: []Component{component("api", x, 0.96, 0.8)}},
			LowerBoundOnly, "",
		},
	} {
		got := Evaluate(c.in)
		if got.Status != c.status || got.Component != c.component {
			t.Errorf("%s: got %s %q (%s), want %s %q", name, got.Status, got.Component, got.Summary, c.status, c.component)
		}
		if got.Status == Named && got.Resource != CPU {
			t.Errorf("%s: resource %q, want cpu", name, got.Resource)
		}
		if got.Summary == "" {
			t.Errorf("%s: no summary", name)
		}
		if c.in.Capacity > 0 && len(got.Witnesses) != 2 {
			t.Errorf("%s: %d witnesses, want 2", name, len(got.Witnesses))
		}
	}
}

func TestJudgeSaysWhy(t *testing.T) {
	t.Parallel()
	api := Component{Name: "api", Instances: 3, LimitCPUs: 0.25, DemandMS: 0.05, Bound: 15000, Busy: 0.95, Throttled: 0.8}
	v := Evaluate(Input{Capacity: 14250, Components: []Component{api}})
	for _, want := range []string{"api", "50 µs", "3 × 0.25 CPU", "15,000 req/s"} {
		if !strings.Contains(v.Summary, want) {
			t.Errorf("summary %q does not say %q", v.Summary, want)
		}
	}
}

func TestBound(t *testing.T) {
	t.Parallel()
	// 1000 requests cost the hottest instance 0.05 s: 0.25 CPU allow 5000 in a second.
	if got := Bound(0.25, 0.05, 1000); got != 5000 {
		t.Errorf("got %v, want 5000", got)
	}
	for _, c := range [][2]float64{{0, 1000}, {0.05, 0}, {-1, 10}} {
		if got := Bound(0.25, c[0], c[1]); got != 0 {
			t.Errorf("Bound(0.25, %v, %v) = %v, want 0", c[0], c[1], got)
		}
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	for in, want := range map[float64]string{
		0.5: "0.5 req/s", 13.44: "13.4 req/s", 4312.7: "4,310 req/s", 12345: "12,300 req/s", 999.6: "1,000 req/s", 1234567: "1,230,000 req/s",
	} {
		if got := (Input{}).rate(in); got != want {
			t.Errorf("rate(%v) = %q, want %q", in, got, want)
		}
	}
}

// Without a capacity the verdict says whether rates missed the objectives, or could not be
// judged because the generator was the limit.
func TestNoCapacityIsExplained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ bound, missed, want string }{
		{"", "at 5 a second, p(95)<200 was 300 ms", "No rate met the objectives, so there is no capacity to explain: at 5 a second, p(95)<200 was 300 ms."},
		{"the load generator was late", "at 5 a second, the load generator sent 52 % of the requests late", "No rate could be judged, so there is no capacity to explain: at 5 a second, the load generator sent 52 % of the requests late."},
	} {
		if v := Evaluate(Input{LowerBound: c.bound, Missed: c.missed}); v.Status != Undecided || v.Summary != c.want {
			t.Errorf("%s: %q, want %q", v.Status, v.Summary, c.want)
		}
	}
}
