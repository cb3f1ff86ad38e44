package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/lab/host"
	"loadstone/lab/topology"
)

// Core is what the running systems of all drivers have in common. Prepare of the
// driver adds instances to it before it starts them.
type Core struct {
	parts Parts
	// readyWithin is how long an instance without a health check may take until
	// it accepts connections on its port.
	readyWithin time.Duration
	env         map[string]string // of the lab

	abort context.CancelCauseFunc // of Up; harmless later
	acts  *Acts

	order     Order
	instances []*Instance // in the order of the system's services
	host      *host.Local
	failed    chan error // nil until all instances are known

	mu       sync.Mutex // guards all below
	warnings []string

	down    sync.Once
	downErr error
}

// Parts is what a driver does around the start of its instances.
type Parts interface {
	// Prepare makes everything that instances need, in the order in which a death
	// of this process leaves nothing unguarded, and calls Add for each service.
	Prepare(ctx context.Context) error
	// CleanUp undoes Prepare in reverse, whatever of it was done. It does not give up
	// half-way and not when ctx ends; every step bounds itself.
	CleanUp(ctx context.Context) error
}

// Up prepares the system and starts it; see Driver.
func (c *Core) Up(ctx context.Context, p Parts, s *Settings, progress topology.Progress) error {
	up, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	c.parts, c.readyWithin, c.env = p, s.ReadyWithin, s.Env
	c.abort, c.acts, c.host = abort, NewActs(ctx), host.NewLocal(c.Targets)
	err := p.Prepare(up)
	if err == nil {
		err = c.start(up, progress)
	}
	if err == nil {
		err = context.Cause(up) // an instance ended after it was ready
	}
	if err != nil {
		// ctx may be what ended; stopping needs its own time.
		return errors.Join(err, c.Down(context.WithoutCancel(ctx)))
	}
	return nil
}

// start starts all services in their order.
func (c *Core) start(ctx context.Context, progress topology.Progress) error {
	err := c.order.Start(ctx, progress)
	if err == nil {
		err = c.limitCPUs(ctx)
	}
	// An instance that ended is the cause of whatever else went wrong then.
	select {
	case cause := <-c.failed:
		return cause
	default:
		return err
	}
}

// limitCPUs holds instances to their shares of the CPU once all of them are ready. With
// a fifth of a core from its start, a JVM would take minutes to be ready, and so would
// the job that fills it; no load meets a system that starts. An instance that is started
// again under load keeps its share: one that could use the whole machine then would
// take the CPU from the others that are being measured.
func (c *Core) limitCPUs(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, in := range c.instances {
		if !in.Service.Job && in.Service.Limits.CPUs != nil {
			g.Go(func() error { return in.wrap("limit the CPU of", in.LimitCPU(ctx)) })
		}
	}
	return g.Wait()
}

// Add adds a service with its instances, before the start.
func (c *Core) Add(s topology.Service, instances ...*Instance) {
	steps := make([]Steps, len(instances))
	for i, in := range instances {
		in.core = c
		steps[i] = in.steps()
	}
	c.instances = append(c.instances, instances...)
	c.order.Add(s, steps)
	// Room for every instance once, and for the loss of what runs them.
	c.failed = make(chan error, len(c.instances)+1)
}

// Down is that of Running.
func (c *Core) Down(ctx context.Context) error {
	c.down.Do(func() {
		c.acts.End()
		//nolint:contextcheck // the host restores limits whatever has ended
		c.downErr = errors.Join(c.host.Close(), c.order.Stop(ctx), c.parts.CleanUp(context.WithoutCancel(ctx)))
		if c.failed != nil {
			close(c.failed)
		}
	})
	return c.downErr
}

// Stopping reports whether Down was called.
func (c *Core) Stopping() bool { return c.acts.Over() }

// Instances are those of Running.
func (c *Core) Instances() []topology.Instance {
	var all []topology.Instance
	for _, in := range c.instances {
		if !in.Service.Job {
			all = append(all, in.describe())
		}
	}
	return all
}

// Hosts is this machine.
func (c *Core) Hosts() []host.Host { return []host.Host{c.host} }

// Targets are the instances as this machine sees them now, for a driver with a host of its
// own.
func (c *Core) Targets() []host.Target {
	var all []host.Target
	for _, in := range c.instances {
		if !in.Service.Job {
			all = append(all, in.target())
		}
	}
	return all
}

// Failed is that of Running.
func (c *Core) Failed() <-chan error { return c.failed }

// Fail reports an error that ends Up, and that whoever keeps the system up has to
// know.
func (c *Core) Fail(err error) {
	select {
	case c.failed <- err:
	default: // whoever starts instances again and again does not read it
		c.Warnf("%v", err)
	}
	c.abort(err)
}

// Warnings are those of Running.
func (c *Core) Warnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.warnings)
}

// Warnf adds a warning, once: replicas share theirs.
func (c *Core) Warnf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

func (c *Core) instance(name string) (*Instance, error) {
	for _, in := range c.instances {
		if in.Name == name {
			return in, nil
		}
	}
	return nil, fmt.Errorf("there is no instance %s", name)
}
