package httpapi

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
	"loadstone/system/results/httpapi/guard"
)

// Decide decides as for GET /student/{id}, with the same counters and time, for whoever
// shows a student's page in another form, after Admit. ctx is the client's request, for
// its address; code is valid during the call only.
func (a *API) Decide(ctx *fasthttp.RequestCtx, id int64, code []byte) results.Decision {
	if !a.locked {
		code = nil
	}
	return a.decide(id, code, a.identify(ctx))
}

// Publication is Config.Publication, for whoever shows pages beside this interface.
func (a *API) Publication() results.Publication { return a.publication() }

// decide is the one place where it is decided who may see what.
func (a *API) decide(id int64, given []byte, who caller) results.Decision {
	if p := a.publication(); !p.Out {
		return a.embargoed(p)
	}
	if a.locked {
		return a.decideCode(id, given, who)
	}
	// No deadline: it would cost every look-up an allocation and a timer, and
	// a snapshot answers in microseconds. A store whose answers come over a
	// network bounds its look-ups itself. No more can wait for one than there
	// are connections to this server.
	page, err := a.store.Lookup(context.Background(), id)
	switch p := a.publication(); {
	case !p.Out:
		return a.embargoed(p)
	case err == nil:
		return results.Decision{Page: page}
	case errors.Is(err, results.ErrNotFound):
		return results.Decision{Err: results.ErrNotFound}
	}
	return a.failed(err)
}

// decideCode decides for who gives a code.
func (a *API) decideCode(id int64, given []byte, who caller) results.Decision {
	if len(given) == 0 {
		// No try, so nobody counts it: were the store asked, anybody could time
		// its answers as often as it takes to tell which ids exist.
		return results.Decision{Err: results.ErrNotFound}
	}
	arrived := time.Now()
	try, wait := a.try(id, who, arrived)
	if wait > 0 {
		return a.refused(results.ErrLockedOut, wait)
	}
	ctx, crowded := context.Background(), a.refusals.waiting.Load() >= maxWaiting
	if crowded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, arrived.Add(a.refusals.least))
		defer cancel()
	}
	page, err := a.store.Lookup(ctx, id) // without a deadline, as above
	stored := page.Code
	if err != nil {
		stored = nobodysCode
	}
	// Not short-circuited: the comparison runs for unknown ids as well.
	opens := results.CodeOpens(given, stored)
	// Again, for the page may be from a data set that has just taken the place of one
	// that was out.
	if p := a.publication(); !p.Out {
		return a.embargoed(p)
	}
	if opens && err == nil {
		if a.guard != nil {
			a.guard.Opened(try)
		}
		return results.Decision{Page: page}
	}
	if !crowded {
		now := time.Now()
		a.refusals.looked(now, now.Sub(arrived), a.trouble(err))
	}
	d := a.refusals.refuse(arrived, crowded)
	if a.guard != nil {
		if wait := a.guard.Refused(try, a.now()); wait > 0 {
			return a.refused(results.ErrLockedOut, wait)
		}
	}
	return d
}

// try counts a try of a code and returns how long the caller must wait before it is
// looked at; 0 if it is now.
func (a *API) try(id int64, who caller, now time.Time) (try guard.Try, wait time.Duration) {
	if a.guard == nil {
		return try, 0
	}
	return a.guard.Try(id, who.from, who.now, a.refusals.troubled(now))
}

// embargoed refuses whoever asks before results are out.
func (a *API) embargoed(p results.Publication) results.Decision {
	if p.At.IsZero() { // the store has not answered yet
		return results.Decision{Err: results.ErrUnavailable}
	}
	d := a.refused(results.ErrEmbargoed, max(p.Left, 1))
	d.PublishAt = p.At
	return d
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
