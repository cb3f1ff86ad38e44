package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/autoscale"
	"loadstone/lab/experiment"
	"loadstone/lab/fault"
	"loadstone/lab/load"
	"loadstone/lab/threshold"
	"loadstone/lab/topology"
)

// checkScaled checks the services of a variant that are scaled, and gives them as many
// instances as they may ever have: all are started with the system, so that whoever looks
// their names up finds every address, and those beyond the least are stopped before the load.
func (k *execution) checkScaled(s *topology.System) error {
	for i := range s.Services {
		service := &s.Services[i]
		if service.Autoscale == nil {
			continue
		}
		wrong := ""
		switch {
		case k.Experiment.Measure == experiment.Capacity:
			wrong = "x-autoscale follows a load, and measure: capacity offers many rates for about a second each; write measure: load"
		case service.Name == k.Experiment.Entry:
			wrong = "it takes the load itself, and connections stay with the instances that there were; put a balancer in front, and make that the entry"
		case service.Job:
			wrong = "a job is meant to end; remove x-autoscale"
		case slices.ContainsFunc(k.Experiment.Faults, func(f experiment.Fault) bool { _, of := f.Action(); return of == service.Name }):
			wrong = "it is scaled, and a fault is about it: what stopped an instance could not be told; remove one of the two"
		}
		if wrong != "" {
			return s.Mistake(fmt.Errorf("service %s: %s", service.Name, wrong), "services", service.Name, "x-autoscale")
		}
		service.Replicas = service.Autoscale.MaxReplicas
	}
	return nil
}

// replica is one instance of a service that is scaled.
type replica struct {
	name    string
	state   replicaState
	readyAt time.Time
	last    reading // of its CPU, at the look before
	cycles  []fault.Affected

	// Of one that was started again.
	cancel  context.CancelFunc
	started chan struct{} // closed when starting has ended
}

type replicaState int

const (
	replicaStopped replicaState = iota
	replicaStopping
	replicaStarting
	replicaReady
)

// scaled is a service whose replicas follow its policy.
type scaled struct {
	service  *topology.Service
	policy   *autoscale.Policy
	scaler   *autoscale.Scaler
	system   fault.System
	seen     *usage
	write    func(any) error
	doing    func(format string, args ...any)
	failed   func(error)
	mu       sync.Mutex // of replicas
	replicas []*replica
	acts     sync.WaitGroup
}

// whileScaled has replicas started and stopped while load is offered, if the variant has
// services that are scaled. What could not be done ends the load.
func (m *trialRun) whileScaled(offer offerFunc) offerFunc {
	var services []*topology.Service
	system := m.systems[m.trial.Variant]
	for i := range system.Services {
		if system.Services[i].Autoscale != nil {
			services = append(services, &system.Services[i])
		}
	}
	if len(services) == 0 {
		return offer
	}
	return func(ctx context.Context) (_ *load.Result, _ []threshold.Outcome, err error) {
		unseen := slices.IndexFunc(services, func(s *topology.Service) bool {
			return len(m.up.Hosts()) == 0 || slices.ContainsFunc(m.trial.Instances, func(in topology.Instance) bool { return in.Unseen && in.Service == s.Name })
		})
		if unseen >= 0 {
			return nil, nil, fmt.Errorf("x-autoscale of %s follows what its instances use of their CPU, which is not seen from here; run loadstone on the machine that they are on, or write deploy.replicas in its place", services[unseen].Name)
		}
		running, ok := m.up.(fault.System)
		if !ok {
			return nil, nil, fmt.Errorf("the driver %s starts and stops no instances; take x-autoscale out of the variant, or use another driver", m.Driver.Name())
		}
		lines, err := archive.CreateLines(m.dir, archive.ScalingFile)
		if err != nil {
			return nil, nil, err
		}
		defer func() { err = errors.Join(err, lines.Close()) }()
		ctx, fail := context.WithCancelCause(ctx)
		defer fail(nil)
		var keep sync.Mutex
		write := func(line any) error {
			keep.Lock()
			defer keep.Unlock()
			return lines.Write(line)
		}
		var all []*scaled
		for _, service := range services {
			s := m.newScaled(service, running, write)
			s.failed = fail
			if err := s.begin(ctx); err != nil {
				return nil, nil, err
			}
			all = append(all, s)
		}
		following, stop := context.WithCancel(ctx)
		var loops sync.WaitGroup
		for _, s := range all {
			loops.Go(func() { s.follow(following) })
		}
		r, outcomes, err := offer(ctx)
		stop()
		loops.Wait()
		for _, s := range all {
			err = errors.Join(err, s.end())
		}
		if cause := context.Cause(ctx); cause != nil && err != nil {
			return nil, nil, cause // the load's error is only its consequence
		}
		return r, outcomes, err
	}
}

