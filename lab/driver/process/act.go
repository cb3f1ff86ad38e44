package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/driver"
	"loadstone/lab/driver/guardian"
	"loadstone/lab/topology"
)

// Started again, an instance keeps its address, its control group and what that
// has counted, and its recipe's directory.

const (
	// pauseWithin bounds the wait until every process of an instance stands
	// still. A signal takes microseconds, but to a process that waits for a disk, and
	// seconds on a machine that is full.
	pauseWithin = 10 * time.Second
	pausePause  = time.Millisecond
)

// StartAgain launches what was prepared at the first start.
func (in *instance) StartAgain(ctx context.Context) error {
	if err := in.log.reopen("started again"); err != nil {
		return err
	}
	before := in.Life()
	out, err := in.openOutput()
	if err == nil && in.dir != "" {
		err = in.giveLog(out.w)
	}
	if err == nil {
		err = in.launch(ctx, out)
	}
	if err != nil && in.Life() == before { // else wait closes its log
		err = errors.Join(err, in.abandon(ctx, out))
	}
	return err
}

// Pause has every process stand still (SIGSTOP).
func (in *instance) Pause(ctx context.Context, l *driver.Life) error {
	in.paused.Store(true)
	if err := in.halt(ctx, l); err != nil {
		return errors.Join(err, in.Resume(ctx, l))
	}
	return nil
}

// halt stops processes until two looks in a row find none that runs: one that
// ran during the first may have started another in its last moment.
func (in *instance) halt(ctx context.Context, l *driver.Life) error {
	ctx, cancel := context.WithTimeout(ctx, pauseWithin)
	defer cancel()
	tick := time.NewTicker(pausePause)
	defer tick.Stop()
	for still := 0; ; {
		members, err := in.members(l)
		if err != nil {
			return err
		}
		still++
		for _, m := range members {
			if m.Stopped {
				continue
			}
			still = 0
			if err := send(m.Process, unix.SIGSTOP); err != nil {
				return err
			}
		}
		if still >= 2 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("its processes could not be paused: %w", context.Cause(ctx))
		}
	}
}

// Resume lets all go on, if the instance is paused.
func (in *instance) Resume(_ context.Context, l *driver.Life) error {
	if !in.paused.Swap(false) {
		return nil
	}
	members, err := in.members(l)
	errs := []error{err}
	for _, m := range members {
		errs = append(errs, send(m.Process, unix.SIGCONT))
	}
	return errors.Join(errs...)
}

// members are the instance's processes that have not ended: those of its group
// or, where there are no groups, its first process and what descends from it.
func (in *instance) members(l *driver.Life) ([]guardian.Member, error) {
	if in.group == nil {
		return guardian.Descendants(in.run.config.ProcRoot, l.Process)
	}
	pids, err := in.group.Procs()
	if err != nil {
		return nil, err
	}
	return guardian.Members(in.run.config.ProcRoot, pids), nil
}

func send(p guardian.Process, s syscall.Signal) error {
	err := unix.Kill(p.PID, s)
	if errors.Is(err, unix.ESRCH) {
		return nil // it has ended
	}
	return os.NewSyscallError("kill", err)
}

// Run runs a command beside the instance: outside of its group, whose CPU it must
// not use (see prepareGroups), but otherwise like it. When ctx ends, or the time,
// the command is killed with all that it started.
func (in *instance) Run(ctx context.Context, argv []string, within time.Duration) (said string, err error) {
	cmd, err := in.run.command(ctx, in, argv)
	if err != nil {
		return "", fmt.Errorf("cannot run: %w", err)
	}
	if in.run.checks != nil {
		if err := in.run.checks.Enter(cmd, in.run.config.Shim); err != nil {
			return "", fmt.Errorf("cannot run: %w", err)
		}
	}
	var out driver.Tail
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = drainWithin
	if err := in.start(cmd); err != nil {
		return "", fmt.Errorf("cannot run: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	kill := context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	err = cmd.Wait()
	if !kill() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return out.String(), fmt.Errorf("took more than %v", within)
	}
	return out.String(), err
}

// CheckFault says of a command, for a system that is not up yet, whether its variables are well
// written and its program is there.
func (d Driver) CheckFault(_ context.Context, s *topology.System, f driver.Fault) error {
	if f.Command == nil {
		return nil
	}
	command, known, err := driver.ExecCommand(s, f.Service, f.Command, d.Env)
	if err != nil {
		return err
	}
	path := cmp.Or(known.Environment["PATH"], d.Env["PATH"], defaultPath)
	r := Running{config: setup{d, driver.Config{System: s}}}
	_, err = r.find(command[0], path)
	return err
}
