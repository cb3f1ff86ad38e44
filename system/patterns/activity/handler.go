package activity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/patterns"
)

// Path is where activities are; a single one is at Path/{id}.
const Path = "/activities"

// Config is what a Handler needs. Start from DefaultConfig.
type Config struct {
	// Store keeps the activities. The handler closes it.
	Store Store
	// Timeout bounds what one request waits for the store.
	Timeout time.Duration
	// Logger is told about failures of the store, at most one in ten seconds,
	// with the number of those left out.
	Logger *slog.Logger
	// Registerer receives the metrics, see metrics.
	Registerer prometheus.Registerer
}

// DefaultConfig returns a configuration whose Store, Logger and Registerer are
// for the caller to set.
//
// Timeout is five seconds: longer than each store's own limits, which say more
// about what is wrong, and as long as a client that posts again may be kept.
func DefaultConfig() Config { return Config{Timeout: 5 * time.Second} }

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Store == nil || c.Logger == nil || c.Registerer == nil {
		errs = append(errs, errors.New("activity: a store, a logger or a registerer is missing"))
	}
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("activity: timeout is %v, must be positive", c.Timeout))
	}
	return errors.Join(errs...)
}

// Handler answers requests for activities. It is safe for concurrent use.
type Handler struct {
	store   Store
	timeout time.Duration
	logger  *slog.Logger
	metrics *metrics

	mu     sync.Mutex // of what follows
	told   time.Time  // the last failure that was logged
	untold int        // since then
}

// New returns a handler and registers its metrics.
func New(cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer, cfg.Store.Durability().Synced)
	if err != nil {
		return nil, fmt.Errorf("register metrics of activities: %w", err)
	}
	return &Handler{store: cfg.Store, timeout: cfg.Timeout, logger: cfg.Logger, metrics: m}, nil
}

// Durability is what the store does before an activity is acknowledged.
func (h *Handler) Durability() Durability { return h.store.Durability() }

// Close closes the store. No request may be under way or follow.
func (h *Handler) Close() error {
	if err := h.store.Close(); err != nil {
		return fmt.Errorf("close the store of activities: %w", err)
	}
	return nil
}

// bound is the context of one request: fasthttp's own ends only with the server.
func (h *Handler) bound() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), h.timeout)
}

// Post answers POST Path. Like Get it does not panic, and returns within
// Config.Timeout.
func (h *Handler) Post(request *fasthttp.RequestCtx) {
	body := request.PostBody()
	if len(body) > MaxBody {
		h.metrics.count(operationPut, outcomeInvalid)
		refuseInput(request, fasthttp.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the activity has %d bytes of JSON; write at most %d", len(body), MaxBody))
		return
	}
	a, err := Decode(body)
	if err != nil {
		h.metrics.count(operationPut, outcomeInvalid)
		refuseInput(request, fasthttp.StatusBadRequest, "invalid_activity", err.Error())
		return
	}
	ctx, cancel := h.bound()
	defer cancel()
	began := time.Now()
	if err := h.store.Put(ctx, &a); err != nil {
		h.refuse(request, operationPut, err)
		return
	}
	h.metrics.took(operationPut, began)
	h.metrics.count(operationPut, outcomeDone)
	request.Response.Header.Set(fasthttp.HeaderLocation, Path+"/"+a.ID)
	patterns.Answer(request, fasthttp.StatusCreated, []byte(`{"id":"`+a.ID+`"}`)) // an id needs no quoting
}

// Get answers GET of what begins with Path and a slash.
func (h *Handler) Get(request *fasthttp.RequestCtx) {
	path, _ := bytes.CutPrefix(request.URI().PathOriginal(), []byte(Path+"/"))
	id := string(path)
	if err := CheckID(id); err != nil {
		h.metrics.count(operationGet, outcomeInvalid)
		refuseInput(request, fasthttp.StatusBadRequest, "invalid_id", err.Error())
		return
	}
	ctx, cancel := h.bound()
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
		h.refuse(request, operationGet, err)
		return
	}
	h.metrics.count(operationGet, outcomeDone)
	patterns.Answer(request, fasthttp.StatusOK, body)
}

// retryAfter is one second: queues here are emptied several times in it, and a
// database that is being restarted needs more than one of them anyway.
const retryAfter = time.Second

// refuse answers for a store that did not do it.
func (h *Handler) refuse(request *fasthttp.RequestCtx, operation string, err error) {
	switch {
	case errors.Is(err, ErrNotFound):
		h.metrics.count(operation, outcomeNotFound)
		patterns.Fail(request, fasthttp.StatusNotFound, "not_found", ErrNotFound.Error())
	case errors.Is(err, ErrBusy):
		h.metrics.count(operation, outcomeBusy)
		patterns.Busy(request, retryAfter, "busy", "too much is under way and nothing was tried; send it again after as many seconds as Retry-After says")
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed), errors.Is(err, context.DeadlineExceeded):
		h.metrics.count(operation, outcomeUnavailable)
		h.tell(err)
		patterns.Busy(request, retryAfter, "unavailable", "the store does not answer, and what was sent may or may not be stored; send the same again after as many seconds as Retry-After says")
	default:
		h.metrics.count(operation, outcomeFailed)
		h.tell(err)
		patterns.Fail(request, fasthttp.StatusInternalServerError, "internal", "the store failed, and what was sent may or may not be stored; to send the same again is safe")
	}
}

// tellEvery is between two failures that are told: a store that is away fails
// each request, and the log is for people.
const tellEvery = 10 * time.Second

// tell tells of a failure unless one was told just now.
func (h *Handler) tell(err error) {
	now := time.Now()
	h.mu.Lock()
	if !h.told.IsZero() && now.Sub(h.told) < tellEvery {
		h.untold++
		h.mu.Unlock()
		return
	}
	untold := h.untold
	h.told, h.untold = now, 0
	h.mu.Unlock()
	h.logger.Error("the store of activities failed", "error", err, "more_since_the_last", untold)
}
