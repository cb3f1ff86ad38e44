package load

import "time"

// clock is the time of one run of a plan: monotonic, counted from the moment
// at which the load began. The wall clock is read once, then.
type clock struct{ epoch time.Time }

// now is the time since the load began.
func (c *clock) now() time.Duration { return time.Since(c.epoch) }

// wall is the wall-clock time of an offset.
func (c *clock) wall(t time.Duration) time.Time { return c.epoch.Add(t) }
