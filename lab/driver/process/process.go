// Package process runs a topology.System as ordinary local processes, each in
// a control group of its own, on a loopback address of its own.
//
// Up starts the services in dependency order and returns when all of them are
// ready; Down stops them. In between, the package does nothing but wait: it
// runs no health checks while load is offered, because a check is a process
// whose CPU would be taken from the system that is being measured.
//
// By itself it never starts an instance again that has ended. A trial that lost
// an instance has measured another system than it says, so it fails: the end of
// an instance is reported once, on Failed, with its status and last lines. What
// is ended on purpose (Kill, Stop) is not. Start is for who wants one back.
//
// # Nothing is left behind
//
// Invariant: whatever way the lab goes, no process and no control group stays.
// Down runs on every way out of Up and is safe to call again. For the case
// that the lab itself is killed there are three nets below each other: the
// kernel kills each instance when the thread that started it is gone (so one
// thread starts them all, and lives as long as they do); a guardian process
// kills the rest (package guardian); and the next Up removes what a lab and
// its guardian that were killed together have left.
//
// # Who owns what
//
// One goroutine per instance waits for its end, one copies its log; Down waits
// for all of them. The directories of logs and volumes are the caller's; one
// below TMPDIR, with what images keep outside of volumes, is the run's and goes
// with it. An
// instance writes to its log through a pipe into this process, which keeps the
// head, up to Config.LogBytes, and the last lines: what a service says first
// and last explains most failures, and a service that logs every request must
// not fill the disk.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/driver/process/recipe"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/topology"
)

// Config says what to run and how.
type Config struct {
	System *topology.System

	// Self is this program's file, absolute: what loadstone stands for in a
	// Compose file. Shim and Guardian are argv prefixes of programs that call
	// cgroup.JoinAndExec and guardian.Run: Self with a hidden subcommand.
	Self     string
	Shim     []string
	Guardian []string

	// LogDir gets <instance>.log for every instance. VolumeDir gets a directory
	// for every named volume; it is used again by the next Up, so a seeder can
	// see that its work is done.
	LogDir    string
	VolumeDir string

	// Env is the lab's environment. PATH, HOME, TMPDIR and LANG of it reach the
	// instances, nothing else: a run must not depend on the shell it began in.
	Env map[string]string

	// LogBytes bounds the head of each log that is kept.
	LogBytes int64
	// ReadyWithin is how long an instance without a health check may take until
	// it accepts connections on its port.
	ReadyWithin time.Duration

	Progress topology.Progress

	// ProcRoot and SysRoot are /proc and / but in tests.
	ProcRoot, SysRoot string
}

// DefaultConfig has what is the same for every run.
func DefaultConfig() Config {
	return Config{
		LogBytes: 8 << 20,
		// A server without a health check that is not up after half a minute
		// most likely listens on another address.
		ReadyWithin: 30 * time.Second,
		ProcRoot:    "/proc",
		SysRoot:     "/",
	}
}

// Validate returns all that is wrong with c.
func (c *Config) Validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("process driver: "+what))
		}
	}
	need(c.System != nil, "no system is given")
	need(filepath.IsAbs(c.Self), fmt.Sprintf("this program's path %q is not absolute", c.Self))
	need(len(c.Shim) > 0, "no shim is given")
	need(len(c.Guardian) > 0, "no guardian is given")
	need(c.LogDir != "", "no directory for logs is given")
	need(filepath.IsAbs(c.VolumeDir), fmt.Sprintf("the directory for volumes %q is not absolute", c.VolumeDir))
	need(c.LogBytes > 0, fmt.Sprintf("%d bytes of log is not above 0", c.LogBytes))
	need(c.ReadyWithin > 0, fmt.Sprintf("%v to be ready is not above 0", c.ReadyWithin))
	need(c.ProcRoot != "" && c.SysRoot != "", "no roots of proc and of the file system are given")
	if c.System != nil && c.System.Instances() > maxInstances {
		need(false, fmt.Sprintf("%d instances are more than the %d addresses of a run", c.System.Instances(), maxInstances))
	}
	return errors.Join(errs...)
}

