package engine

import (
	"sync/atomic"
	"time"
)

// clock is the time of one run of a plan: monotonic, counted from the moment
// at which the load began. The wall clock is read once, then.
type clock struct {
	epoch time.Time
	// shift is how long after epoch the load began: what comes before the load
	// has a clock too.
	shift atomic.Int64
}

// now is the time since the load began; before that, since the preparations
// began.
func (c *clock) now() time.Duration { return time.Since(c.epoch) - time.Duration(c.shift.Load()) }

// start begins the load now.
func (c *clock) start() { c.shift.Store(int64(time.Since(c.epoch))) }

// wall is the wall-clock time of an offset.
func (c *clock) wall(t time.Duration) time.Time {
	return c.epoch.Add(time.Duration(c.shift.Load()) + t)
}
