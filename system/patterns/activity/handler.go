package activity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/route"
	"loadstone/system/patterns"
)

// Path is where activities are; a single one is at Path/{id}.
const Path = "/activities"

// timeout bounds what one request waits for the store: longer than each store's own
// limits, which say more about what is wrong, and as long as a client that posts
// again may be kept.
const timeout = 5 * time.Second

// Handler answers requests for activities. It is safe for concurrent use.
type Handler struct {
	store    Store
	failures *route.ErrorLog
	metrics  *metrics
}

// New returns a handler, which closes the store, and registers its metrics. The logger
// is told about failures of the store, at most one in ten seconds, with the number of
// those left out.
func New(store Store, logger *slog.Logger, r prometheus.Registerer) *Handler {
	durability := store.Durability()
	logger.Info("activities", "synced_before_answer", durability.Synced, "how", durability.How)
	return &Handler{
		store: store, failures: route.NewErrorLog(logger, "the store of activities failed"),
		metrics: newMetrics(r, durability.Synced),
	}
}

// Close closes the store. No request may be under way or follow.
func (h *Handler) Close() error {
	if err := h.store.Close(); err != nil {
		return fmt.Errorf("close the store of activities: %w", err)
	}
	return nil
}

// bound is the context of one request: fasthttp's own ends only with the server.
func bound() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), timeout)
}

// Post answers POST Path. Like Get it does not panic, and returns within timeout.
func (h *Handler) Post(request *fasthttp.RequestCtx) error {
	body := request.PostBody()
	if len(body) > MaxBody {
		h.metrics.count(operationPut, outcomeInvalid)
		return &route.Error{Code: patterns.TooLarge, Text: fmt.Sprintf("the activity has %d bytes of JSON; write at most %d", len(body), MaxBody)}
	}
	a, err := Decode(body)
	if err != nil {
		h.metrics.count(operationPut, outcomeInvalid)
		return &route.Error{Code: patterns.InvalidActivity, Text: err.Error()}
	}
	ctx, cancel := bound()
	defer cancel()
	began := time.Now()
	if err := h.store.Put(ctx, &a); err != nil {
		return h.failed(operationPut, err)
	}
	h.metrics.took(operationPut, began)
	h.metrics.count(operationPut, outcomeDone)
	request.Response.Header.Set(fasthttp.HeaderLocation, Path+"/"+a.ID)
	route.JSON(request, fasthttp.StatusCreated, []byte(`{"id":"`+a.ID+`"}`)) // an id needs no quoting
	return nil
}

// Get answers GET of what begins with Path and a slash.
func (h *Handler) Get(request *fasthttp.RequestCtx) error {
	path, _ := bytes.CutPrefix(request.URI().PathOriginal(), []byte(Path+"/"))
	id := string(path)
	if err := CheckID(id); err != nil {
		h.metrics.count(operationGet, outcomeInvalid)
		return &route.Error{Code: patterns.InvalidID, Text: err.Error()}
	}
	ctx, cancel := bound()
	defer cancel()
	began := time.Now()
	a, err := h.store.Get(ctx, id)
	if err == nil || errors.Is(err, ErrNotFound) {
		h.metrics.took(operationGet, began)
	}
	var body []byte
	if err == nil {
		body, err = Encode(&a)
	}
	if err != nil {
		return h.failed(operationGet, err)
	}
	h.metrics.count(operationGet, outcomeDone)
	route.JSON(request, fasthttp.StatusOK, body)
	return nil
}

// failed counts what the store did not do, and says how it is answered.
func (h *Handler) failed(operation string, err error) error {
	failed := &route.Error{Err: err}
	outcome := outcomeFailed
	switch {
	case errors.Is(err, ErrNotFound):
		outcome, failed.Code, failed.Text = outcomeNotFound, patterns.NotFound, ErrNotFound.Error()
	case errors.Is(err, ErrBusy):
		outcome, failed.Code = outcomeBusy, patterns.Busy
		failed.Text = "too much is under way and nothing was tried; send it again after as many seconds as Retry-After says"
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed), errors.Is(err, context.DeadlineExceeded):
		outcome, failed.Code = outcomeUnavailable, patterns.Unavailable
		failed.Text = "the store does not answer, and what was sent may or may not be stored; send the same again after as many seconds as Retry-After says"
	default:
		failed.Code = route.Internal
		failed.Text = "the store failed, and what was sent may or may not be stored; to send the same again is safe"
	}
	h.metrics.count(operation, outcome)
	if outcome == outcomeUnavailable || outcome == outcomeFailed {
		h.failures.Log("error", err)
	}
	return failed
}
