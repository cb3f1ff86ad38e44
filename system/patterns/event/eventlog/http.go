package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/patterns/event"
)

const (
	// maxIDs bounds one question for missing events.
	maxIDs = 10_000
	// callTimeout bounds a call: the time of a transaction behind those that wait.
	callTimeout = 10 * time.Second
	retryAfter  = time.Second
)

// The codes of calls that were not done.
const (
	badEvent  route.Code = "bad_event"
	conflict  route.Code = "conflict" // the id is that of another event
	notStored route.Code = "not_stored"
	tooMany   route.Code = "too_many"
	failed    route.Code = "failed"
)

// answers is how each code is answered. The texts that are left out depend on what was
// sent.
var answers = route.Table{
	route.Internal:           {Status: http.StatusInternalServerError, Text: "the log service made a mistake"},
	route.NoSuchPath:         {Status: http.StatusNotFound, Code: "not_found", Text: "there are POST /events and POST /missing"},
	route.MethodNotAllowed:   {Status: http.StatusMethodNotAllowed, Text: "there are POST /events and POST /missing"},
	route.NotReady:           {Status: http.StatusServiceUnavailable, Text: "it stops, or has no broker", RetryAfter: retryAfter},
	route.TooManyConnections: {Status: http.StatusServiceUnavailable, Text: "too many connections are open; connect again later", RetryAfter: retryAfter},
	route.BadRequest:         {Status: http.StatusBadRequest, Text: "this is no request that can be read"},

	badEvent:  {Status: http.StatusBadRequest},
	conflict:  {Status: http.StatusUnprocessableEntity},
	notStored: {Status: http.StatusServiceUnavailable, Text: "it is not known that the event was stored: send it again", RetryAfter: retryAfter},
	tooMany:   {Status: http.StatusBadRequest},
	failed:    {Status: http.StatusServiceUnavailable, Text: "the store does not answer", RetryAfter: retryAfter},
}

func (s *eventLog) postEvent(ctx *fasthttp.RequestCtx) error {
	e, err := received(&ctx.Request)
	if err != nil {
		return &route.Error{Code: badEvent, Text: err.Error()}
	}
	own, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	switch err := s.keep(own, []event.Event{e}); {
	case err == nil:
		route.JSON(ctx, fasthttp.StatusOK, []byte(`{"stored":true}`))
		return nil
	case errors.Is(err, errConflict):
		return &route.Error{Code: conflict, Text: err.Error()}
	default:
		return &route.Error{Code: notStored, Err: err}
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
func (s *eventLog) postMissing(ctx *fasthttp.RequestCtx) error {
	ids := strings.Fields(string(ctx.PostBody()))
	if len(ids) > maxIDs {
		return &route.Error{Code: tooMany, Text: fmt.Sprintf("%d ids, and the most is %d", len(ids), maxIDs)}
	}
	own, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	missing, err := s.store.missing(own, ids)
	if err != nil {
		return &route.Error{Code: failed, Err: err}
	}
	var text bytes.Buffer
	for _, id := range missing {
		text.WriteString(id)
		text.WriteByte('\n')
	}
	ctx.SetContentType("text/plain; charset=utf-8")
	ctx.SetBody(text.Bytes())
	return nil
}
