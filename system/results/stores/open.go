package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/dataset"
	"loadstone/system/results"
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

	logger  *slog.Logger
	run     func(ctx context.Context) error
	state   func() (results.State, bool)
	answers func() bool // nil: files do, once they are open
	pool    int         // of a database, 0 for files
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
		err = s.followDatabase(ctx, n.Target)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return s, nil
}

// follow opens the snapshot at path and serves each newer one.
func (s *Served) follow(path string, registerer prometheus.Registerer) error {
	files := promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "results_snapshots_total",
		Help: "New snapshot files, by whether they are served or were refused.",
	}, []string{"outcome"})
	served, refused := files.WithLabelValues("served"), files.WithLabelValues("refused")

	cfg := snapshot.DefaultConfig()
	cfg.Events.Refused = func(err error) {
		refused.Inc()
		s.refused(err)
	}
	cfg.Events.Switched = func(from, to dataset.Meta) {
		served.Inc()
		s.switched(from, to)
	}
	store, err := snapshot.Follow(path, cfg)
	if err != nil {
		return err
	}
	s.Store, s.run, s.state = store, store.Run, store.State
	s.opened(store.Meta())
	return nil
}

// followDatabase opens the SQLite database at path and serves each newer one.
func (s *Served) followDatabase(ctx context.Context, path string) error {
	store, err := sqlitestore.Follow(ctx, path, sqlitestore.Config{Interval: checkInterval, Switched: s.switched, Refused: s.refused})
	if err != nil {
		return err
	}
	s.Store, s.run, s.state = store, store.Run, func() (results.State, bool) { return store.State(), true }
	s.opened(store.Meta())
	return nil
}

// checkInterval is how often a file is looked for.
const checkInterval = time.Second

// connect opens the database at the address. One that does not answer is opened
// later, when it does. One that answers and cannot be served is a mistake that is
// better told at once.
func (s *Served) connect(ctx context.Context, address string, registerer prometheus.Registerer) error {
	cfg := pgstore.DefaultConfig()
	cfg.URL, cfg.Registerer = address, registerer
	cfg.Events.Switched = s.switched
	cfg.Events.Refused = func(err error) {
		s.logger.Warn("the database cannot be served; trying again", "error", err)
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
	s.Store, s.run, s.state, s.answers, s.pool = store, store.Run, store.State, store.Ready, poolSize(address, cfg.Connections)
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
	s.logger.Info("store opened", "origin", meta.Origin, "students", meta.Count)
}

func (s *Served) switched(from, to dataset.Meta) {
	s.logger.Info("new data set served", "origin", to.Origin, "students", to.Count, "before", from.Origin)
	if s.Changed != nil {
		s.Changed(from, to)
	}
}

func (s *Served) refused(err error) {
	s.logger.Error("the new file is refused; the old one still is served", "error", err)
}

// Run follows what changes at the store until ctx ends.
func (s *Served) Run(ctx context.Context) error { return s.run(ctx) }

// State returns what the store said when it was last asked, at most about a second ago if
// it answers. It is false as long as it has not said anything, and while it holds no data
// set whole: then nothing may be served.
func (s *Served) State() (results.State, bool) { return s.state() }

// Publication says whether results are out, as far as the store has said.
func (s *Served) Publication() results.Publication {
	state, known := s.state()
	if !known {
		return results.Publication{}
	}
	return state.Publication()
}

// Pool implements pagecache.Backing.
func (s *Served) Pool() int { return s.pool }

// Answers reports whether the store can be asked at all.
func (s *Served) Answers() bool { return s.answers == nil || s.answers() }
