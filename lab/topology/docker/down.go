package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"loadstone/lab/topology/process"
	"loadstone/lab/topology/process/guardian"
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
		r.stopActs()
		r.downErr = errors.Join(r.stopAll(ctx), r.cleanUp(ctx))
	})
	return r.downErr
}

func (r *Running) stopAll(ctx context.Context) error {
	stopped := map[string]chan struct{}{}
	dependents := map[string][]string{}
	for name, st := range r.states {
		stopped[name] = make(chan struct{})
		for _, d := range st.service.DependsOn {
			dependents[d.Service] = append(dependents[d.Service], name)
		}
	}
	var g errgroup.Group // without a context: one that fails must not keep others from stopping
	for name, st := range r.states {
		g.Go(func() error {
			defer close(stopped[name])
			for _, d := range dependents[name] {
				<-stopped[d]
			}
			return stopInstances(ctx, st)
		})
	}
	return g.Wait()
}

func stopInstances(ctx context.Context, st *state) error {
	var g errgroup.Group
	for _, in := range st.instances {
		g.Go(func() error {
			if err := in.stop(ctx); err != nil {
				return fmt.Errorf("stop %s: %w", in.name, err)
			}
			return nil
		})
	}
	return g.Wait()
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
