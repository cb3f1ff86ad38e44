// Package job answers GET /handle: a job that uses processor time, holds memory and
// waits for something. It is the pattern of the worker pool, and what stateless
// scaling is measured with, for a job needs nothing that another replica has.
//
//	off      a goroutine per job, as many as there are requests. Beyond the
//	         capacity of the processor all of them become slower together, and
//	         each holds its memory for longer
//	reject   a pool of workers with a bounded queue; what does not fit is answered
//	         503 with Retry-After, at once
//	wait     the same, but what does not fit waits in turn, for Wait at most
//
// With Adaptive the queue becomes shorter while it only makes everybody slower.
//
// The bound that makes refusals fast is the number of workers: as many as leave the
// processor some time. A pool that may use all of it refuses late.
package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/pause"
	"loadstone/block/pool"
	"loadstone/block/route"
	"loadstone/system/patterns"
)

// The modes.
const (
	Off    = "off"
	Reject = string(pool.Reject)
	Wait   = string(pool.Wait)
)

// Config describes the pattern. Start from DefaultConfig.
type Config struct {
	// Pool is Off, Reject or Wait.
	Pool string
	// Workers, Queue, Wait, Callers and Adaptive are those of pool.Config; they
	// do nothing when the pattern is off.
	Workers, Queue, Callers int
	Wait                    time.Duration
	Adaptive                bool
	// CPU is the processor time that a job uses, Sleep what it waits then, and
	// Memory the bytes that it holds all the while.
	CPU, Sleep time.Duration
	Memory     int
	// Registerer receives the metrics, see metrics, and those of block/pool under
	// the name jobs if the pattern is not off.
	Registerer prometheus.Registerer
}

// MaxMemory is the most that one job may hold.
const MaxMemory = 64 << 20

// DefaultConfig returns a job of some milliseconds, and no pool.
func DefaultConfig() Config {
	return Config{
		Pool:    Off,
		Workers: 4, Queue: 16, Callers: 1000, Wait: time.Second,
		CPU: 5 * time.Millisecond, Sleep: 0, Memory: 64 << 10,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	switch c.Pool {
	case Off:
	case Reject, Wait:
		if err := c.pool(prometheus.NewRegistry()).Validate(); err != nil {
			errs = append(errs, err)
		}
	default:
		errs = append(errs, fmt.Errorf("jobs: pool %q: write off, reject or wait", c.Pool))
	}
	if c.CPU < 0 || c.Sleep < 0 {
		errs = append(errs, fmt.Errorf("jobs: %v of processor time and %v of waiting: neither may be negative", c.CPU, c.Sleep))
	}
	if c.Memory < 0 || c.Memory > MaxMemory {
		errs = append(errs, fmt.Errorf("jobs: %d bytes for a job: write a number from 0 to %d", c.Memory, MaxMemory))
	}
	return errors.Join(errs...)
}

func (c Config) pool(to prometheus.Registerer) pool.Config {
	return pool.Config{
		Name: "jobs", Workers: c.Workers, Queue: c.Queue, Full: pool.Policy(c.Pool), Wait: c.Wait, Callers: c.Callers,
		Adaptive: c.Adaptive, Registerer: to,
	}
}

// String is the configuration in one line.
func (c Config) String() string {
	return fmt.Sprintf("pool=%s workers=%d queue=%d callers=%d wait=%v adaptive=%t cpu=%v sleep=%v memory=%d",
		c.Pool, c.Workers, c.Queue, c.Callers, c.Wait, c.Adaptive, c.CPU, c.Sleep, c.Memory)
}

// Handler does jobs. It is safe for concurrent use.
type Handler struct {
	cfg     Config
	pool    *pool.Pool // nil if the pattern is off
	steps   int        // of work for one job
	metrics *metrics

	life context.Context //nolint:containedctx // it ends with Close, and all jobs with it
	end  context.CancelFunc

	mu     sync.Mutex
	closed bool
	jobs   sync.WaitGroup // goroutines of jobs without a pool; Add under mu while not closed
}

// New returns a handler. It takes a tenth of a second to find out how much work is
// the processor time of a job. The caller must Close it.
func New(cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Handler{cfg: cfg, steps: stepsFor(cfg.CPU), metrics: newMetrics(cfg.Registerer)}
	h.life, h.end = context.WithCancel(context.Background())
	if cfg.Pool == Off {
		return h, nil
	}
	var err error
	if h.pool, err = pool.New(cfg.pool(cfg.Registerer)); err != nil {
		return nil, fmt.Errorf("make the pool: %w", err)
	}
	return h, nil
}

// Do does one job and returns its result. The error is a *pool.FullError for one that
// was refused, pool.ErrClosed after Close, or ctx's.
func (h *Handler) Do(ctx context.Context) (uint64, error) {
	if h.pool != nil {
		var sum uint64
		err := h.pool.Do(ctx, func(ctx context.Context) (err error) {
			sum, err = h.job(ctx)
			return err
		})
		return sum, err
	}
	type result struct {
		sum uint64
		err error
	}
	done := make(chan result, 1)
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return 0, pool.ErrClosed
	}
	h.jobs.Go(func() {
		sum, err := h.job(ctx)
		done <- result{sum, err}
	})
	h.mu.Unlock()
	r := <-done
	return r.sum, r.err
}

