package predict

import (
	"strings"
	"testing"
)

// More than a core is of no use to an event loop: what was predicted for four cores was once
// nearly three times what was measured.
func TestAnEventLoopUsesOneCore(t *testing.T) {
	t.Parallel()
	s := truth{api: 0.006, lb: 0.0001, seed: 3}
	res := derive(t, s.variant("plain", 1, 6))
	many := ask(t, of(t, res, ""), "api.cpus=4")
	if len(many.Warnings) > 0 && strings.Contains(strings.Join(many.Warnings, " "), "thread") {
		t.Errorf("nothing is known of its threads, and yet: %q", many.Warnings)
	}
	if !strings.Contains(strings.Join(many.Assumptions, "; "), "the work of api spreads over 4 cores") {
		t.Errorf("it is not said that the work has to spread: %q", many.Assumptions)
	}
	for i := range res.Variants[0].Components {
		if c := &res.Variants[0].Components[i]; c.Name == "api" {
			c.ThreadBusy = 0.96 * c.Busy * c.LimitCPUs
		}
	}
	one := ask(t, of(t, res, ""), "api.cpus=1")
	loop := ask(t, of(t, res, ""), "api.cpus=4")
	if loop.Capacity.Value > 1.1*one.Capacity.Value || many.Capacity.Value < 3*one.Capacity.Value {
		t.Errorf("got %.0f with one core, %.0f with four, and %.0f without the threads; want an event loop to gain nothing",
			one.Capacity.Value, loop.Capacity.Value, many.Capacity.Value)
	}
	if !strings.Contains(strings.Join(loop.Warnings, "; "), "api did 96 % of its work on one thread") {
		t.Errorf("threads are not mentioned: %q", loop.Warnings)
	}
	if more := ask(t, of(t, res, ""), "api.replicas=4"); more.Capacity.Value < 3*of(t, res, "").Measured.Value {
		t.Errorf("replicas of it gain %.0f, want four times as much", more.Capacity.Value)
	}
}
