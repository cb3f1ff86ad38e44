package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/httpserver"
	"loadstone/block/lifecycle"
	"loadstone/system/patterns"
	"loadstone/system/patterns/event"
)

const (
	// maxBody bounds a request: an event, or a list of some thousand ids.
	maxBody = 1 << 20
	// maxIDs bounds one question for missing events.
	maxIDs = 10_000
	// callTimeout bounds a call: the time of a transaction behind those that wait.
	callTimeout = 10 * time.Second
	retryAfter  = time.Second
)

// listen makes the server, last: nothing is accepted before all else is there.
func (s *service) listen(ctx context.Context) error {
	cfg := httpserver.DefaultConfig()
	cfg.Addr, cfg.Drain, cfg.StopTimeout, cfg.MaxBodyBytes = s.cfg.Listen, s.cfg.Drain, s.cfg.StopTimeout, maxBody
	cfg.Registerer, cfg.Handler = s.registry, s.handle
	cfg.BadRequest = func(ctx *fasthttp.RequestCtx, status int) {
		if status == fasthttp.StatusServiceUnavailable {
			patterns.Busy(ctx, retryAfter, "too_many_connections", "too many connections are open; connect again later")
			return
		}
		patterns.Fail(ctx, status, "bad_request", "this is no request that can be read")
	}
	var err error
	if s.api, err = httpserver.Listen(ctx, cfg); err != nil {
		return fmt.Errorf("serve the log of events: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "api", Run: s.api.Run, Close: s.api.Close})
	return nil
}

func (s *service) handle(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Method()) + " " + string(ctx.Path()) {
	case "POST /events":
		s.postEvent(ctx)
	case "POST /missing":
		s.postMissing(ctx)
	case "GET /healthz":
		patterns.Answer(ctx, fasthttp.StatusOK, []byte(`{"status":"alive"}`))
	case "GET /readyz":
		if s.api.Draining() || s.queue != nil && !s.queue.Ready() {
			patterns.Busy(ctx, retryAfter, "not_ready", "it stops, or has no broker")
			return
		}
		patterns.Answer(ctx, fasthttp.StatusOK, []byte(`{"status":"ready"}`))
	default:
		patterns.Fail(ctx, fasthttp.StatusNotFound, "not_found", "there are POST /events and POST /missing")
	}
}

func (s *service) postEvent(ctx *fasthttp.RequestCtx) {
	e, err := received(&ctx.Request)
	if err != nil {
		patterns.Fail(ctx, fasthttp.StatusBadRequest, "bad_event", err.Error())
		return
	}
	own, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	switch err := s.keep(own, []event.Event{e}); {
	case err == nil:
		patterns.Answer(ctx, fasthttp.StatusOK, []byte(`{"stored":true}`))
	case errors.Is(err, errConflict):
		patterns.Fail(ctx, fasthttp.StatusUnprocessableEntity, "conflict", err.Error())
	default:
		patterns.Busy(ctx, retryAfter, "not_stored", "it is not known that the event was stored: send it again")
	}
}

// received reads an event from a call. An event without an instant of acceptance is
// accepted now.
func received(req *fasthttp.Request) (event.Event, error) {
	e := event.Event{
		ID: string(req.Header.Peek(event.IDHeader)), Key: string(req.Header.Peek(event.KeyHeader)),
		Body: req.Body(), Accepted: time.Now(),
	}
	if text := req.Header.Peek(event.AcceptedHeader); len(text) > 0 {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return e, fmt.Errorf("%w: its %s is no number of nanoseconds", event.ErrBad, event.AcceptedHeader)
		}
		e.Accepted = time.Unix(0, n)
	}
	return e, e.Validate()
}

// postMissing answers which of the ids in its body are not stored.
func (s *service) postMissing(ctx *fasthttp.RequestCtx) {
	ids := strings.Fields(string(ctx.PostBody()))
	if len(ids) > maxIDs {
		patterns.Fail(ctx, fasthttp.StatusBadRequest, "too_many", fmt.Sprintf("%d ids, and the most is %d", len(ids), maxIDs))
		return
	}
	own, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	missing, err := s.store.missing(own, ids)
	if err != nil {
		patterns.Busy(ctx, retryAfter, "failed", "the store does not answer")
		return
	}
	var text bytes.Buffer
	for _, id := range missing {
		text.WriteString(id)
		text.WriteByte('\n')
	}
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBody(text.Bytes())
}
