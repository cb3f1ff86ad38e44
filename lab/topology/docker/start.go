package docker

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"loadstone/lab/topology"
)

// startAll starts all services side by side; each waits for those that it
// depends on. The first failure ends the others' waiting.
func (r *Running) startAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, service := range r.config.System.Services {
		st := r.states[service.Name]
		g.Go(func() error { return r.startService(ctx, st) })
	}
	err := g.Wait()
	// An instance that ended is the cause of whatever else went wrong then.
	select {
	case cause := <-r.failed:
		return cause
	default:
		return err
	}
}

func (r *Running) startService(ctx context.Context, st *state) error {
	for _, d := range st.service.DependsOn {
		if err := r.await(ctx, d); err != nil {
			return err
		}
	}
	if f := r.config.Progress.Starting; f != nil {
		f(st.service.Name)
	}
	for _, in := range st.instances {
		if err := in.start(ctx); err != nil {
			return fmt.Errorf("start %s: %w", in.name, err)
		}
	}
	close(st.started)
	wait := (*instance).awaitReady
	if st.service.Job {
		wait = (*instance).awaitCompleted
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, in := range st.instances {
		g.Go(func() error { return wait(in, ctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if f := r.config.Progress.Ready; f != nil {
		f(st.service.Name)
	}
	close(st.healthy)
	if st.service.Job {
		close(st.completed)
	}
	return nil
}

// await blocks until a dependency is as far as its condition wants. A job is
// healthy when it has completed: it has nothing better to show.
func (r *Running) await(ctx context.Context, d topology.Dependency) error {
	st := r.states[d.Service]
	reached := st.started
	switch d.Condition {
	case topology.Healthy:
		reached = st.healthy
	case topology.Completed:
		reached = st.completed
	}
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for service %s: %w", d.Service, context.Cause(ctx))
	}
}

// awaitCompleted waits for a job's end. It may take as long as it takes: a
// seeder's time depends on what it seeds, and the user can see and stop it.
func (in *instance) awaitCompleted(ctx context.Context) error {
	l := in.current()
	select {
	case <-l.exited:
		if l.err == nil {
			in.setReady()
		}
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s to complete: %w", in.name, context.Cause(ctx))
	}
}
