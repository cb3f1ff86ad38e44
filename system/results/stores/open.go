package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/pgstore"
	"loadstone/system/results/snapshot"
	"loadstone/system/results/sqlitestore"
)

// Served is a store that is served: open, or opened later by Run if its database does
// not answer yet.
type Served struct {
	results.Store
	// Changed is called when look-ups are answered from another data set from now on;
	// from is the zero Meta when there was none. It is set before Run, and may be nil.
	Changed func(from, to dataset.Meta)

	logger   *slog.Logger
	run      func(ctx context.Context) error // nil: there is nothing to do
	answers  func() bool                     // nil: files do, once they are open
	snapshot func() dataset.Meta             // nil for a database
	pool     int                             // of a database, 0 for files
	database atomic.Uint64                   // the pagecache.Set of a database
	filled   atomic.Bool
}

// Open opens the store to serve it. Its Close must be called.
func (n Name) Open(ctx context.Context, logger *slog.Logger, registerer prometheus.Registerer) (*Served, error) {
	s := &Served{logger: logger}
	var err error
	switch n.Kind {
	case Snapshot:
		err = s.follow(n.Target, registerer)
	case Postgres:
		err = s.connect(ctx, n.Target, registerer)
	default:
		var store *sqlitestore.Store
		if store, err = sqlitestore.Open(ctx, n.Target); err == nil {
			s.Store = store
			s.opened(store.Meta())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return s, nil
}

// follow opens the snapshot at path and serves each newer one.
func (s *Served) follow(path string, registerer prometheus.Registerer) error {
	files := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "results_snapshots_total",
		Help: "New snapshot files, by whether they are served or were refused.",
	}, []string{"outcome"})
	if err := registerer.Register(files); err != nil {
		return fmt.Errorf("register metrics of the snapshot: %w", err)
	}
	served, refused := files.WithLabelValues("served"), files.WithLabelValues("refused")

	cfg := snapshot.DefaultConfig()
	cfg.Events.Refused = func(err error) {
		refused.Inc()
		s.logger.Error("new snapshot refused; the old one still is served", "error", err)
	}
	cfg.Events.Switched = func(from, to dataset.Meta) {
		served.Inc()
		s.logger.Info("new snapshot served", "origin", to.Origin, "students", to.Count, "before", from.Origin)
		s.changed(from, to)
	}
	store, err := snapshot.Follow(path, cfg)
	if err != nil {
		return err
	}
	s.Store, s.run, s.snapshot = store, store.Run, store.Meta
	s.opened(store.Meta())
	return nil
}

// connect opens the database at the address. One that does not answer is opened
// later, when it does. One that answers and cannot be served is a mistake that is
// better told at once.
func (s *Served) connect(ctx context.Context, address string, registerer prometheus.Registerer) error {
	cfg := pgstore.DefaultConfig()
	cfg.URL, cfg.Registerer = address, registerer
	cfg.Events.Opened = func(meta dataset.Meta) {
		s.opened(meta)
		s.changed(dataset.Meta{}, meta)
	}
	cfg.Events.Refused = func(err error) {
		s.logger.Warn("the database cannot be served yet; trying again", "error", err)
	}
	store, err := pgstore.Open(ctx, cfg)
	if errors.Is(err, results.ErrUnavailable) && ctx.Err() == nil {
		s.logger.Warn("starting without the database", "error", err)
		cfg.Lazy = true
		store, err = pgstore.Open(ctx, cfg)
	}
	if err != nil {
		return err
	}
	s.Store, s.run, s.answers, s.pool = store, store.Run, store.Ready, poolSize(address, cfg.Connections)
	if !cfg.Lazy {
		s.opened(store.Meta())
	}
	return nil
}

// poolSize is how many connections pgstore makes: those of the address win.
func poolSize(address string, configured int) int {
	if u, err := url.Parse(address); err == nil {
		if n, err := strconv.Atoi(u.Query().Get("pool_max_conns")); err == nil && n > 0 {
			return n
		}
	}
	return configured
}

func (s *Served) opened(meta dataset.Meta) {
	s.database.Store(uint64(pagecache.SetOf(meta)))
	s.filled.Store(true)
	s.logger.Info("store opened", "origin", meta.Origin, "students", meta.Count)
}

func (s *Served) changed(from, to dataset.Meta) {
	if s.Changed != nil {
		s.Changed(from, to)
	}
}

// Run follows what changes at the store until ctx ends.
func (s *Served) Run(ctx context.Context) error {
	if s.run == nil {
		<-ctx.Done()
		return nil
	}
	return s.run(ctx)
}

// Set implements pagecache.Backing.
func (s *Served) Set() pagecache.Set {
	if s.snapshot != nil {
		return pagecache.SnapshotSetOf(s.snapshot())
	}
	return pagecache.Set(s.database.Load())
}

// Pool implements pagecache.Backing.
func (s *Served) Pool() int { return s.pool }

// Filled reports that there has been something to serve: before that it is not known
// whose pages these are.
func (s *Served) Filled() bool { return s.filled.Load() }

// Answers reports whether the store can be asked at all.
func (s *Served) Answers() bool { return s.answers == nil || s.answers() }