func (m *trialRun) newScaled(service *topology.Service, system fault.System, write func(any) error) *scaled {
	s := &scaled{
		service: service, policy: service.Autoscale, scaler: autoscale.NewScaler(service.Autoscale),
		system: system, seen: m.seen, write: write, doing: m.Events.doingf,
	}
	for _, in := range m.trial.Instances {
		if in.Service == service.Name {
			s.replicas = append(s.replicas, &replica{name: in.Name, state: replicaReady, readyAt: m.trial.Started})
		}
	}
	return s
}

// begin stops the instances beyond the least, and returns when they are gone.
func (s *scaled) begin(ctx context.Context) error {
	for _, r := range s.replicas[s.policy.MinReplicas:] {
		s.stop(ctx, r)
	}
	s.acts.Wait()
	return context.Cause(ctx)
}

// follow looks at the service each sync period, and does what the policy says.
func (s *scaled) follow(ctx context.Context) {
	ticks := time.NewTicker(s.policy.Sync())
	defer ticks.Stop()
	began := time.Now()
	s.observe()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			if err := s.look(ctx, now, now.Sub(began)); err != nil {
				s.failed(err)
				return
			}
		}
	}
}

// look has the service scaled by what it used since the last look.
func (s *scaled) look(ctx context.Context, now time.Time, elapsed time.Duration) error {
	o := s.observe()
	desired := s.scaler.Desire(elapsed, o)
	line := archive.Scaling{Service: s.service.Name, At: now, Ready: len(o.Utilisation), Starting: o.Starting, Desired: desired}
	for _, u := range o.Utilisation {
		line.Utilisation += u / float64(len(o.Utilisation))
	}
	if err := s.write(line); err != nil {
		return err
	}
	if current := line.Ready + line.Starting; desired != current {
		s.doing("scaling %s from %d to %d replicas", s.service.Name, current, desired)
		s.scale(ctx, desired-current)
	}
	return nil
}

// observe returns what the replicas used since the last call: of those that were ready then,
// and have been sampled since.
func (s *scaled) observe() (o autoscale.Observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.replicas {
		before, next := r.last, s.seen.of([]string{r.name})
		r.last = next
		took := next.at.Sub(before.at)
		switch {
		case r.state == replicaStopped || r.state == replicaStopping:
		case r.state == replicaStarting || before.at.Before(r.readyAt) || took <= 0:
			o.Starting++
		default:
			share := (next.cpu - before.cpu).Seconds() / took.Seconds() / *s.service.Limits.CPUs
			o.Utilisation = append(o.Utilisation, max(share, 0))
		}
	}
	return o
}

// scale starts so many replicas more, or stops so many: those that are not ready first, and
// the youngest of the others.
func (s *scaled) scale(ctx context.Context, by int) {
	s.mu.Lock()
	var chosen []*replica
	for _, state := range []replicaState{replicaStopped, replicaStarting, replicaReady} {
		for _, r := range slices.Backward(s.replicas) {
			if r.state == state && (by > 0) == (state == replicaStopped) {
				chosen = append(chosen, r)
			}
		}
	}
	if by > 0 {
		slices.Reverse(chosen) // the lowest number first
	}
	s.mu.Unlock()
	for _, r := range chosen[:min(max(by, -by), len(chosen))] {
		if by > 0 {
			s.start(ctx, r)
		} else {
			s.stop(ctx, r)
		}
	}
}

// start begins to start a replica, which is ready some time later.
func (s *scaled) start(ctx context.Context, r *replica) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	started := make(chan struct{})
	r.state, r.cancel, r.started = replicaStarting, cancel, started
	cycle := &r.cycles[len(r.cycles)-1]
	cycle.Undone = time.Now()
	s.acts.Go(func() {
		defer close(started)
		defer cancel()
		launched, err := s.system.Start(ctx, r.name)
		s.mu.Lock()
		defer s.mu.Unlock()
		cycle.Launched = launched
		switch {
		case ctx.Err() != nil: // the load is over, or it is not wanted any more
		case err != nil:
			s.failed(fmt.Errorf("start %s: %w", r.name, err))
		default:
			r.state, r.readyAt = replicaReady, time.Now()
			cycle.Ready = r.readyAt
		}
	})
}

// stop begins to stop a replica. One that is starting is not waited for any more.
func (s *scaled) stop(ctx context.Context, r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.state = replicaStopping
	cancel, started := r.cancel, r.started
	s.acts.Go(func() {
		if cancel != nil {
			cancel()
			<-started
		}
		s.mu.Lock()
		runs := len(r.cycles) == 0 || !r.cycles[len(r.cycles)-1].Launched.IsZero()
		s.mu.Unlock()
		var err error
		if runs {
			err = s.system.Stop(ctx, r.name)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			s.failed(fmt.Errorf("stop %s: %w", r.name, err))
		}
		r.state = replicaStopped
		r.cycles = append(r.cycles, fault.Affected{Name: r.name, Done: time.Now()})
	})
}

// end waits for what is being done, and keeps what was.
func (s *scaled) end() error {
	s.acts.Wait()
	line := archive.Scaling{Service: s.service.Name, At: time.Now()}
	for _, r := range s.replicas {
		line.Instances = append(line.Instances, r.cycles...)
	}
	return s.write(line)
}
