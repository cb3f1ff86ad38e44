// Package book answers GET /getBook/{id}: a book, from a source that takes a second
// to read one. It is the pattern of doing a thing once and giving the answer to
// everyone who asked for it meanwhile.
//
//	off     each request reads the source
//	local   requests for one book that come while it is being read wait for that
//	        reading: one reading in this process. Nothing is kept
//	redis   the same across processes. One of them takes a lease in Redis and
//	        reads; the others wait for what it puts there. The answer is kept for
//	        a moment (Keep), because the others must be able to fetch it
//
// A reading belongs to nobody who waits for it: a caller that gives up does not
// end it for the others. Its error, or its panic, reaches all who waited, and is not
// kept: who comes next tries again. A process that dies while it reads gives its
// lease back by dying: Redis ends it after ReadTimeout and a second. One of those who
// wait takes it over, and the others wait for that one.
//
// It fails open: without Redis each process reads for itself.
package book

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/valyala/fasthttp"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
	"loadstone/block/route"
	"loadstone/system/patterns"
)

// Path begins the address of every book.
const Path = "/getBook/"

// Mode is who shares a reading.
type Mode string

// The modes.
const (
	Off   Mode = "off"
	Local Mode = "local"
	Redis Mode = "redis"
)

// MaxID is the largest id of a book.
const MaxID = 999_999_999

// Config describes the pattern. Start from DefaultConfig.
type Config struct {
	Mode Mode
	// Redis is the address of Redis, host:port, used by the mode Redis only.
	Redis string
	// Keep is how long an answer stays in Redis at least for the other processes to
	// fetch it. It is there until ReadTimeout + Keep after its reading began, so
	// that is how old an answer from Redis may be.
	Keep time.Duration
	// Delay is how long the source takes, if Read is nil.
	Delay time.Duration
	// ReadTimeout bounds one reading.
	ReadTimeout time.Duration
	// Read is the source; nil for a made-up one that takes Delay.
	Read func(ctx context.Context, id int64) ([]byte, error)
	// Registerer receives the metrics: those of block/cache and rediscache under
	// the name books, and source_reads_total{source="books"}.
	Registerer prometheus.Registerer

	redisPatience time.Duration // of tests, which have all the time of a busy machine; 0: see redisTimeout
}

