package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/lab/driver"
	"loadstone/lab/topology"
)

const (
	// firstPause and lastPause bound the pause between two looks at an instance
	// that is starting, where the file does not state one. It doubles. A look
	// with `docker exec` takes a tenth of a second itself.
	firstPause = 25 * time.Millisecond
	lastPause  = 400 * time.Millisecond
	// connectTimeout bounds one attempt to connect to a container on this
	// machine.
	connectTimeout = time.Second
)

// awaitReady waits until the instance is healthy or, without a health check,
// accepts connections on its port, and fetches its log so far.
func (in *instance) awaitReady(ctx context.Context) error {
	var err error
	switch {
	case in.service.Health != nil:
		err = in.awaitHealthy(ctx, *in.service.Health)
	case in.listensOn() != 0:
		err = in.awaitPort(ctx)
	}
	if err != nil {
		return err
	}
	in.setReady()
	if _, err := in.fetchLog(ctx); err != nil && ctx.Err() == nil {
		in.run.warnf("%s: %v", in.name, err)
	}
	return nil
}

func (in *instance) listensOn() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.port
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
		in.name, h.Within, strings.Join(h.Command, " "), last, in.lastLines(ctx))
}

func (in *instance) awaitPort(ctx context.Context) error {
	address := net.JoinHostPort(in.describe().Host, strconv.Itoa(in.listensOn()))
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
	return fmt.Errorf("%s accepts no connection on %s after %v; let it listen on ${BIND_HOST:-0.0.0.0}, or give it a healthcheck that says when it is ready%s",
		in.name, address, within, in.lastLines(ctx))
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
		return false, l.err // the watch reports why; its error is the one to show
	}
	return ok, nil
}

// check runs the health check once, for as long as its timeout. One that hangs
// goes on in its container, as with Docker: it has no way to end it.
func (in *instance) check(ctx context.Context, h topology.HealthCheck) error {
	bounded, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	var out bytes.Buffer
	argv := slices.Concat([]string{in.run.docker.docker, "exec", in.id}, h.Command)
	err := in.run.docker.run(bounded, call{argv: argv, within: h.Timeout, out: &out, both: true})
	said := strings.TrimSpace(out.String())
	switch {
	case err == nil:
		return nil
	case bounded.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("took more than %v", h.Timeout)
	case said == "":
		said = "nothing"
	}
	if failed, ok := errors.AsType[*Error](err); ok && failed.cause != nil {
		err = failed.cause // the status
	}
	return fmt.Errorf("failed (%w) and said: %.2000s", err, said)
}
