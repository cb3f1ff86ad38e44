// Package process runs a topology.System as ordinary local processes, each in
// a control group of its own, on a loopback address of its own.
//
// Up starts the services in dependency order and returns when all of them are
// ready; Down stops them. In between, the package does nothing but wait: it
// runs no health checks while load is offered, because a check is a process
// whose CPU would be taken from the system that is being measured.
//
// Where a program listens on a fixed port of all addresses and calls others by their
// services' names, each instance gets a network of its own (package network) in place of
// a loopback address, if this machine allows it. All of a system have the one or the
// other, so that within a variant every packet costs the same.
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
// head, up to Settings.LogBytes, and the last lines: what a service says first
// and last explains most failures, and a service that logs every request must
// not fill the disk.
package process

import (
	"context"
	"fmt"
	"os"
	"sync"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/driver/process/network"
	"loadstone/lab/driver/process/recipe"
	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

// Driver runs systems as local processes.
type Driver struct {
	// Settings.Env: PATH, HOME, TMPDIR and LANG of it reach the instances.
	driver.Settings

	// Self is this program's file, absolute: what loadstone stands for in a
	// Compose file. Shim is the argv prefix of a program that calls
	// cgroup.JoinAndExec: Self with a hidden subcommand.
	Self string
	Shim []string
}

// setup is all that one Up is given.
type setup struct {
	Driver
	driver.Config
}

// Running is a system that is up.
type Running struct {
	driver.Core

	config setup
	name   string // of the run, and of its control group
	vars   map[string]string
	hosts  map[string][]string // addresses by service

	volumes map[string]string        // directories by name
	recipes map[string]*recipe.Found // by service
	dir     string                   // of the instances that have recipes; empty without

	claim   *claim
	network *network.Network // nil where instances have loopback addresses
	tree    *cgroup.Tree     // nil where no groups can be made
	checks  *cgroup.Group
	guard   *guardian.Guardian
	starter *network.Thread

	instances []*instance    // in the order of the system's services
	waits     sync.WaitGroup // one for each process that was started
}

// Name is process.
func (d Driver) Name() string { return "process" }

// Machine is this one.
func (d Driver) Machine(context.Context) (host.Machine, []string) { return host.This() }

// Up starts a system; see driver.Driver.
func (d Driver) Up(ctx context.Context, c driver.Config) (driver.Running, error) {
	r := &Running{config: setup{d, c}}
	if n := c.System.Instances(); n > network.MaxInstances {
		return nil, fmt.Errorf("process driver: %d instances are more than the %d addresses of a run", n, network.MaxInstances)
	}
	if err := r.Up(ctx, r, &d.Settings, c.Progress); err != nil {
		return nil, err
	}
	return r, nil
}

// Prepare is for Core.
func (r *Running) Prepare(ctx context.Context) error {
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
	if r.guard, err = r.config.StartGuardian(ctx, r.config.LogDir, r.claim.file); err != nil {
		return err
	}
	if err := r.guard.Mark(r.name); err != nil {
		return err
	}
	if err := r.makeDir(); err != nil {
		return err
	}
	r.starter = network.NewThread()
	if err := r.prepareGroups(ctx); err != nil {
		return err
	}
	if err := r.openNetwork(); err != nil {
		return err
	}
	return r.plan()
}
