package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/driver/process"
)

// settleWithin bounds the wait for the news of an end after `docker stop` has
// said that it has come, the fetching of a log of some MB included.
const settleWithin = 20 * time.Second

// Down stops everything and removes the containers, the network and the unnamed
// volumes. Services stop in reverse dependency order, so that none loses what it
// depends on while it still works: each gets its stop signal and its grace
// period, then SIGKILL.
//
// When ctx ends, what still runs is killed at once; it is removed nevertheless.
// A Start that is under way then is cut short.
// Down is called from anywhere and as often as one likes: only the first call
// works, the others wait for it and return what it returned.
func (r *Running) Down(ctx context.Context) error {
	r.down.Do(func() {
		r.acts.End()
		r.downErr = errors.Join(r.order.Stop(ctx), r.cleanUp(ctx))
	})
	return r.downErr
}

// stop asks the container to end, gives it the time that its service grants,
// and kills it. When ctx ends, there is no more time: cleanUp kills it.
func (in *instance) stop(ctx context.Context) error {
	if in.run.watched == nil || !in.isStarted() {
		return nil
	}
	l := in.current()
	if l.hasEnded() {
		return nil
	}
	// Docker counts in seconds.
	grace := max(time.Second, (in.service.StopGrace + time.Second - 1).Truncate(time.Second))
	argv := []string{in.run.docker.docker, "stop", "--time", strconv.FormatFloat(grace.Seconds(), 'f', 0, 64), in.id}
	err := in.run.docker.run(ctx, call{argv: argv, within: grace + quickWithin})
	switch {
	case err != nil && (ctx.Err() != nil || isGone(err)):
		return nil // there is no time, or nothing to stop
	case err != nil:
		return err
	}
	settled := time.NewTimer(settleWithin)
	defer settled.Stop()
	select {
	case <-l.exited:
	case <-in.run.watched:
		return nil
	case <-settled.C:
		return nil // one that was never really started has no end
	}
	if e, ok := errors.AsType[*process.ExitError](l.err); ok && e.Status == "was killed by SIGKILL" && e.Memory == 0 {
		in.run.warnf("%s did not end within %v of its stop signal and was killed", in.name, grace)
	}
	return nil
}

// cleanUp undoes prepare, in reverse. It does not give up half-way and not when
// ctx ends; every step bounds itself.
func (r *Running) cleanUp(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if r.watched != nil {
		r.unwatch()
		<-r.watched
	}
	for _, in := range r.instances {
		in.mu.Lock()
		if in.group != nil {
			errs = append(errs, in.group.Close())
		}
		in.mu.Unlock()
	}
	var errClean error
	if r.guard != nil {
		left := guardian.Left{Mark: r.name, ProcRoot: r.config.ProcRoot, Removals: []guardian.Command{r.docker.removal(r.name)}}
		if r.dir != "" {
			left.Dirs = []string{r.dir}
		}
		if errClean = left.Clean(ctx); errClean != nil {
			errs = append(errs, fmt.Errorf("remove the containers: %w", errClean), r.guard.Leave()) // it may have more luck
		} else {
			errs = append(errs, r.guard.Done())
		}
	}
	if r.failed != nil {
		close(r.failed)
	}
	return errors.Join(errs...)
}
