package driver

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// Actions is what a driver does with one instance. Core wraps their errors with
// what was tried and the instance's name.
type Actions interface { //nolint:interfacebloat // one thing: all that a driver does with an instance
	// Start starts it for the first time, StartAgain after its end: the same
	// instance, with its volumes and its log. Both call Begin.
	Start(ctx context.Context) error
	StartAgain(ctx context.Context) error
	// Stop asks a life to end, gives it the time that its service grants, and kills
	// it; when ctx ends, there is no more time. Kill ends it at once. Both return
	// when it has ended.
	Stop(ctx context.Context, l *Life) error
	Kill(ctx context.Context, l *Life) error
	// Pause has all of it stand still, until Resume: it neither answers nor refuses.
	Pause(ctx context.Context, l *Life) error
	Resume(ctx context.Context, l *Life) error
	// Run runs a command as the instance would, for as long as within, and returns
	// the last of what it wrote. The error of a command that ended badly has
	// its status as ExitCode, as an *exec.ExitError.
	Run(ctx context.Context, argv []string, within time.Duration) (said string, err error)
	// Variables are those that the driver sets for it, for a command to be filled in.
	Variables() map[string]string
	// LastLines are the last lines of its log as the end of an error.
	LastLines(ctx context.Context) string
	// Stranger says who answers at its address in its place, and what to change; "" if
	// nobody does, or it cannot be known.
	Stranger() string
	// Unreachable says why it may accept nothing on its port, and what to change.
	Unreachable() string
}

// Instance is one instance of a service.
type Instance struct {
	Service topology.Service
	Index   int    // from 1
	Name    string // api-1
	Actions Actions
	// LimitCPU holds it to its service's share of the CPU, from now on and in all its
	// later lives. A job has its share from its start.
	LimitCPU func(ctx context.Context) error
	// OnReady, if it is set, is called each time that the instance is ready.
	OnReady func(ctx context.Context)

	core     *Core
	changing sync.Mutex // held by whoever kills, stops, pauses or starts it

	mu        sync.Mutex // guards all below
	life      *Life      // the latest; nil until it is started
	place     Place
	startedAt time.Time
	readyAt   time.Time
}

// Place is where an instance is found.
type Place struct {
	Host string
	Port int
	PID  int // of its first process; 0 if it has none, or one on another machine
	// Group is its control group; nil where it has none that can be seen.
	Group *cgroup.Group
	// Enforced says whether the kernel holds it to its limit.
	Enforced bool
	// OwnNetwork says whether it is alone in a network name space.
	OwnNetwork bool
}

// Life is one run of an instance. An instance has more than one if it is started
// again.
type Life struct {
	// Cmd and Process are the first process, where this program has started it. The
	// latter is zero if it ended before it could be identified.
	Cmd     *exec.Cmd
	Process guardian.Process

	asked  atomic.Bool   // its end is meant: it is no failure
	exited chan struct{} // closed when it has ended and its log is complete
	err    error         // why it ended badly; for after exited is closed
}

// NewLife is one that has not ended.
func NewLife() *Life { return &Life{exited: make(chan struct{})} }

// Asked says whether its end is meant.
func (l *Life) Asked() bool { return l.asked.Load() }

// Exited is closed when it has ended and its log is complete.
func (l *Life) Exited() <-chan struct{} { return l.exited }

// Err is why it ended badly; for after Exited is closed.
func (l *Life) Err() error { return l.err }

// HasEnded says whether Exited is closed.
func (l *Life) HasEnded() bool {
	select {
	case <-l.exited:
		return true
	default:
		return false
	}
}

// Life is the instance's latest life; nil before its first.
func (in *Instance) Life() *Life {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.life
}

// Place is where the instance is.
func (in *Instance) Place() Place {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.place
}

// LeaveGroup says that the instance's process has ended, or is about to, and closes its
// control group, which whoever made it removes.
func (in *Instance) LeaveGroup() error {
	in.mu.Lock()
	group := in.place.Group
	in.place.PID, in.place.Group = 0, nil
	in.mu.Unlock()
	if group == nil {
		return nil
	}
	return group.Close()
}

// Begin says that a life has begun, or is about to if at is zero.
func (in *Instance) Begin(l *Life, p Place, at time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.life, in.place, in.startedAt, in.readyAt = l, p, at, time.Time{}
}

// End says that a life has ended, with the error if it ended badly. An end that
// nobody asked for is reported.
func (in *Instance) End(l *Life, err error) {
	l.err = err
	close(l.exited)
	if err != nil && !in.Service.Job && !l.Asked() && !in.core.Stopping() {
		in.core.Fail(err)
	}
}

func (in *Instance) setReady(ctx context.Context) {
	in.mu.Lock()
	in.readyAt = time.Now()
	in.mu.Unlock()
	if in.OnReady != nil {
		in.OnReady(ctx)
	}
}

// WasReady says whether it has been ready since it last started.
func (in *Instance) WasReady() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return !in.readyAt.IsZero()
}

// steps are what Order does with the instance.
func (in *Instance) steps() Steps {
	ready := in.awaitReady
	if in.Service.Job {
		ready = in.awaitCompleted
	}
	return Steps{
		Start: func(ctx context.Context) error { return in.wrap("start", in.Actions.Start(ctx)) },
		Ready: ready,
		Stop: func(ctx context.Context) error {
			l := in.Life()
			if l == nil || l.HasEnded() {
				return nil
			}
			return in.wrap("stop", in.Actions.Stop(ctx, l))
		},
	}
}

// wrap says what was tried with the instance.
func (in *Instance) wrap(tried string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", tried, in.Name, err)
	}
	return nil
}

// describe is the instance as the rest of the lab sees it.
func (in *Instance) describe() topology.Instance {
	in.mu.Lock()
	defer in.mu.Unlock()
	d := topology.Instance{
		Service: in.Service.Name, Index: in.Index, Name: in.Name, Host: in.place.Host,
		Port: in.place.Port, PID: in.place.PID, StartedAt: in.startedAt, ReadyAt: in.readyAt,
		Resources: in.Service.Resources, OwnNetwork: in.place.OwnNetwork,
	}
	if cpus := in.Service.Limits.CPUs; cpus != nil {
		d.LimitCPUs, d.Enforced = *cpus, in.place.Enforced
	}
	d.MetricsURL = in.Service.MetricsURL(in.place.Host)
	return d
}

// target is the instance as its machine sees it.
func (in *Instance) target() host.Target {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := host.Target{Name: in.Name, OwnNetwork: in.place.OwnNetwork}
	if in.life != nil && !in.life.Asked() {
		t.PID = in.place.PID
	}
	if in.place.Group != nil {
		t.Cgroup = in.place.Group.Paths()
	}
	return t
}
