package httpapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
)

// Kind is how a look-up ended.
type Kind uint8

// The ways in which a look-up ends.
const (
	// Unavailable: the store failed.
	Unavailable Kind = iota
	// Found: the code opens the page.
	Found
	// NotFound: there is no such student, or the code is wrong.
	NotFound
	// Embargoed: results are not out yet.
	Embargoed
	// RateLimited: the address asks too often.
	RateLimited
	// LockedOut: too many wrong codes for the id came from the address.
	LockedOut
	// Overloaded: the store refused this look-up to be able to answer others.
	Overloaded
)

// Decision is what a client may see of a student.
type Decision struct {
	Kind Kind
	// Page is the student's if Kind is Found.
	Page results.Page
	// Wait is the least time to wait if Kind is Embargoed, RateLimited, LockedOut
	// or Overloaded.
	Wait time.Duration
}

// BusyError is what a store returns that refuses a look-up to be able to answer
// others. It is answered with status 503 and Retry-After, and is no failure.
type BusyError struct {
	// RetryAfter is when the refusal should be over.
	RetryAfter time.Duration
	// Err says more.
	Err error
}

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("refused for %v: %v", e.RetryAfter, e.Err) }

// Unwrap returns the reason.
func (e *BusyError) Unwrap() error { return e.Err }

// Decide decides as for GET /student/{id}, with the same limits, counters and time,
// for whoever shows a student's page in another form. ctx is the client's request,
// for its address; code is valid during the call only.
func (a *API) Decide(ctx *fasthttp.RequestCtx, id int64, code []byte) Decision {
	who, wait := a.identify(ctx)
	if wait > 0 {
		return a.refused(rateLimited, wait)
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
func (a *API) decide(id int64, given []byte, who caller) Decision {
	if a.embargo != nil {
		if wait := a.embargo.wait(who.now); wait > 0 {
			return a.refused(embargoed, wait)
		}
	}
	if a.locked && len(given) == 0 {
		// No try, so nobody counts it: were the store asked, anybody could time
		// its answers as often as it takes to tell which ids exist.
		return Decision{Kind: NotFound}
	}
	if wait := a.tries(id, given, who); wait > 0 {
		return a.refused(lockedOut, wait)
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
		if wait := a.judge(id, given, found, who); wait > 0 {
			return a.refused(lockedOut, wait)
		}
	}
	if found {
		return Decision{Kind: Found, Page: page}
	}
	if !began.IsZero() {
		sleepUntil(began.Add(a.notFoundAfter))
	}
	return Decision{Kind: NotFound}
}

// begin is when a look-up begins, if it matters when.
func (a *API) begin() (began time.Time) {
	if a.locked && a.notFoundAfter > 0 {
		began = time.Now()
	}
	return began
}

// refusals are the reasons' decisions.
var refusals = [reasons]Kind{rateLimited: RateLimited, lockedOut: LockedOut, embargoed: Embargoed, overloaded: Overloaded}

// refused counts a refusal.
func (a *API) refused(why reason, wait time.Duration) Decision {
	a.metrics.refused[why].Inc()
	return Decision{Kind: refusals[why], Wait: wait}
}

// failed counts a look-up that the store did not answer, and logs the store's
// failures, but not that it is busy, which is its counter's to say.
func (a *API) failed(err error) Decision {
	if busy, ok := errors.AsType[*BusyError](err); ok {
		return a.refused(overloaded, max(busy.RetryAfter, 1))
	}
	a.metrics.failures.Inc()
	if dropped, ok := a.failures.allow(time.Now()); ok {
		a.logger.Error("the store failed", "error", err, "dropped", dropped)
	}
	return Decision{Kind: Unavailable}
}
