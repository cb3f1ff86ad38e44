package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/internal/project"
)

// upDetached has another process of this program keep the system up, in a
// session of its own so that it outlives this terminal, and returns when the
// system is up or could not be started. Until then it shows what that process
// says; later that goes on in up.log.
func (a *app) upDetached(ctx context.Context, t *upTarget, args []string, f upFlags) error {
	if r, ok, err := t.store.Find(t.name); err != nil || ok {
		if err != nil {
			return err
		}
		return a.alreadyUp(ctx, t, f, r)
	}
	if err := os.MkdirAll(t.store.Path(t.name), 0o755); err != nil {
		return fmt.Errorf("start %s in the background: %w", t.name, err)
	}
	log, err := os.CreateTemp(t.store.Path(t.name), "up-*.log")
	if err != nil {
		return fmt.Errorf("start %s in the background: %w", t.name, err)
	}
	defer func() { _ = log.Close() }() // the keeper writes it; here it is only read
	child, err := a.startKeeper(ctx, log, t, args, f)
	if err != nil {
		return errors.Join(fmt.Errorf("start %s in the background: %w", t.name, err), os.Remove(log.Name()))
	}
	r, err := a.follow(ctx, child, t, log)
	if err != nil {
		return errors.Join(err, os.Remove(log.Name()))
	}
	if r.Owner.PID != child.Pid { // another one was faster
		return errors.Join(a.alreadyUp(ctx, t, f, r), os.Remove(log.Name()))
	}
	// One name for the log of the process that keeps it up now.
	name := filepath.Join(t.store.Path(t.name), "up.log")
	if err := os.Rename(log.Name(), name); err != nil {
		return fmt.Errorf("record the messages of %s: %w", t.name, err)
	}
	a.printUp(t.store, r, downCommandFor(t.name, f.dir))
	fmt.Fprintf(a.Stdout, "messages %s\n", name)
	return nil
}

// startKeeper starts this program again, without --detach. The caller reads what
// it writes to log from the log's beginning.
func (a *app) startKeeper(ctx context.Context, log *os.File, t *upTarget, args []string, f upFlags) (*os.Process, error) {
	argv := append([]string{"up"}, args...)
	argv = append(argv, "--driver", f.driver, "--dir", t.store.Dir, "--project-name", t.name)
	for _, p := range f.profiles {
		argv = append(argv, "--profile", p)
	}
	if f.publishAll {
		argv = append(argv, "--publish-all")
	}
	// It is to outlive this command, and so its context.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), a.Executable, argv...)
	cmd.Stderr = log // its table goes nowhere: this process prints it
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd.Process, nil
}

// follow shows what the keeper says until the system is up or the keeper has
// ended. Told to stop, it stops the keeper and waits for its end.
func (a *app) follow(ctx context.Context, child *os.Process, t *upTarget, log *os.File) (project.Record, error) {
	stopped := context.AfterFunc(ctx, func() { _ = child.Signal(syscall.SIGTERM) })
	defer stopped()
	var shown int64
	waiting := context.WithoutCancel(ctx) // the keeper ends by itself once it is told
	for {
		status, ended, errChild := hasEnded(child.Pid)
		r, up, errFind := t.store.Find(t.name)
		n, err := io.Copy(a.Stderr, io.NewSectionReader(log, shown, 1<<40))
		if shown += n; err != nil || errChild != nil {
			return project.Record{}, fmt.Errorf("show the start of %s: %w", t.name, errors.Join(err, errChild))
		}
		switch {
		case ended && ctx.Err() != nil:
			return project.Record{}, ctx.Err()
		case ended && status != exitOK:
			return project.Record{}, exitStatusError(exitFailed) // it has said why
		case errFind != nil:
			return project.Record{}, errFind
		case ended && !up:
			return project.Record{}, errors.New(t.name + " was stopped while it was starting")
		case ended || keeps(r, child, up):
			return r, nil // of another keeper, if this one has ended well
		}
		if err := pause(waiting); err != nil {
			return project.Record{}, err
		}
	}
}

// keeps says whether a record is of a system that a process has brought up.
func keeps(r project.Record, child *os.Process, alive bool) bool {
	return alive && r.Owner.PID == child.Pid && r.Phase == project.Up
}

// hasEnded says whether a child has ended, and its status; a signal's is -1.
func hasEnded(pid int) (status int, ended bool, err error) {
	var ws unix.WaitStatus
	got, err := unix.Wait4(pid, &ws, unix.WNOHANG, nil)
	switch {
	case errors.Is(err, unix.EINTR):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("look after process %d: %w", pid, err)
	case got == 0:
		return 0, false, nil
	}
	return ws.ExitStatus(), true, nil
}

// pause is between two looks at what another process does.
func pause(ctx context.Context) error {
	const between = 30 * time.Millisecond
	select {
	case <-time.After(between):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
