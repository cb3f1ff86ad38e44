package perturb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/cgroup"
)

// Share is the knob of a component whose instances' groups are limited to cores
// each: it changes the limit.
func Share(component string, groups []*cgroup.Group, cores float64) Knob {
	return Knob{
		Target: Target{Component: component, Resource: CPU},
		Set: func(_ context.Context, factor float64) error {
			var errs []error
			for _, g := range groups {
				errs = append(errs, g.SetCPUs(cores*factor))
			}
			return errors.Join(errs...)
		},
	}
}

// stallPeriod is that of a CPU quota, so that a stalled component is like one
// with a smaller share.
const stallPeriod = cgroup.DefaultPeriod

// Stall is the knob of a component that has no CPU limit to change: for a
// factor of 0.8, all processes of the groups stand still (SIGSTOP) for a fifth of
// every 20 ms, as if their processors were a fifth slower. It cannot make them faster.
//
// What that does to latency: a request that meets a standstill of d waits for what
// is left of it: on average d²/(2·20 ms), that is 0.4 ms at 0.8 and 0.1 ms at 0.9,
// and 4 ms and 2 ms at most, for each visit to the component. Throughput falls
// only if the component cannot make up for it in the time it has left: a component
// that sleeps or waits goes on waiting while it stands still. So an elasticity of
// latency alone, without one of throughput, says nothing about the limit.
//
// A process that starts within a standstill runs until the next. The stalls come
// from a goroutine that ends when the factor is set to 1.
func Stall(component string, groups []*cgroup.Group) Knob {
	s := &staller{groups: groups}
	return Knob{Target: Target{Component: component, Resource: CPU}, DownOnly: true, Set: s.set}
}

type staller struct {
	groups []*cgroup.Group
	cancel context.CancelFunc // nil while nothing is stalled
	done   chan error
}

func (s *staller) set(ctx context.Context, factor float64) error {
	if factor <= 0 || factor > 1 {
		return fmt.Errorf("a standstill for %g of the time is not possible", 1-factor)
	}
	var err error
	if s.cancel != nil {
		s.cancel()
		err = <-s.done
		s.cancel = nil
	}
	if factor == 1 || err != nil {
		return err
	}
	// Its life is that of the setting, not of the call.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel, s.done = cancel, make(chan error, 1)
	go func() { s.done <- s.stall(ctx, time.Duration((1-factor)*float64(stallPeriod))) }()
	return nil
}

// stall stops and continues until ctx ends, and leaves all going on.
func (s *staller) stall(ctx context.Context, still time.Duration) error {
	tick := time.NewTicker(stallPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		pids, err := s.signal(nil, unix.SIGSTOP)
		if err == nil {
			pause(ctx, still)
		}
		_, errOn := s.signal(pids, unix.SIGCONT)
		if err = errors.Join(err, errOn); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// signal sends to pids or, if there are none, to all processes of the groups,
// and returns to whom. They are signalled within microseconds of having been
// listed, so that an id cannot have passed on to another process.
func (s *staller) signal(pids []int, signal unix.Signal) ([]int, error) {
	var errs []error
	if pids == nil {
		for _, g := range s.groups {
			in, err := g.Procs()
			errs = append(errs, err)
			pids = append(pids, in...)
		}
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, os.NewSyscallError("kill", err))
		}
	}
	return pids, errors.Join(errs...)
}
