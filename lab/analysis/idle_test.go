package analysis

import (
	"slices"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/probe"
	"loadstone/lab/topology"
)

func TestInstancesThatDoNothingAreNamed(t *testing.T) {
	t.Parallel()
	f := func(want string, cpu ...time.Duration) {
		t.Helper()
		trial, span := archive.Trial{}, probe.Span{Instances: map[string]probe.Usage{}}
		names := []string{"stock-1", "stock-2", "stock-3"}
		for i, used := range cpu {
			trial.Instances = append(trial.Instances, topology.Instance{Service: "stock", Name: names[i]})
			span.Instances[names[i]] = probe.Usage{CPU: used}
		}
		trial.Instances = append(trial.Instances, topology.Instance{Service: "front", Name: "front-1"})
		span.Instances["front-1"] = probe.Usage{CPU: time.Second}
		var all []string
		if want != "" {
			all = []string{want}
		}
		if got := idlers(trial, span, time.Second, nil); !slices.Equal(got, all) {
			t.Errorf("%v: got %q, want %q", cpu, got, all)
		}
	}
	const ms = time.Millisecond
	f("stock-2 used less than 3 % of the CPU of stock-1: it gets no requests", 400*ms, 2*ms)
	f("stock-1 used less than 3 % of the CPU of stock-3: it gets no requests", 2*ms, 300*ms, 400*ms)
	f("", 400*ms, 40*ms) // uneven
	f("", 30*ms, 0)      // nobody does much
	f("", 400*ms)
}
