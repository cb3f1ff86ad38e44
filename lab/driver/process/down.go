package process

import (
	"context"
	"errors"
	"fmt"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/cgroup"
)

// CleanUp is for Core.
func (r *Running) CleanUp(ctx context.Context) error {
	r.waits.Wait()
	var errs []error
	left := guardian.Left{Mark: r.name, ProcRoot: r.config.ProcRoot}
	for _, in := range r.instances {
		if in.group != nil {
			errs = append(errs, in.group.Close())
		}
		if l := in.Life(); l != nil && l.Process.PID > 1 { // else it ended before it could be identified
			left.Groups = append(left.Groups, l.Process)
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
		r.starter.Close()
	}
	if r.network != nil {
		errs = append(errs, r.network.Close())
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
	return errors.Join(errs...)
}
