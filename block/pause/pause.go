// Package pause is waiting that a context ends.
package pause

import (
	"context"
	"fmt"
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

// AtStart opens what a start waits for, until its ctx ends, which it does after most. It tells failed, once and from another
// goroutine, if it has waited for longer than others take that start at the same time.
func AtStart(ctx context.Context, what string, most time.Duration, failed func(error), open func(ctx context.Context) error) error {
	const quiet = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	told := time.AfterFunc(quiet, func() {
		failed(fmt.Errorf("%s does not answer yet, and the start waits for it for %v at most", what, most))
	})
	defer told.Stop()
	return open(ctx)
}
