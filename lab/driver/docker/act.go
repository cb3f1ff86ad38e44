package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/lab/driver"
)

// settleWithin bounds the wait for the news of an end after a command has
// said that it has come, the fetching of a log of some MB included. A daemon that takes longer hangs.
const settleWithin = time.Minute

// limitCPU has Docker change the container, which keeps it when it is started again.
func (in *instance) limitCPU(ctx context.Context) error {
	if !in.run.engine.LimitsCPU {
		return nil
	}
	_, err := in.run.docker.quick(ctx, "update", "--cpus", strconv.FormatFloat(*in.Service.Limits.CPUs, 'f', -1, 64), in.id)
	return err
}

// Stop asks the container to end, gives it the time that its service grants,
// and kills it.
func (in *instance) Stop(ctx context.Context, l *driver.Life) error {
	// Docker counts in seconds.
	grace := max(time.Second, (in.Service.StopGrace + time.Second - 1).Truncate(time.Second))
	argv := []string{in.run.docker.docker, "stop", "--time", strconv.FormatFloat(grace.Seconds(), 'f', 0, 64), in.id}
	err := in.run.docker.run(ctx, call{argv: argv, within: grace + quickWithin})
	switch {
	case err != nil && ctx.Err() != nil: // there is no time
		return in.Kill(context.WithoutCancel(ctx), l)
	case err != nil && !isGone(err):
		return err
	}
	if !in.settle(l) {
		return nil
	}
	if e, ok := errors.AsType[*driver.ExitError](l.Err()); ok && e.Killed() && e.Memory == 0 {
		in.run.Warnf("%s did not end within %v of its stop signal and was killed", in.Name, grace)
	}
	return nil
}

// Kill has Docker kill the container.
func (in *instance) Kill(ctx context.Context, l *driver.Life) error {
	// Not cut short, as nobody could say what became of it then.
	_, err := in.run.docker.quick(context.WithoutCancel(ctx), "kill", in.id)
	if err != nil && !isGone(err) {
		return err
	}
	in.settle(l)
	return nil
}

// settle waits for the news of an end. One that was never really started has none.
func (in *instance) settle(l *driver.Life) (ended bool) {
	settled := time.NewTimer(settleWithin)
	defer settled.Stop()
	select {
	case <-l.Exited():
	case <-in.run.watched:
	case <-settled.C:
	}
	return l.HasEnded()
}

// Pause has Docker freeze the container.
func (in *instance) Pause(ctx context.Context, _ *driver.Life) error {
	_, err := in.run.docker.quick(context.WithoutCancel(ctx), "pause", in.id)
	return err
}

// Resume does nothing to a container that is not paused.
func (in *instance) Resume(ctx context.Context, _ *driver.Life) error {
	_, err := in.run.docker.quick(context.WithoutCancel(ctx), "unpause", in.id)
	if e, ok := errors.AsType[*Error](err); ok && strings.Contains(e.Said, "is not paused") {
		return nil
	}
	return err
}

// Run runs a command in the container. One that takes too long goes on in its
// container, as a health check of Docker's does: it has no way to end it.
func (in *instance) Run(ctx context.Context, argv []string, within time.Duration) (said string, err error) {
	bounded, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var out driver.Tail
	command := slices.Concat([]string{in.run.docker.docker, "exec", in.id}, argv)
	err = in.run.docker.run(bounded, call{argv: command, within: within, out: &out, both: true})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return out.String(), fmt.Errorf("took more than %v", within)
	}
	if failed, ok := errors.AsType[*Error](err); ok && failed.cause != nil {
		err = failed.cause // the status
	}
	return out.String(), err
}