// job is the work itself.
func (h *Handler) job(ctx context.Context) (uint64, error) {
	held := make([]byte, h.cfg.Memory)
	const page = 4096
	for i := 0; i < len(held); i += page {
		held[i] = 1 // only what is written to is really there
	}
	sum := uint64(seed)
	for left := h.steps; left > 0; left -= stretch {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		sum = work(sum, min(left, stretch))
	}
	if h.cfg.Sleep > 0 && !pause.For(ctx, h.cfg.Sleep) {
		return 0, ctx.Err()
	}
	runtime.KeepAlive(held)
	return sum, nil
}

// Handle answers one request. Its context ends with the handler's Close, which comes
// after the server's stop, and not before: without a pool nothing bounds a job, which
// is the point, and with one the pool does.
func (h *Handler) Handle(ctx *fasthttp.RequestCtx) error {
	began := time.Now()
	sum, err := h.Do(h.life)
	if full, ok := errors.AsType[*pool.FullError](err); ok {
		h.metrics.refused.observe(time.Since(began))
		return &route.Error{
			Code: patterns.Busy, Text: "all workers are busy and the queue is full; wait as many seconds as Retry-After says",
			RetryAfter: full.RetryAfter, Err: err,
		}
	}
	if h.life.Err() != nil && err != nil {
		return &route.Error{Code: patterns.Unavailable, Text: "the service is being stopped; send it again", Err: err}
	}
	if err != nil {
		return &route.Error{Code: patterns.Failed, Err: err}
	}
	route.JSON(ctx, fasthttp.StatusOK, fmt.Appendf(nil, `{"sum":"%016x"}`, sum))
	h.metrics.served.observe(time.Since(began))
	return nil
}

// Resize answers PUT /pool, with the number of workers as the body, on the address
// for the operator.
func (h *Handler) Resize(w http.ResponseWriter, r *http.Request) {
	const digits = 16
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, digits))
	if err != nil {
		http.Error(w, "write the number of workers as the body", http.StatusBadRequest)
		return
	}
	workers, err := strconv.Atoi(strings.TrimSpace(string(body)))
	switch {
	case err != nil:
		err = fmt.Errorf("%q is no number of workers", body)
	case h.pool == nil:
		err = errors.New("there is no pool: it is off")
	default:
		err = h.pool.Resize(workers)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Close calls off the jobs that have begun, or have been let in, and waits for them:
// some milliseconds. Who waits for one gets an error.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.end()
	h.jobs.Wait()
	if h.pool == nil {
		return nil
	}
	return h.pool.Close()
}
