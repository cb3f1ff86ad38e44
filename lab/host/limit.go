package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/pause"
	"loadstone/lab/host/cgroup"
)

// Limit changes the CPU quota of a target's control group. The processes of one
// that has no quota stand still for a part of the time instead; see stall.
func (l *Local) Limit(ctx context.Context, target string, factor float64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.changed[target]
	if c == nil {
		var err error
		if c, err = l.open(target); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		l.changed[target] = c
	}
	if factor == c.factor {
		return nil
	}
	set := c.stall
	if c.share != nil {
		set = c.scale
	}
	if err := set(ctx, factor); err != nil {
		return fmt.Errorf("%s: %w", target, err)
	}
	c.factor = factor
	return nil
}

// Close restores all limits.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for name, c := range l.changed {
		errs = append(errs, c.restore(), c.group.Close())
		delete(l.changed, name)
	}
	return errors.Join(errs...)
}

// cpuLimit is how the CPU of one target was changed.
type cpuLimit struct {
	group  *cgroup.Group
	share  *cgroup.CPU // before any change; nil for a group without a quota
	factor float64

	cancel context.CancelFunc // ends the standstills; nil while there are none
	done   chan error
}

func (l *Local) open(target string) (*cpuLimit, error) {
	t, ok := l.target(target)
	if !ok || t.Cgroup.Version == 0 {
		return nil, ErrUnsupported
	}
	group, err := cgroup.Open(t.Cgroup)
	if err != nil {
		return nil, err
	}
	share, err := group.CPU()
	if err != nil {
		return nil, errors.Join(err, group.Close())
	}
	return &cpuLimit{group: group, share: share, factor: 1}, nil
}

// scale changes the quota over the period that it has.
func (c *cpuLimit) scale(_ context.Context, factor float64) error {
	return c.group.SetCPU(cgroup.CPU{Cores: c.share.Cores * factor, Period: c.share.Period})
}

func (c *cpuLimit) restore() error {
	if c.share == nil || c.factor == 1 {
		return c.goOn()
	}
	return c.scale(context.Background(), 1)
}

// stallPeriod is that of a CPU quota, so that a stalled target is like one
// with a smaller share.
const stallPeriod = cgroup.DefaultPeriod

// stall slows a target down that has no quota to change: for a
// factor of 0.8, all processes of the group and of those below it stand still (SIGSTOP) for a fifth of
// every 20 ms, as if their processors were a fifth slower. It cannot make them faster.
//
// What that does to latency: a request that meets a standstill of d waits for what
// is left of it: on average d²/(2·20 ms), that is 0.4 ms at 0.8 and 0.1 ms at 0.9,
// and 4 ms and 2 ms at most, for each visit to the component. Throughput falls
// only if the component cannot make up for it in the time it has left: a component
// that sleeps or waits goes on waiting while it stands still. So an elasticity of
// latency alone, without one of throughput, says nothing about the limit.
//
// A process that starts within a standstill runs until the next. The standstills
// come from a goroutine that ends when the factor is set to 1.
func (c *cpuLimit) stall(ctx context.Context, factor float64) error {
	if factor <= 0 || factor > 1 {
		return fmt.Errorf("a standstill for %g of the time is not possible", 1-factor)
	}
	if err := c.goOn(); err != nil || factor == 1 {
		return err
	}
	// Its life is that of the setting, not of the call.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel, c.done = cancel, make(chan error, 1)
	go func() { c.done <- c.standstills(ctx, time.Duration((1-factor)*float64(stallPeriod))) }()
	return nil
}

// goOn ends the standstills.
func (c *cpuLimit) goOn() error {
	if c.cancel == nil {
		return nil
	}
	c.cancel()
	c.cancel = nil
	return <-c.done
}

// standstills stops and continues until ctx ends, and leaves all going on.
func (c *cpuLimit) standstills(ctx context.Context, still time.Duration) error {
	tick := time.NewTicker(stallPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		all, err := c.group.Members()
		if err == nil {
			err = all.Signal(unix.SIGSTOP)
		}
		if err == nil {
			pause.For(ctx, still)
		}
		err = errors.Join(err, all.Signal(unix.SIGCONT))
		if all.Close(); err != nil {
			return err
		}
	}
}