// DefaultConfig returns the source of the original, which takes a second.
func DefaultConfig() Config {
	return Config{
		Mode: Off, Redis: "127.0.0.1:6379", Keep: time.Second, Delay: time.Second,
		// Twice what the source takes: longer, and everybody waits longer for a
		// process that died while it read; shorter, and a source that is slow
		// today is given up and asked again.
		ReadTimeout: 2 * time.Second,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Mode != Off && c.Mode != Local && c.Mode != Redis {
		errs = append(errs, fmt.Errorf("books: do once %q: write off, local or redis", c.Mode))
	}
	if c.ReadTimeout <= 0 || c.Delay < 0 || c.Delay >= c.ReadTimeout {
		errs = append(errs, fmt.Errorf("books: delay %v: write one from 0s to less than the read timeout, which is %v", c.Delay, c.ReadTimeout))
	}
	if c.Keep < time.Millisecond {
		errs = append(errs, fmt.Errorf("books: keep %v: write at least 1ms", c.Keep))
	}
	if c.Mode == Redis && !strings.Contains(c.Redis, ":") {
		errs = append(errs, fmt.Errorf("books: Redis %q: write HOST:PORT, such as 127.0.0.1:6379", c.Redis))
	}
	return errors.Join(errs...)
}

// String is the configuration in one line.
func (c Config) String() string {
	return fmt.Sprintf("do-once=%s redis=%s keep=%v delay=%v read-timeout=%v", c.Mode, c.Redis, c.Keep, c.Delay, c.ReadTimeout)
}

// Handler answers requests for books. It is safe for concurrent use.
type Handler struct {
	cfg   Config
	once  *cache.Cache[int64, []byte] // nil if the pattern is off
	tier  *rediscache.Tier            // nil but for the mode Redis
	reads prometheus.Counter
}

// New returns a handler. The caller must Close it.
func New(ctx context.Context, cfg Config) (*Handler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Handler{cfg: cfg}
	if cfg.Read == nil {
		h.cfg.Read = shelf{cfg.Delay}.read
	}
	h.reads = promauto.With(cfg.Registerer).NewCounter(prometheus.CounterOpts{
		Name: "source_reads_total", Help: "Reads of the slow source.", ConstLabels: prometheus.Labels{"source": "books"},
	})
	if cfg.Mode == Off {
		return h, nil
	}
	cc := cache.Config[int64, []byte]{
		Name: "books", MaxAge: cfg.ReadTimeout + cfg.Keep, LoadTimeout: cfg.ReadTimeout, Load: h.read, Registerer: cfg.Registerer,
	}
	if cfg.Mode == Redis {
		var err error
		if h.tier, err = rediscache.New(ctx, h.tierConfig()); err != nil {
			return nil, fmt.Errorf("connect the books to Redis: %w", err)
		}
		cc.Shared = shared(h.tier)
	}
	var err error
	if h.once, err = cache.New(cc); err != nil {
		return nil, errors.Join(fmt.Errorf("share readings of books: %w", err), h.closeTier())
	}
	return h, nil
}

// tierConfig makes one process read for all.
func (h *Handler) tierConfig() rediscache.Config {
	cfg := rediscache.DefaultConfig("books", h.cfg.Redis, h.cfg.Registerer)
	cfg.Prefix = "book:"
	cfg.Synchronous = true // those who wait look when the lease is given back
	cfg.ReadTimeout = h.redisTimeout()
	cfg.WriteTimeout = max(cfg.WriteTimeout, h.cfg.redisPatience)
	cfg.Lease = &rediscache.Lease{Hold: h.cfg.ReadTimeout + leaseMargin, Wait: h.leaseWait(), Poll: poll}
	return cfg
}

const (
	// leaseMargin is what a holder gets beyond its reading, to put the answer.
	leaseMargin = time.Second
	// poll is the first time between two looks, then 50 ms and up to mostPolls times
	// that: one look costs Redis microseconds, and a reading takes a second.
	poll, mostPolls = 25 * time.Millisecond, 8
)

// leaseWait is how long one waits for the answer of others: until the lease of a
// holder that has died ends, until somebody looks and takes it over, until that one
// has read, and until one's own next look. With less, all who waited since the lease
// was taken would give up just as it ends, and read at once.
func (h *Handler) leaseWait() time.Duration {
	const looks = 2 * mostPolls * poll
	return 2*h.cfg.ReadTimeout + leaseMargin + looks
}

// requestTimeout is how long a request waits: a look into Redis and the first attempt at
// the lease, the wait, and then a reading without it.
func (h *Handler) requestTimeout() time.Duration {
	if h.cfg.Mode != Redis {
		return h.cfg.ReadTimeout + leaseMargin
	}
	return 2*h.redisTimeout() + h.leaseWait() + h.cfg.ReadTimeout
}

// redisTimeout bounds a look. A Redis that is slow is worth waiting for: who gives it up reads what
// somebody else is reading.
func (h *Handler) redisTimeout() time.Duration {
	if h.cfg.redisPatience > 0 {
		return h.cfg.redisPatience
	}
	const share = 4
	return min(h.cfg.ReadTimeout/share, rediscache.ReadTimeout)
}

func shared(tier *rediscache.Tier) *cache.Shared[int64, []byte] {
	return &cache.Shared[int64, []byte]{
		Remote:  tier,
		KeyText: func(id int64) string { return strconv.FormatInt(id, 10) },
		Encode:  func(dst, book []byte) []byte { return append(dst, book...) },
		Decode:  func(data []byte) ([]byte, error) { return data, nil },
	}
}

// read reads the source.
func (h *Handler) read(ctx context.Context, id int64) ([]byte, error) {
	h.reads.Inc()
	return h.cfg.Read(ctx, id)
}

// Find returns a book. The error is the source's, or ctx's.
func (h *Handler) Find(ctx context.Context, id int64) ([]byte, error) {
	if h.once == nil {
		ctx, cancel := context.WithTimeout(ctx, h.cfg.ReadTimeout)
		defer cancel()
		return h.read(ctx, id)
	}
	return h.once.Get(ctx, id)
}

// Handle answers one request. Its time is the longest that an answer may take when
// the process that read it has died, see requestTimeout.
func (h *Handler) Handle(ctx *fasthttp.RequestCtx) error {
	id, err := parseID(ctx.URI().PathOriginal()[len(Path):])
	if err != nil {
		return &route.Error{Code: patterns.MalformedID, Text: err.Error()}
	}
	deadline, cancel := context.WithTimeout(context.Background(), h.requestTimeout())
	defer cancel()
	book, err := h.Find(deadline, id)
	if err != nil {
		return &route.Error{Code: patterns.Unavailable, Text: "the book cannot be read now; try again in a moment", RetryAfter: h.cfg.Delay, Err: err}
	}
	route.JSON(ctx, fasthttp.StatusOK, book)
	return nil
}

// parseID reads the digits of an id.
func parseID(text []byte) (int64, error) {
	id, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || id < 1 || id > MaxID || text[0] == '0' {
		return 0, fmt.Errorf("this is no book's id; write a whole number from 1 to %d", MaxID)
	}
	return int64(id), nil
}

// Close calls off the readings under way, waits for them and closes what was opened.
func (h *Handler) Close() error {
	var err error
	if h.once != nil {
		err = h.once.Close()
	}
	return errors.Join(err, h.closeTier())
}

func (h *Handler) closeTier() error {
	if h.tier == nil {
		return nil
	}
	return h.tier.Close()
}