// Running is a system that is up. Its methods may be called from several
// goroutines.
type Running struct {
	config Config
	name   string // of the run, and of its control group
	vars   map[string]string
	hosts  map[string][]string // addresses by service

	volumes map[string]string        // directories by name
	recipes map[string]*recipe.Found // by service
	dir     string                   // of the instances that have recipes; empty without

	claim   *claim
	tree    *cgroup.Tree // nil where no groups can be made
	checks  *cgroup.Group
	guard   *guardian.Guardian
	starter *starter

	order     driver.Order
	instances []*instance // in the order of the system's services

	failed chan error
	abort  context.CancelCauseFunc // of Up; harmless later
	waits  sync.WaitGroup          // one for each process that was started

	acts *driver.Acts

	mu       sync.Mutex // guards all below
	warnings []string

	down    sync.Once
	downErr error
}

// Up starts the system and returns when every service is ready: jobs have
// completed, instances with a health check are healthy, and those without one
// accept connections on their port, if they have one. When it fails or ctx is
// cancelled, it has stopped and removed everything before it returns.
func Up(ctx context.Context, c Config) (*Running, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	up, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	r := &Running{config: c, abort: abort, acts: driver.NewActs(ctx)}
	err := r.prepare(up)
	if err == nil {
		err = r.startAll(up)
	}
	if err == nil {
		err = context.Cause(up) // an instance ended after it was ready
	}
	if err != nil {
		// ctx may be what ended; stopping needs its own time.
		return nil, errors.Join(err, r.Down(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// prepare makes everything that instances need, in the order in which a death
// of this process leaves nothing unguarded.
func (r *Running) prepare(ctx context.Context) error {
	err := r.prepareRecipes(ctx)
	if err != nil {
		return err
	}
	for _, dir := range []string{r.config.LogDir, r.config.VolumeDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("prepare to start: %w", err)
		}
	}
	if r.claim, err = claimNetwork(); err != nil {
		return err
	}
	if r.name, err = runName(r.config.ProcRoot, r.claim.network); err != nil {
		return err
	}
	r.guard, err = guardian.Start(ctx, guardian.Config{
		Argv: r.config.Guardian, LogFile: filepath.Join(r.config.LogDir, "guardian.log"), Hold: []*os.File{r.claim.file},
	})
	if err != nil {
		return err
	}
	if err := r.guard.Mark(r.name); err != nil {
		return err
	}
	if err := r.makeDir(); err != nil {
		return err
	}
	r.starter = newStarter()
	if err := r.prepareGroups(ctx); err != nil {
		return err
	}
	return r.plan()
}

// Instances are the instances that run, jobs that have completed left out, by
// service in dependency order and by index.
func (r *Running) Instances() []topology.Instance {
	var all []topology.Instance
	for _, in := range r.instances {
		if !in.service.Job {
			all = append(all, in.describe())
		}
	}
	return all
}

// Group is the control group of the instance called name; nil if there is no
// such instance or groups cannot be made here. It is the Running's: read it,
// change its CPU share, but leave closing and removing to Down.
func (r *Running) Group(name string) *cgroup.Group {
	if in := r.instance(name); in != nil {
		return in.group
	}
	return nil
}

// CgroupVersion is 1 or 2, or 0 where no groups can be made.
func (r *Running) CgroupVersion() int {
	if r.tree == nil {
		return 0
	}
	return r.tree.Version()
}

// Failed gets an *ExitError for every instance that ends while it should run,
// once each. Down closes it.
func (r *Running) Failed() <-chan error { return r.failed }

// Warnings say what about this run is not as the Compose file wants it, in
// addition to the System's own.
func (r *Running) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.warnings)
}

func (r *Running) warnf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.warnings, text) { // replicas share theirs
		r.warnings = append(r.warnings, text)
	}
}
