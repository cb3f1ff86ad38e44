package docker

import (
	"context"
	"fmt"

	"loadstone/lab/driver"
)

// startAll starts all services in their order.
func (r *Running) startAll(ctx context.Context) error {
	err := r.order.Start(ctx, r.config.Progress)
	// An instance that ended is the cause of whatever else went wrong then.
	select {
	case cause := <-r.failed:
		return cause
	default:
		return err
	}
}

// ordered is the instance as package order starts and stops it.
func (in *instance) ordered() driver.Instance {
	ready := in.awaitReady
	if in.service.Job {
		ready = in.awaitCompleted
	}
	named := func(what string, do func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := do(ctx); err != nil {
				return fmt.Errorf("%s %s: %w", what, in.name, err)
			}
			return nil
		}
	}
	return driver.Instance{Start: named("start", in.start), Ready: ready, Stop: named("stop", in.stop)}
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
