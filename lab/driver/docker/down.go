package docker

import (
	"context"
	"errors"
	"fmt"

	"loadstone/lab/driver/guardian"
)

// CleanUp is for Core.
func (r *Running) CleanUp(ctx context.Context) error {
	var errs []error
	if r.watched != nil {
		r.unwatch()
		<-r.watched
	}
	for _, in := range r.instances {
		errs = append(errs, in.LeaveGroup())
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
	return errors.Join(errs...)
}
