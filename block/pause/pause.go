// Package pause is waiting that a context ends.
package pause

import (
	"context"
	"time"
)

// For waits for d and reports whether ctx lets the caller go on; it returns at once when ctx
// ends.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// AtMost does what may wait for others until its ctx ends, which it does after most, and calls tell, once, if it has
// waited for quiet: from another goroutine.
func AtMost(ctx context.Context, most, quiet time.Duration, tell func(), do func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	told := time.AfterFunc(quiet, tell)
	defer told.Stop()
	return do(ctx)
}
