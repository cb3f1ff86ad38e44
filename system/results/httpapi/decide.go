package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

// Decide decides as for GET /student/{id}, with the same limits, counters and time,
// for whoever shows a student's page in another form. ctx is the client's request,
// for its address; code is valid during the call only.
func (a *API) Decide(ctx *fasthttp.RequestCtx, id int64, code []byte) results.Decision {
	who, wait := a.identify(ctx)
	if wait > 0 {
		return a.refused(results.ErrRateLimited, wait)
	}
	if !a.locked {
		code = nil
	}
	return a.decide(id, code, who)
}

// Opens returns the instant from which on results are served; one that has passed
// if they are.
func (a *API) Opens() time.Time {
	if a.embargo == nil || a.embargo.over.Load() {
		return time.Time{}
	}
	return a.embargo.until
}

// decide is the one place where it is decided who may see what.
func (a *API) decide(id int64, given []byte, who caller) results.Decision {
	if a.embargo != nil {
		if wait := a.embargo.wait(who.now); wait > 0 {
			return a.refused(results.ErrEmbargoed, wait)
		}
	}
	if a.locked && len(given) == 0 {
		// No try, so nobody counts it: were the store asked, anybody could time
		// its answers as often as it takes to tell which ids exist.
		return results.Decision{Err: results.ErrNotFound}
	}
	if wait := a.lockoutRemaining(id, given, who); wait > 0 {
		return a.refused(results.ErrLockedOut, wait)
	}
	began := a.begin()
	// No deadline: it would cost every look-up an allocation and a timer, and
	// a mapped file answers in microseconds. A store whose answers come over a
	// network bounds its look-ups itself. No more can wait for one than there
	// are connections to this server.
	page, err := a.store.Lookup(context.Background(), id)
	if err != nil && !errors.Is(err, results.ErrNotFound) {
		return a.failed(err)
	}
	found := err == nil
	if a.locked {
		stored := page.Code
		if !found {
			stored = nobodysCode
		}
		// Not short-circuited: the comparison runs for unknown ids as well.
		opens := codeOpens(given, stored)
		found = found && opens
		if wait := a.recordCode(id, given, found, who); wait > 0 {
			return a.refused(results.ErrLockedOut, wait)
		}
	}
	if found {
		return results.Decision{Page: page}
	}
	if !began.IsZero() {
		sleepUntil(began.Add(a.notFoundAfter))
	}
	return results.Decision{Err: results.ErrNotFound}
}

// begin is when a look-up begins, if it matters when.
func (a *API) begin() (began time.Time) {
	if a.locked && a.notFoundAfter > 0 {
		began = time.Now()
	}
	return began
}

// refused counts a refusal.
func (a *API) refused(why *results.Error, wait time.Duration) results.Decision {
	a.metrics.refused[why].Inc()
	return results.Decision{Err: why, RetryAfter: wait}
}

// failed counts a look-up that the store did not answer, and logs the store's
// failures, but not that it is busy, which is its counter's to say.
func (a *API) failed(err error) results.Decision {
	if busy, ok := errors.AsType[*results.BusyError](err); ok {
		return a.refused(results.ErrOverloaded, max(busy.RetryAfter, 1))
	}
	a.metrics.failures.Inc()
	a.failures.Log("error", err)
	return results.Decision{Err: results.ErrUnavailable}
}
