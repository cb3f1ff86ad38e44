package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/queue"
	"loadstone/block/route"
	"loadstone/system/patterns"
)

const (
	// Timeout bounds how long a caller waits for an event to be accepted. Afterwards
	// it is unknown whether it was, and the caller should send it again. It is beyond
	// the time that a killed broker or log service takes to be back, and less than
	// what most callers wait.
	Timeout = 3 * time.Second
	// openTimeout bounds the wait for a broker at the start.
	openTimeout = 30 * time.Second
)

// sender passes one event on, and returns when it is durable.
type sender interface {
	send(ctx context.Context, e *Event) error
	ready() bool
	close() error
}

// Handler answers POST /handle. It counts:
//
//	patterns_events_accepted_total                     answered 2xx
//	patterns_events_rejected_total{reason="bad"}       no event: 400
//	patterns_events_rejected_total{reason="conflict"}  its id is another event's: 422; only
//	                                                   calls are told, a queue does not know
//	patterns_events_rejected_total{reason="full"}      no room in the queue: 503
//	patterns_events_rejected_total{reason="failed"}    the log service or the broker did not
//	                                                   take it, or it is unknown: 503
type Handler struct {
	sender   sender
	status   int // of an event that was accepted
	accepted prometheus.Counter
	bad      prometheus.Counter
	conflict prometheus.Counter
	full     prometheus.Counter
	failed   prometheus.Counter
}

// New connects to the log service or the queue, see ParseTarget. The Handler must be
// closed.
func New(ctx context.Context, to string, r prometheus.Registerer) (*Handler, error) {
	target, err := ParseTarget(to)
	if err != nil {
		return nil, err
	}
	auto := promauto.With(r)
	rejected := auto.NewCounterVec(prometheus.CounterOpts{
		Name: "patterns_events_rejected_total", Help: "Events that were not accepted, by reason.",
	}, []string{"reason"})
	h := &Handler{
		accepted: auto.NewCounter(prometheus.CounterOpts{
			Name: "patterns_events_accepted_total", Help: "Events that were answered as accepted.",
		}),
		bad: rejected.WithLabelValues("bad"), conflict: rejected.WithLabelValues("conflict"), full: rejected.WithLabelValues("full"), failed: rejected.WithLabelValues("failed"),
	}
	if !target.Async() {
		h.status, h.sender = fasthttp.StatusOK, newCaller(target.Hosts[0])
		return h, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	q, err := target.OpenQueue(ctx)
	if err != nil {
		return nil, err
	}
	h.status, h.sender = fasthttp.StatusAccepted, producer{q}
	return h, nil
}

// Handle answers one request.
func (h *Handler) Handle(ctx *fasthttp.RequestCtx) error {
	e := Event{
		ID: string(ctx.Request.Header.Peek(IDHeader)), Key: string(ctx.Request.Header.Peek(KeyHeader)),
		Body: ctx.PostBody(), Accepted: time.Now(),
	}
	if e.ID == "" {
		e.ID = NewID()
	}
	if err := e.Validate(); err != nil {
		h.bad.Inc()
		return &route.Error{Code: patterns.BadEvent, Text: err.Error()}
	}
	// Not the RequestCtx: that ends with the server only.
	own, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	switch err := h.sender.send(own, &e); {
	case err == nil:
		h.accepted.Inc()
		route.JSON(ctx, h.status, fmt.Appendf(nil, `{"id":%q}`, e.ID))
		return nil
	case errors.Is(err, errConflict):
		h.conflict.Inc()
		return &route.Error{Code: patterns.Conflict, Err: err}
	case errors.Is(err, queue.ErrFull):
		h.full.Inc()
		return &route.Error{Code: patterns.Full, Err: err}
	default:
		h.failed.Inc()
		return &route.Error{Code: patterns.NotAccepted, Err: err}
	}
}

// Ready reports whether an event would find the one it is passed on to.
func (h *Handler) Ready() bool { return h.sender.ready() }

// Close ends the connections, after the last answer.
func (h *Handler) Close() error { return h.sender.close() }

// producer puts events into a queue.
type producer struct{ queue Queue }

func (p producer) send(ctx context.Context, e *Event) error { return p.queue.Publish(ctx, e.Message()) }
func (p producer) ready() bool                              { return p.queue.Ready() }
func (p producer) close() error                             { return p.queue.Close() }
