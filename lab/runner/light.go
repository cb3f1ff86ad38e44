package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

const (
	// lightTime is how long a little load is offered, with its warm-up, and lightShare how
	// much of the capacity it is: so little that hardly a request waits for another.
	lightTime  = 2 * time.Second
	lightShare = 0.1
	// lightRequests are offered at least, as far as mostLight allows.
	lightRequests = 20
	mostLight     = 6 * time.Second
)

// lightTime is what offering a little load adds to the last trial of each variant, about.
func (k *execution) lightTime() time.Duration {
	if e := k.Experiment; e.Measure != experiment.Capacity || e.Raised().What != "" {
		return 0
	}
	return lightTime
}

// light offers a little load, once the capacity is known, in the trial that is perturbed as
// well: how long requests take then, in each component, is what the capacity's times are
// held against. Nothing is judged by it. It is left out where nothing would see these times.
func (m *trialRun) light(ctx context.Context, scenario load.Scenario, at *load.Result) error {
	if m.unseen.why() != "" {
		return nil
	}
	rate, takes := lightShare*at.IterationRate(), lasting(at)
	wants := max(lightTime-maxWarmup, time.Duration(lightRequests/rate*float64(time.Second)))
	if takes > mostLight {
		m.unseen.say(fmt.Sprintf("an iteration takes %.0f s at the capacity, and a little load is offered for %.0f s at most", takes.Seconds(), mostLight.Seconds()))
		return nil
	}
	m.Events.doingf("offering a tenth of the capacity")
	step := capacity.Step{Rate: rate, Duration: max(min(wants, mostLight), takes)}
	p := try(m.base, scenario, step, drain(m.slo(), scenario, m.base.Timeout), takes)
	if s := &p.Scenarios[0]; s.Arrivals == load.Poisson {
		s.Stratum = 1 // hardly two at once: by chance a tenth of them would wait for another, and they are few
	}
	r, _, err := m.offer(ctx, "a tenth of the capacity", p, nil)
	if err != nil {
		return fmt.Errorf("at a tenth of the capacity: %w", err)
	}
	m.trial.Light = r
	return nil
}

// unseen is why it is not seen how long requests wait between instances.
type unseen struct {
	mu     sync.Mutex
	reason string // empty while it is seen
}

func (u *unseen) say(why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.reason = why
}

func (u *unseen) why() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.reason
}
