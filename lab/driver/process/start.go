package process

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
	return driver.Instance{Start: in.start, Ready: ready, Stop: in.stop}
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
