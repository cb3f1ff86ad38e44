package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/lab/host"
)

// Machine is all nodes together. Those that share a machine count once.
func (a *agents) Machine() host.Machine {
	var m host.Machine
	machines := a.machines()
	for _, n := range machines {
		one := n.remote.Machine()
		one.Cores, one.MemoryBytes = one.Cores+m.Cores, one.MemoryBytes+m.MemoryBytes
		m = one
	}
	if len(machines) > 1 {
		m.CPU = fmt.Sprintf("%d nodes of a Kubernetes cluster (%s)", len(machines), m.CPU)
	}
	m.LimitsEnforced = true // by the nodes
	return m
}

// machines are the first node of each machine.
func (a *agents) machines() []*node {
	var first []*node
	seen := map[string]bool{}
	for _, n := range a.all {
		if boot := n.remote.Boot(); boot == "" || !seen[boot] {
			seen[boot] = true
			first = append(first, n)
		}
	}
	return first
}

// Watch is that of host.Host. A sample is of the moment at which the node with most instances was
// read; what the others had used by then lies between two of theirs.
func (a *agents) Watch(ctx context.Context, every time.Duration, emit func(*host.Sample) error) error {
	var names []string
	for _, t := range a.run.Targets() {
		names = append(names, t.Name)
	}
	first := a.machines()
	all := make([]*reading, len(a.all))
	g, ctx := errgroup.WithContext(ctx)
	for i, n := range a.all {
		samples := make(chan *host.Sample)
		all[i] = &reading{samples: samples, names: names, lives: map[string]host.Instance{}, slow: map[string]host.SlowInstance{}}
		all[i].machine = len(first) > 0 && first[0] == n
		if all[i].machine {
			first = first[1:]
		}
		g.Go(func() error {
			defer close(samples)
			return n.remote.Watch(ctx, every, func(s *host.Sample) error {
				select {
				case samples <- s:
				case <-ctx.Done():
				}
				return nil
			})
		})
	}
	g.Go(func() error {
		for all[0].next() {
			s, ok := together(all)
			if !ok {
				return nil // the end of one of them is told by its own
			}
			if err := emit(s); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// reading is what comes of one node.
type reading struct {
	samples <-chan *host.Sample
	names   []string // of all instances, in the order of the samples that are made
	machine bool     // whether it stands for its machine, too

	before, latest *host.Sample // of all instances; before is nil at first
	lives          map[string]host.Instance
	slow           map[string]host.SlowInstance // as it was read last
	net            host.Slow                    // of the node, as it was read last
	isSlow         bool                         // whether that is of the latest
}

// next waits for the next sample. ok is false if there is none any more.
func (r *reading) next() (ok bool) {
	s, ok := <-r.samples
	if !ok {
		return false
	}
	// What an instance had used here that is elsewhere now, or ended, stays.
	for name, in := range r.lives {
		in.Memory = 0
		r.lives[name] = in
	}
	for i, in := range s.Instances {
		r.lives[in.Name] = in
		if s.Slow != nil {
			r.slow[in.Name] = s.Slow.Instances[i]
		}
	}
	if r.isSlow = s.Slow != nil; r.isSlow {
		r.net = *s.Slow
	}
	all := *s
	all.Slow, all.Instances = nil, make([]host.Instance, len(r.names))
	for i, name := range r.names {
		all.Instances[i] = r.lives[name]
		all.Instances[i].Name = name
	}
	r.before, r.latest = r.latest, &all
	return true
}

// at is what had been used at a moment, for which it waits. Each sample is of a later moment than the
// one before: an agent's times do not go back when its node's clock is set.
func (r *reading) at(t time.Time) (s host.Sample, ok bool) {
	for r.latest == nil || r.latest.At.Before(t) {
		if !r.next() {
			return s, false
		}
	}
	if r.before == nil || r.latest.At.Equal(t) {
		return *r.latest, true
	}
	f := float64(t.Sub(r.before.At)) / float64(r.latest.At.Sub(r.before.At))
	return host.Between(r.before, r.latest, min(1, max(0, f))), true
}

// together is the sum over all nodes at the moment of the first one's latest sample. ok is false if
// one of them has ended.
func together(all []*reading) (sum *host.Sample, ok bool) {
	names := all[0].names
	sum = &host.Sample{At: all[0].latest.At, Instances: make([]host.Instance, len(names))}
	for _, r := range all {
		s, ok := r.at(sum.At)
		if !ok {
			return nil, false
		}
		for i := range s.Instances {
			memory := sum.Instances[i].Memory + s.Instances[i].Memory
			sum.Instances[i].Add(&s.Instances[i])
			sum.Instances[i].Name, sum.Instances[i].Memory = names[i], memory
		}
		sum.Self += s.Self
		if r.machine {
			sum.MachineBusy, sum.MachineTotal = sum.MachineBusy+s.MachineBusy, sum.MachineTotal+s.MachineTotal
			sum.Interrupts, sum.Stolen = sum.Interrupts+s.Interrupts, sum.Stolen+s.Stolen
		}
	}
	if all[0].isSlow {
		sum.Slow = slowTogether(all)
	}
	return sum, true
}

// slowTogether is the same of what is read once a second: as each node told it last.
func slowTogether(all []*reading) *host.Slow {
	sum := &host.Slow{Instances: make([]host.SlowInstance, len(all[0].names))}
	for _, r := range all {
		for i, name := range r.names {
			sum.Instances[i].Add(r.slow[name])
		}
		sum.ListenOverflows += r.net.ListenOverflows
		sum.Retransmits += r.net.Retransmits
		sum.Loopback += r.net.Loopback
	}
	return sum
}

// Limit resizes the pod; one without a limit is slowed down by its agent.
func (a *agents) Limit(ctx context.Context, target string, factor float64) error {
	return a.run.machine.Limit(ctx, target, factor)
}

// Outsiders are none: what else runs on other machines is not looked at.
func (a *agents) Outsiders() (since func() []host.Process) {
	return func() []host.Process { return nil }
}

// Close restores all limits.
func (a *agents) Close() error { return errors.Join(a.run.machine.Close(), a.end()) }
