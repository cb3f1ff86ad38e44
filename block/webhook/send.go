package webhook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// waiting is a message of a batch.
type waiting struct {
	Message
	gap     bool
	done    bool
	refused time.Time // at first
}

// Timestamp is a time as bodies of messages have it, in UTC and to the millisecond.
func Timestamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

func gapMessage(since time.Time) waiting {
	return waiting{gap: true, Message: Message{
		ID: fmt.Sprintf("gap_%d", since.UnixMilli()), At: since,
		Body: fmt.Appendf(nil, `{"type":"gap","timestamp":"%s","since":"%s"}`, Timestamp(time.Now()), Timestamp(since)),
	}}
}

var errLease = errors.New("another sender may take over")

// round is what the tries of one call of send share.
type round struct {
	mu    sync.Mutex
	batch []waiting // not handed out yet
	worst *failure
}

// send sends what waits until the place has to be written again, or the endpoint does not take
// messages now. All keys of a batch that wait are different, so their order is free.
func (e *endpoint) send(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithDeadlineCause(ctx, e.wrote.Add(e.cfg.Lease), errLease)
	defer cancel()
	workers := e.cfg.Parallel
	if e.pause > 0 { // it failed, and one try shows whether it still does
		workers = 1
	}
	r := &round{batch: e.batch}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for w := r.next(); w != nil && time.Now().Before(until); w = r.next() {
				e.attempt(ctx, w, r)
			}
		})
	}
	all.Wait()
	e.settle()
	switch now := time.Now(); {
	case ctx.Err() != nil: // whether the endpoint is well is not known
	case r.worst == nil:
		e.pause = 0
	case r.worst.outcome == gone:
		const forever = 10 * 365 * 24 * time.Hour
		e.rest = now.Add(forever)
		e.cfg.Failed(e.to.Name, fmt.Errorf("endpoint %s wants no more messages (410) and gets none until the senders are started anew", e.to.Name))
	default:
		e.pause = min(max(2*e.pause, e.cfg.First), e.cfg.Most)
		e.rest = now.Add(max(e.pause/2+rand.N(e.pause/2+1), min(r.worst.wait, e.cfg.MostRetryAfter)))
		e.cfg.Failed(e.to.Name, fmt.Errorf("send to endpoint %s: %w", e.to.Name, r.worst.err))
	}
}

// next hands out a message that waits; nil if there is none, or if all have to wait.
func (r *round) next() *waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.worst == nil || r.worst.outcome == refused {
		if len(r.batch) == 0 {
			break
		}
		w := &r.batch[0]
		r.batch = r.batch[1:]
		if !w.done {
			return w
		}
	}
	return nil
}

// attempt tries one message and notes what came of it.
func (e *endpoint) attempt(ctx context.Context, w *waiting, r *round) {
	began := time.Now()
	failed := e.try(ctx, &w.Message)
	if failed == nil {
		w.done = true
		e.metrics.attempt.WithLabelValues(e.to.Name, delivered).Observe(time.Since(began).Seconds())
		return
	}
	if ctx.Err() != nil { // it was stopped, and did not fail
		return
	}
	e.metrics.attempt.WithLabelValues(e.to.Name, failed.outcome).Observe(time.Since(began).Seconds())
	if failed.outcome == refused && w.refused.IsZero() {
		w.refused = began
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.worst == nil || r.worst.outcome == refused || failed.outcome == gone {
		r.worst = failed
	}
}

// settle gives up what was refused too long, and moves the place behind what is done.
func (e *endpoint) settle() {
	for i := range e.batch {
		w := &e.batch[i]
		if !w.done && !w.refused.IsZero() && time.Since(w.refused) > e.cfg.Patience {
			w.done = true
			e.metrics.skipped.WithLabelValues(e.to.Name, givenUp).Inc()
			e.cfg.Failed(e.to.Name, fmt.Errorf("endpoint %s refused message %s for %v; it is given up", e.to.Name, w.ID, e.cfg.Patience))
			if !w.gap {
				e.missing(w.At)
			}
		}
	}
	for ; len(e.batch) > 0 && e.batch[0].done; e.batch = e.batch[1:] {
		e.dirty = true
		if e.batch[0].gap {
			e.place.Gap = time.Time{}
			continue
		}
		e.place.Cursor = []byte(e.batch[0].Cursor)
		e.advance(e.batch[0].At)
	}
	if len(e.batch) > 0 {
		e.advance(e.batch[0].At)
	}
}

// newClient returns the client of one endpoint. Who asks for a redirect is not followed.
func newClient(cfg Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			MaxConnsPerHost: cfg.Parallel, MaxIdleConnsPerHost: cfg.Parallel, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: 16 << 10, DisableCompression: true, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
