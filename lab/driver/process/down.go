package process

import (
	"context"
	"errors"
	"fmt"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
)

// Down stops everything and removes the control groups. Services stop in
// reverse dependency order, so that none loses what it depends on while it
// still works: each gets its stop signal and its grace period, then SIGKILL.
//
// When ctx ends, what still runs is killed at once; it is removed nevertheless.
// Whatever Kill, Stop, Start, Pause, Resume and Exec are doing then is cut short:
// an instance that is being stopped is killed.
// Down is called from anywhere and as often as one likes: only the first call
// works, the others wait for it and return what it returned.
func (r *Running) Down(ctx context.Context) error {
	r.down.Do(func() {
		r.acts.End()
		r.downErr = errors.Join(r.order.Stop(ctx), r.cleanUp(ctx))
	})
	return r.downErr
}

// cleanUp undoes prepare, in reverse. It does not give up half-way and not when
// ctx ends; every step bounds itself.
func (r *Running) cleanUp(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	r.waits.Wait()
	var errs []error
	left := guardian.Left{Mark: r.name, ProcRoot: r.config.ProcRoot}
	for _, in := range r.instances {
		if in.group != nil {
			errs = append(errs, in.group.Close())
		}
		if l := in.current(); l != nil && l.process.PID > 1 { // else it ended before it could be identified
			left.Groups = append(left.Groups, l.process)
		}
	}
	if r.checks != nil {
		errs = append(errs, r.checks.Close())
	}
	if r.dir != "" {
		left.Dirs = []string{r.dir}
	}
	if r.tree != nil {
		left.Cgroups = []cgroup.Paths{r.tree.Paths(r.name)}
	}
	errClean := left.Clean(ctx)
	if errClean != nil {
		errs = append(errs, fmt.Errorf("stop the system: %w", errClean))
	}
	if r.starter != nil {
		r.starter.close()
	}
	switch {
	case r.guard == nil:
	case errClean != nil:
		errs = append(errs, r.guard.Leave()) // it may have more luck
	default:
		errs = append(errs, r.guard.Done())
	}
	if r.claim != nil {
		errs = append(errs, r.claim.file.Close())
	}
	if r.failed != nil {
		close(r.failed)
	}
	return errors.Join(errs...)
}
