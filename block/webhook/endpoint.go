package webhook

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"loadstone/block/pause"
)

// endpoint is one endpoint as one sender knows it. One goroutine uses it; behind is for
// metrics as well.
type endpoint struct {
	to      Endpoint
	cfg     Config
	client  *http.Client
	metrics *metrics
	behind  atomic.Int64 // place.Since, in nanoseconds since 1970

	me    string
	holds bool
	place place
	text  []byte    // the place as it is stored
	dirty bool      // place is newer
	wrote time.Time // when text began to be written by this sender
	seen  []byte    // the place of another sender,
	first time.Time // and since when it has not changed

	batch []waiting // neither delivered nor given up, with what was behind them in the log
	pause time.Duration
	rest  time.Time // until when nothing is to be done
}

// place is how far an endpoint is, and who sends to it.
type place struct {
	// Cursor is behind the last message that needs no sending any more.
	Cursor []byte `json:"cursor"`
	// Since: whatever is older was sent, or is told of as a gap.
	Since time.Time `json:"since"`
	// Gap is since when messages may be missing of which the endpoint was not told yet.
	Gap time.Time `json:"gap,omitzero"`
	// Sender is empty when the last one has stopped.
	Sender string `json:"sender,omitempty"`
	// Beat makes each text another.
	Beat int64 `json:"beat"`
}

func newEndpoint(to Endpoint, cfg Config, m *metrics) *endpoint {
	e := &endpoint{to: to, cfg: cfg, client: newClient(cfg), metrics: m, me: rand.Text()}
	e.behind.Store(time.Now().UnixNano())
	m.watch(to.Name, func() float64 { return max(0, time.Since(time.Unix(0, e.behind.Load())).Seconds()) })
	return e
}

// stopTimeout bounds leaving the place: who cannot, is waited for as if it had been killed.
const stopTimeout = 2 * time.Second

func (e *endpoint) run(ctx context.Context) {
	defer e.client.CloseIdleConnections()
	for ctx.Err() == nil {
		err := e.step(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		// Whose the place is, and what it says, has to be looked up again.
		e.holds, e.batch = false, nil
		if !errors.Is(err, ErrTaken) {
			e.cfg.Failed(e.to.Name, err)
		}
		pause.For(ctx, e.cfg.Poll)
	}
	if e.holds {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		e.place.Sender = ""
		_ = e.save(ctx)
	}
}

// step does what is to be done next. Its error says that the place may be another's.
func (e *endpoint) step(ctx context.Context) error {
	now, renew := time.Now(), e.wrote.Add(e.cfg.Lease/3)
	switch {
	case !e.holds:
		return e.take(ctx)
	case e.dirty || !now.Before(renew):
		return e.save(ctx)
	case now.Before(e.rest):
		pause.For(ctx, min(e.rest.Sub(now), renew.Sub(now)))
	case len(e.batch) == 0:
		return e.read(ctx)
	default:
		e.send(ctx, renew)
	}
	return nil
}

var errStore = errors.New("the store did not answer in time")

// storeContext bounds what is asked of the store: later the place has to be written anyway.
func (e *endpoint) storeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, e.cfg.Lease/3, errStore)
}

// take makes this sender the one of the endpoint, if there is none.
func (e *endpoint) take(ctx context.Context) error {
	limited, cancel := e.storeContext(ctx)
	defer cancel()
	text, err := e.cfg.Places.Load(limited, e.to.Name)
	if err != nil {
		return fmt.Errorf("load the place of endpoint %s: %w", e.to.Name, err)
	}
	e.text, e.place = text, place{}
	switch {
	case text == nil: // a new endpoint is told of what is new
		cursor, err := e.cfg.Source.End(limited)
		if err != nil {
			return fmt.Errorf("find the end of the log: %w", err)
		}
		e.place = place{Cursor: []byte(cursor), Since: time.Now().UTC()}
	case json.Unmarshal(text, &e.place) != nil: // all that is kept is sent again, after a gap
		e.place = place{Since: time.Unix(0, 0).UTC()}
		e.cfg.Failed(e.to.Name, fmt.Errorf("the place of endpoint %s is damaged", e.to.Name))
	}
	e.behind.Store(e.place.Since.UnixNano())
	if e.place.Sender != "" && e.place.Sender != e.me {
		if !bytes.Equal(text, e.seen) {
			e.seen, e.first = text, time.Now()
		}
		if time.Since(e.first) < e.cfg.Lease {
			pause.For(ctx, e.cfg.Poll)
			return nil
		}
	}
	e.place.Sender = e.me
	return e.save(ctx)
}

// save writes the place, and with it that this sender goes on.
func (e *endpoint) save(ctx context.Context) error {
	ctx, cancel := e.storeContext(ctx)
	defer cancel()
	began := time.Now()
	e.place.Beat++
	text, err := json.Marshal(e.place)
	if err == nil {
		err = e.cfg.Places.Swap(ctx, e.to.Name, e.text, text)
	}
	if err != nil {
		return fmt.Errorf("write the place of endpoint %s: %w", e.to.Name, err)
	}
	e.text, e.wrote, e.holds, e.dirty = text, began, true, false
	return nil
}

// read takes the next messages from the log.
func (e *endpoint) read(ctx context.Context) error {
	now := time.Now().UTC()
	// A little earlier than they are lost: clocks differ.
	if kept := now.Add(e.cfg.Kept/1000 - e.cfg.Kept); e.place.Since.Before(kept) {
		e.missing(e.place.Since)
		e.advance(kept)
		return nil
	}
	if !e.place.Gap.IsZero() {
		e.batch = []waiting{gapMessage(e.place.Gap)}
		return nil
	}
	ctx, cancel := e.storeContext(ctx)
	defer cancel()
	messages, err := e.cfg.Source.After(ctx, string(e.place.Cursor), e.cfg.Batch)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if len(messages) == 0 {
		e.advance(now)
		e.rest = now.Add(e.cfg.Poll)
		return nil
	}
	e.advance(messages[0].At)
	newest := make(map[string]int, len(messages))
	for i, m := range messages {
		if before, ok := newest[m.Key]; ok {
			e.batch[before].done = true
			e.metrics.skipped.WithLabelValues(e.to.Name, merged).Inc()
		}
		newest[m.Key] = i
		e.batch = append(e.batch, waiting{Message: m})
	}
	return nil
}

// missing notes that messages since the time may be lost.
func (e *endpoint) missing(since time.Time) {
	if e.place.Gap.IsZero() || since.Before(e.place.Gap) {
		e.place.Gap = since.UTC()
	}
	e.dirty = true
}

// advance notes that whatever is older than at was sent. It never goes back, so a gap is
// told once, however clocks differ.
func (e *endpoint) advance(at time.Time) {
	if at.After(e.place.Since) {
		e.place.Since = at.UTC()
		e.behind.Store(at.UnixNano())
	}
}
