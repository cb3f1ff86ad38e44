package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

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
	// connectTimeout bounds one attempt to connect on this machine, where an
	// answer takes microseconds unless the instance is out of CPU quota.
	connectTimeout = time.Second
)

// awaitCompleted waits for a job's end. It may take as long as it takes: a
// seeder's time depends on what it seeds, and the user can see and stop it.
func (in *Instance) awaitCompleted(ctx context.Context) error {
	l := in.Life()
	select {
	case <-l.exited:
		if l.err == nil {
			in.setReady(ctx)
		}
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to complete: %w", in.Name, context.Cause(ctx))
	}
}

// awaitReady waits until the instance is healthy or, without a health check,
// accepts connections on its port. It is not looked at again after that: a check during
// load would take CPU from what is being measured.
func (in *Instance) awaitReady(ctx context.Context) error {
	var err error
	switch {
	case in.Service.Health != nil:
		err = in.awaitHealthy(ctx, *in.Service.Health)
	case in.Place().Port != 0:
		err = in.awaitPort(ctx)
	}
	if err == nil {
		in.setReady(ctx)
	}
	return err
}

func (in *Instance) awaitHealthy(ctx context.Context, h topology.HealthCheck) error {
	var last error
	ok, err := in.poll(ctx, h.Within, h.Every, func(ctx context.Context) bool {
		if last = in.check(ctx, h); last == nil {
			if stranger := in.Actions.Stranger(); stranger != "" {
				last = fmt.Errorf("is answered by another: %s", stranger)
			}
		}
		return last == nil
	})
	if ok || err != nil {
		return err
	}
	return fmt.Errorf("%s is not healthy after %v (a longer start_period in its healthcheck gives it more): its health check %q %w%s",
		in.Name, h.Within, strings.Join(h.Command, " "), last, in.Actions.LastLines(ctx))
}

func (in *Instance) awaitPort(ctx context.Context) error {
	p, within := in.Place(), in.core.readyWithin
	address := net.JoinHostPort(p.Host, strconv.Itoa(p.Port))
	stranger := ""
	ok, err := in.poll(ctx, within, nil, func(ctx context.Context) bool {
		dialer := net.Dialer{Timeout: connectTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return false
		}
		_ = conn.Close() // nothing was sent
		stranger = in.Actions.Stranger()
		return stranger == ""
	})
	if ok || err != nil {
		return err
	}
	if stranger != "" {
		return fmt.Errorf("%s does not listen on %s itself after %v: %s%s", in.Name, address, within, stranger, in.Actions.LastLines(ctx))
	}
	return fmt.Errorf("%s accepts no connection on %s after %v%s%s",
		in.Name, address, within, in.Actions.Unreachable(), in.Actions.LastLines(ctx))
}

// poll calls ready until it says yes or the time is over, with pauses of every
// if that is given. The last call begins within the time.
func (in *Instance) poll(ctx context.Context, within time.Duration, every *time.Duration, ready func(context.Context) bool) (bool, error) {
	l := in.Life()
	p := Poll{Within: within, First: firstPause, Last: lastPause, Every: every}
	ok, err := p.Until(ctx, l.exited, ready)
	switch {
	case err != nil:
		return false, fmt.Errorf("wait for %s to be ready: %w", in.Name, err)
	case !ok && l.HasEnded():
		return false, l.err // which is reported as well; its error is the one to show
	}
	return ok, nil
}

// check runs the health check once, for as long as its timeout.
func (in *Instance) check(ctx context.Context, h topology.HealthCheck) error {
	said, err := in.Actions.Run(ctx, h.Command, h.Timeout)
	if exit, ok := errors.AsType[status](err); ok {
		return fmt.Errorf("failed (%w) and said: %s", exit, cmp.Or(said, "nothing"))
	}
	return err
}

// status is a command that ended with one, as exec.ExitError.
type status interface {
	error
	ExitCode() int
}
