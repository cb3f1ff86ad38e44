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
