package perturb

import (
	"context"
	"errors"
)

// Share is the knob of the CPU that a component's instances may use; limit changes
// that of one of them.
func Share(component string, instances []string, limit func(ctx context.Context, instance string, factor float64) error) Knob {
	return Knob{
		Target: Target{Component: component, Resource: CPU},
		Set: func(ctx context.Context, factor float64) error {
			var errs []error
			for _, name := range instances {
				errs = append(errs, limit(ctx, name, factor))
			}
			return errors.Join(errs...)
		},
	}
}
