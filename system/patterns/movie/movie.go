// Package movie answers GET /getPopularMovies: the list of popular movies, from a
// source that takes seconds to make it. It is the pattern of the cache that is
// refreshed ahead.
//
//	off   the list is kept for MaxAge; then whoever comes next, and all who come
//	      until the source has answered, wait for it
//	on    from a third of MaxAge on, the list is made anew while the old one is
//	      served; nobody waits. Also if nobody asks: the handler itself looks
//	      every twelfth of MaxAge, so the list is warm for the first who comes
//
// Either way nobody gets a list older than MaxAge, counted from the moment at which
// the source began to make it. That holds when the source fails as well: then the
// answer is 503 when the list is too old, and not a second before. An answer says its
// age in the header Age, in whole seconds, rounded up.
//
// It owns its cache and no data. One list for all: the key is one.
package movie

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/cache"
	"loadstone/block/route"
	"loadstone/system/patterns"
)

// Config describes the pattern. Start from DefaultConfig.
type Config struct {
	// RefreshAhead switches the pattern on.
	RefreshAhead bool
	// MaxAge is the stated age: nobody gets an older list.
	MaxAge time.Duration
	// Delay is how long the source takes, if Read is nil.
	Delay time.Duration
	// Read is the source; nil for a made-up one that takes Delay. It is given
	// MaxAge/2 at most.
	Read func(ctx context.Context) ([]byte, error)
	// Registerer receives the metrics: those of block/cache under the name movies,
	// and source_reads_total{source="movies"}.
	Registerer prometheus.Registerer
}

// DefaultConfig returns the source of the original, which takes 5 seconds.
func DefaultConfig() Config {
	return Config{MaxAge: 30 * time.Second, Delay: 5 * time.Second}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.MaxAge < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("movies: max age %v: write at least 100ms", c.MaxAge))
	}
	if c.Delay < 0 || c.Delay >= c.MaxAge/2 {
		errs = append(errs, fmt.Errorf("movies: delay %v: write one from 0s to less than half of the max age, which is %v", c.Delay, c.MaxAge))
	}
	return errors.Join(errs...)
}

// String is the configuration in one line.
func (c Config) String() string {
	return fmt.Sprintf("refresh-ahead=%t max-age=%v delay=%v", c.RefreshAhead, c.MaxAge, c.Delay)
}

// Shares of MaxAge. A refresh that begins at a third, or one look later, and takes
// as long as it may is there at 11/12: before anybody would have to wait for it.
const (
	refreshShare = 3
	lookShare    = 12
	loadShare    = 2
)

// one is the key of the only entry.
const one = "popular"

// Handler answers requests for the list. It is safe for concurrent use.
type Handler struct {
	cfg     Config
	cache   *cache.Cache[string, []byte]
	control string // Cache-Control
	reads   prometheus.Counter
	warm    atomic.Bool // the first look is over
}

// New returns a handler with an empty cache. The caller must Close it.
func New(cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Handler{cfg: cfg, control: "no-store"}
	if cfg.Read == nil {
		h.cfg.Read = (&chart{delay: cfg.Delay}).read
	}
	// Whoever keeps the answer counts on from its Age (RFC 9111, 4.2).
	if seconds := int64(cfg.MaxAge / time.Second); seconds > 0 {
		h.control = fmt.Sprintf("public, max-age=%d", seconds)
	}
	h.reads = promauto.With(cfg.Registerer).NewCounter(prometheus.CounterOpts{
		Name: "source_reads_total", Help: "Reads of the slow source.", ConstLabels: prometheus.Labels{"source": "movies"},
	})
	cc := cache.Config[string, []byte]{
		Name: "movies", MaxAge: cfg.MaxAge, LoadTimeout: cfg.MaxAge / loadShare, Load: h.load, Registerer: cfg.Registerer,
		Memory: &cache.Memory[string, []byte]{
			MaxBytes: 1 << 20, // one list of a kilobyte
			Bytes:    func(key string, list []byte) int { return len(key) + len(list) },
		},
	}
	if cfg.RefreshAhead {
		cc.Refresh = &cache.Refresh{
			After: cfg.MaxAge / refreshShare,
			// Only a source that fails lets a list become so old. Then a caller
			// tries for a moment, and is better served with what there is.
			SyncAfter: cfg.MaxAge * (lookShare - 1) / lookShare, SyncWait: cfg.MaxAge / lookShare,
			Backoff: cfg.MaxAge / lookShare, Concurrent: 1,
		}
	}
	var err error
	if h.cache, err = cache.New(cc); err != nil {
		return nil, fmt.Errorf("make the cache of the movies: %w", err)
	}
	return h, nil
}

// load reads the source.
func (h *Handler) load(ctx context.Context, _ string) ([]byte, error) {
	h.reads.Inc()
	list, err := h.cfg.Read(ctx)
	if err != nil {
		return nil, err // the cache's callers get it as it is
	}
	// A source that answers after its time would be kept for longer than is
	// stated if it ignored its context; it is as if it had failed.
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("the source took too long: %w", err)
	}
	return list, nil
}

// Run keeps the list warm until ctx ends, if the pattern is on.
func (h *Handler) Run(ctx context.Context) error {
	if !h.cfg.RefreshAhead {
		<-ctx.Done()
		return nil
	}
	look := time.NewTicker(h.cfg.MaxAge / lookShare)
	defer look.Stop()
	for {
		// What fails is counted by the cache, and tried again at the next look.
		_, _ = h.cache.Get(ctx, one)
		h.warm.Store(true)
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Ready reports whether nobody would have to wait: not before the first list is
// there, or has failed to come. Off, it is always ready.
func (h *Handler) Ready() bool { return !h.cfg.RefreshAhead || h.warm.Load() }

// Find returns the list and its age. The error is the source's.
func (h *Handler) Find(ctx context.Context) ([]byte, time.Duration, error) {
	found, err := h.cache.Find(ctx, one)
	if err != nil {
		return nil, 0, fmt.Errorf("find the popular movies: %w", err)
	}
	return found.Value, found.Age, nil
}

// Handle answers one request. It waits as long as the source may take and a little
// more, so that the source's own end is what the client is told.
func (h *Handler) Handle(ctx *fasthttp.RequestCtx) error {
	deadline, cancel := context.WithTimeout(context.Background(), h.cfg.MaxAge/loadShare+time.Second)
	defer cancel()
	list, age, err := h.Find(deadline)
	if err != nil {
		return &route.Error{Code: patterns.Unavailable, Text: "the list is not to be had now; try again in a moment", RetryAfter: h.cfg.MaxAge / lookShare, Err: err}
	}
	route.JSON(ctx, fasthttp.StatusOK, list)
	ctx.Response.Header.Set("Age", fmt.Sprint(int64((age+time.Second-1)/time.Second)))
	ctx.Response.Header.Set("Cache-Control", h.control)
	return nil
}

// Close waits for the read under way and ends the cache.
func (h *Handler) Close() error {
	if err := h.cache.Close(); err != nil {
		return fmt.Errorf("close the cache of the movies: %w", err)
	}
	return nil
}
