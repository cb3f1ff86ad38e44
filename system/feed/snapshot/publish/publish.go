package publish

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/system/feed"
	"loadstone/system/feed/snapshot"
)

// Config says what is published, where and how often.
type Config struct {
	// Store has the posts, Snapshot takes them. Both are the caller's.
	Store    feed.Store
	Snapshot *snapshot.Publisher
	// Posts is how many of the newest are published.
	Posts int
	// Every is the time between two publications.
	Every time.Duration
	// Timeout bounds one, and the reading of the store for it.
	Timeout time.Duration
	// Logger is told of versions, and of failures.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// MaxPosts bounds Config.Posts: with some 2 kB each, they are a tenth of what a version may be.
const MaxPosts = 10_000

// DefaultConfig has all but the store, the publisher, the logger and the registerer. A thousand posts are sixteen times
// what a user reads; who reads on asks the live interface.
func DefaultConfig() Config {
	return Config{Posts: 1000, Every: 5 * time.Minute, Timeout: 2 * time.Minute}
}

// Validate returns every problem of the numbers, joined.
func (c Config) Validate() error {
	var problems []error
	if c.Posts < 1 || c.Posts > MaxPosts {
		problems = append(problems, fmt.Errorf("%d posts: publish 1 to %d", c.Posts, MaxPosts))
	}
	if c.Every < time.Second {
		problems = append(problems, fmt.Errorf("published every %v: write at least 1s", c.Every))
	}
	if c.Timeout <= 0 {
		problems = append(problems, fmt.Errorf("timeout is %v: write a duration above 0", c.Timeout))
	}
	return errors.Join(problems...)
}

// Publisher publishes a feed. It is for one goroutine at a time, but for Ready; of any number of them, in any processes,
// each publishes what it has read since the one before.
type Publisher struct {
	cfg     Config
	clean   bool // nothing is left to collect that this publisher knows of
	last    atomic.Int64
	start   time.Time // for the monotonic clock
	metrics metrics
	removals
}

// metrics are feed_publish_version, feed_publish_bytes (of that version),
// feed_publish_total{outcome="published|same|superseded|shrank|failed"}, feed_publish_seconds_total and
// feed_publish_success_timestamp_seconds.
type metrics struct {
	version, bytes, success prometheus.Gauge
	total                   *prometheus.CounterVec
	seconds                 prometheus.Counter
}

// New returns a publisher and registers its metrics.
func New(cfg Config) (*Publisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Store == nil || cfg.Snapshot == nil || cfg.Logger == nil || cfg.Registerer == nil {
		return nil, errors.New("publish a feed: the store, the snapshot's publisher, the logger or the registerer is missing")
	}
	auto := promauto.With(cfg.Registerer)
	gauge := func(name, help string) prometheus.Gauge {
		return auto.NewGauge(prometheus.GaugeOpts{Name: "feed_publish_" + name, Help: help})
	}
	p := &Publisher{cfg: cfg, start: time.Now(), metrics: metrics{
		version: gauge("version", "Version that was current after the last publication."),
		bytes:   gauge("bytes", "Size of that version."),
		success: gauge("success_timestamp_seconds", "When what is current was last known to be what the store has."),
		total:   auto.NewCounterVec(prometheus.CounterOpts{Name: "feed_publish_total", Help: "Publications by outcome."}, []string{"outcome"}),
		seconds: auto.NewCounter(prometheus.CounterOpts{Name: "feed_publish_seconds_total", Help: "Time that publications took."}),
	}}
	for _, outcome := range []string{published, same, superseded, shrank, failed} {
		p.metrics.total.WithLabelValues(outcome)
	}
	return p, nil
}

// retry is how soon a publication that failed is tried again, if Every is not sooner.
const retry = 10 * time.Second

// Run publishes until the context ends, and then returns nil. A publication under way is left as it is, which
// nobody sees. Where the store is a feed.Desk, what editors take down, erase or remove of comments is published within
// seconds, and the versions that had it are deleted.
func (p *Publisher) Run(ctx context.Context) error {
	for {
		wait := p.cfg.Every
		if _, err := p.publish(ctx, snapshot.Options{}); err != nil && ctx.Err() == nil && !errors.Is(err, snapshot.ErrSuperseded) {
			p.cfg.Logger.Error("the feed was not published; what was published before is current", "error", err)
			wait = min(wait, retry)
		}
		if !p.wait(ctx, wait) {
			return nil
		}
	}
}

// Ready reports whether the feed was published, by this publisher or another one beside it, no longer ago than
// takes two publications.
func (p *Publisher) Ready() bool {
	last := time.Duration(p.last.Load())
	return last > 0 && time.Since(p.start)-last < 2*(p.cfg.Every+p.cfg.Timeout)
}

// Once publishes the feed as it is now, also beside others that do, and returns the version that has it. Of the
// options, Force is for what shrank by half, or is broken.
func (p *Publisher) Once(ctx context.Context, o snapshot.Options) (s *snapshot.Snapshot, err error) {
	return again(ctx, func() (*snapshot.Snapshot, error) { return p.publish(ctx, o) })
}

// RollBack publishes an earlier version again, as the next one. Publishers that run go on with what the store has.
func (p *Publisher) RollBack(ctx context.Context, version uint64) (*snapshot.Snapshot, error) {
	return again(ctx, func() (*snapshot.Snapshot, error) { return p.cfg.Snapshot.RollBack(ctx, version) })
}

// again makes attempts until no other publisher is faster: each time one has published, it does not go on for ever.
func again(ctx context.Context, attempt func() (*snapshot.Snapshot, error)) (*snapshot.Snapshot, error) {
	for {
		s, err := attempt()
		if !errors.Is(err, snapshot.ErrSuperseded) || ctx.Err() != nil {
			return s, err
		}
	}
}

// TakeDown takes a post down in the store, if it is there, then from what is published, and makes all
// earlier versions unreadable. When it returns nothing in the object store has the post, and no publisher brings it back;
// how soon an edge shows none of it is the edge's Config to say. After an error it is to be called again.
func (p *Publisher) TakeDown(ctx context.Context, post int64) (*snapshot.Snapshot, error) {
	if err := p.takeDown(ctx, post); err != nil && !errors.Is(err, feed.ErrNotFound) && !errors.Is(err, feed.ErrDown) {
		return nil, fmt.Errorf("take down post %d in the store: %w", post, err)
	}
	return p.purge(ctx, post)
}

// purge takes posts out of what is published, and makes all earlier versions unreadable.
func (p *Publisher) purge(ctx context.Context, posts ...int64) (*snapshot.Snapshot, error) {
	var unread error
	s, err := p.cfg.Snapshot.Purge(ctx, func(page snapshot.Page) []byte {
		if len(posts) == 0 {
			return page.Body
		}
		body, err := without(page, posts)
		unread = errors.Join(unread, err) // the page goes altogether: it may have them
		return body
	})
	return s, errors.Join(unread, err)
}

// takeDown takes a post out of the store, which a Desk can put back.
func (p *Publisher) takeDown(ctx context.Context, post int64) error {
	desk, ok := p.cfg.Store.(feed.Desk)
	if !ok {
		return p.cfg.Store.Delete(ctx, post)
	}
	_, err := desk.Apply(ctx, feed.Change{Action: feed.TakenDown, Editor: feed.EditorAPI, Post: post}, nil, feed.Condition{})
	return err
}

// publish makes one publication, and deletes what no version needs any more.
func (p *Publisher) publish(ctx context.Context, o snapshot.Options) (*snapshot.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	began := time.Now()
	s, before, err := p.next(ctx, o)
	took := time.Since(began).Seconds()
	outcome := outcomeOf(err, s == before)
	p.metrics.total.WithLabelValues(outcome).Inc()
	p.metrics.seconds.Add(took)
	if err == nil || outcome == superseded {
		p.last.Store(int64(time.Since(p.start)))
		p.metrics.success.SetToCurrentTime()
	}
	if err != nil {
		return s, err
	}
	p.metrics.version.Set(float64(s.Manifest.Version))
	p.metrics.bytes.Set(float64(len(s.Whole())))
	if outcome == published {
		p.clean = false
		p.cfg.Logger.Info("published", "version", s.Manifest.Version, "bytes", len(s.Whole()), "deltas", len(s.Manifest.Deltas), "seconds", took)
	}
	if !p.clean {
		_, left := p.cfg.Snapshot.Collect(ctx)
		if left != nil {
			p.cfg.Logger.Warn("what no version needs was not deleted; the next publication tries again", "error", left)
		}
		p.clean = left == nil
	}
	return s, nil
}

// next publishes what the store has now, without what was removed, and returns the version before, too.
func (p *Publisher) next(ctx context.Context, o snapshot.Options) (s, before *snapshot.Snapshot, err error) {
	if err := p.look(ctx, p.cfg.Store); err != nil { // before the posts, so that these have nothing of what it finds
		return nil, nil, err
	}
	publish := func() (*snapshot.Snapshot, error) {
		return p.cfg.Snapshot.Publish(ctx, func(ctx context.Context, last *snapshot.Snapshot) ([]snapshot.Page, error) {
			before = last
			return Pages(ctx, p.cfg.Store, p.cfg.Posts)
		}, o)
	}
	s, err = publish()
	if errors.Is(err, snapshot.ErrShrank) && before != nil { // what was removed goes, whatever becomes of the rest
		if posts := p.left(before.Manifest); len(posts) > 0 || p.outlived(before.Manifest) {
			if _, err = p.purge(ctx, posts...); err == nil {
				s, err = publish()
			}
		}
	}
	if err == nil && p.outlived(s.Manifest) {
		s, err = p.purge(ctx)
	}
	if err == nil || errors.Is(err, snapshot.ErrShrank) {
		clear(p.removed)
	}
	return s, before, err
}

// What comes of a publication.
const (
	published  = "published"
	same       = "same" // what is current is what the store has
	superseded = "superseded"
	shrank     = "shrank"
	failed     = "failed"
)

func outcomeOf(err error, unchanged bool) string {
	switch {
	case errors.Is(err, snapshot.ErrSuperseded):
		return superseded
	case errors.Is(err, snapshot.ErrShrank):
		return shrank
	case err != nil:
		return failed
	case unchanged:
		return same
	}
	return published
}
