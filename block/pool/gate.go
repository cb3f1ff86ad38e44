package pool

import (
	"context"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
)

// gate gives out places. leave gives one back, once; ran says whether the job was
// begun, so that its time counts.
type gate interface {
	// try does not wait.
	try() (leave func(ran bool), ok bool)
	// wait waits in order of arrival until ctx ends, and returns its error then.
	wait(ctx context.Context) (leave func(ran bool), err error)
	// places is how many there are at most now.
	places() int
}

func newGate(cfg Config) gate {
	if !cfg.Adaptive {
		return make(fixed, cfg.Workers+cfg.Queue)
	}
	least, most := uint(cfg.Workers), uint(cfg.Workers+cfg.Queue)
	return adaptive{adaptivelimiter.NewBuilder[any]().
		WithLimits(least, most, most).
		// Overload comes within a second. A quantile of fewer jobs is chance.
		WithRecentWindow(adaptEvery, adaptAtLeast, adaptJobs).
		Build()}
}

// The pace of adapting: a decision after adaptEvery with adaptJobs jobs, or later;
// jobs so slow that twice their time is longer are waited for up to adaptAtLeast.
const (
	adaptEvery   = 250 * time.Millisecond
	adaptAtLeast = 5 * time.Second
	adaptJobs    = 20
)

// fixed is a number of places that does not change.
type fixed chan struct{}

func (f fixed) try() (func(bool), bool) {
	select {
	case f <- struct{}{}:
		return f.leave, true
	default:
		return nil, false
	}
}

func (f fixed) wait(ctx context.Context) (func(bool), error) {
	select {
	case f <- struct{}{}:
		return f.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f fixed) leave(bool)  { <-f }
func (f fixed) places() int { return cap(f) }

// adaptive is a number of places that follows the jobs' times.
type adaptive struct {
	limiter adaptivelimiter.AdaptiveLimiter[any]
}

func (a adaptive) try() (func(bool), bool) {
	permit, ok := a.limiter.TryAcquirePermit()
	if !ok {
		return nil, false
	}
	return leaveWith(permit), true
}

func (a adaptive) wait(ctx context.Context) (func(bool), error) {
	permit, err := a.limiter.AcquirePermit(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for a place: %w", err)
	}
	return leaveWith(permit), nil
}

func (a adaptive) places() int { return a.limiter.Limit() }

func leaveWith(permit adaptivelimiter.Permit) func(bool) {
	return func(ran bool) {
		if ran {
			permit.Record()
		} else {
			permit.Drop() // its time says nothing
		}
	}
}
