package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/driver"
	"loadstone/lab/topology"
)

const (
	// firstPause and lastPause bound the pause between two looks at an instance
	// that is starting, where the file does not state one. It doubles: what
	// starts in 30 ms is seen after 50, and what takes minutes is not bothered
	// twenty times a second. Docker's own default would be 30 s, which is meant
	// for watching a container for days.
	firstPause = 25 * time.Millisecond
	lastPause  = 400 * time.Millisecond
	// connectTimeout bounds one attempt to connect over loopback, where an
	// answer takes microseconds unless the instance is out of CPU quota.
	connectTimeout = time.Second
)

// awaitReady waits until the instance is healthy or, without a health check,
// accepts connections on its port. It is not looked at again after that: a
// check during load would take CPU from what is being measured.
func (in *instance) awaitReady(ctx context.Context) error {
	var err error
	switch {
	case in.service.Health != nil:
		err = in.awaitHealthy(ctx, *in.service.Health)
	case in.service.Port != 0:
		err = in.awaitPort(ctx)
	}
	if err == nil {
		in.setReady()
	}
	return err
}

func (in *instance) awaitHealthy(ctx context.Context, h topology.HealthCheck) error {
	var last error
	ok, err := in.poll(ctx, h.Within, h.Every, func(ctx context.Context) bool {
		last = in.check(ctx, h)
		return last == nil
	})
	if ok || err != nil {
		return err
	}
	return fmt.Errorf("%s is not healthy after %v: its health check %q %w%s",
		in.name, h.Within, strings.Join(h.Command, " "), last, lastLines(in.log.lines(), in.log.path))
}

func (in *instance) awaitPort(ctx context.Context) error {
	address := net.JoinHostPort(in.host, strconv.Itoa(in.service.Port))
	within := in.run.config.ReadyWithin
	ok, err := in.poll(ctx, within, nil, func(ctx context.Context) bool {
		dialer := net.Dialer{Timeout: connectTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return false
		}
		_ = conn.Close() // nothing was sent
		return true
	})
	if ok || err != nil {
		return err
	}
	return fmt.Errorf("%s accepts no connection on %s after %v: %s%s",
		in.name, address, within, in.elsewhere(), lastLines(in.log.lines(), in.log.path))
}

// poll calls ready until it says yes or the time is over, with pauses of every
// if that is given. The last call begins within the time.
func (in *instance) poll(ctx context.Context, within time.Duration, every *time.Duration, ready func(context.Context) bool) (bool, error) {
	l := in.current()
	p := driver.Poll{Within: within, First: firstPause, Last: lastPause, Every: every}
	ok, err := p.Until(ctx, l.exited, ready)
	switch {
	case err != nil:
		return false, fmt.Errorf("wait for %s to be ready: %w", in.name, err)
	case !ok && l.hasEnded():
		return false, l.err // wait reports why; its error is the one to show
	}
	return ok, nil
}

// check runs the health check once, for as long as its timeout.
func (in *instance) check(ctx context.Context, h topology.HealthCheck) error {
	said, err := in.aside(ctx, h.Command, h.Timeout)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if said == "" {
			said = "nothing"
		}
		return fmt.Errorf("failed (%w) and said: %s", exit, said)
	}
	return err
}

// aside runs a command beside the instance: outside of its group (see
// prepareGroups) but otherwise like it. When ctx ends, or the time, the command
// is killed with all that it started. It returns the last of what was written.
func (in *instance) aside(ctx context.Context, argv []string, within time.Duration) (said string, err error) {
	cmd, err := in.run.command(ctx, in, argv)
	if err != nil {
		return "", fmt.Errorf("cannot run: %w", err)
	}
	if in.run.checks != nil {
		if err := in.run.checks.Enter(cmd, in.run.config.Shim); err != nil {
			return "", fmt.Errorf("cannot run: %w", err)
		}
	}
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = drainWithin
	if err := in.run.starter.start(cmd); err != nil {
		return "", fmt.Errorf("cannot run: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	kill := context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	err = cmd.Wait()
	said = string(bytes.TrimSpace(out.buf))
	if !kill() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return said, fmt.Errorf("took more than %v", within)
	}
	return said, err
}
