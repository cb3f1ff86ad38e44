package pgstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"loadstone/system/results"
)

// Store is a results.Store over one database.
type Store struct {
	cfg     Config
	pool    *pgxpool.Pool
	name    string // of the database, without secrets
	meta    results.Meta
	metrics *metrics
	health  health
	closed  atomic.Bool
}

// Open connects to a database that was filled. The error is results.ErrMissing if
// it was not, or not whole, results.ErrVersion if its tables are of another
// version, results.ErrUnavailable if it does not answer.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, name: Redact(cfg.URL), metrics: newMetrics()}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open database %s: %w", s.name, classify(ctx, err))
	}
	if err := s.metrics.register(cfg.Registerer, s.pool); err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("register metrics of the database: %w", err)
	}
	s.health.answered(time.Now())
	return s, nil
}

func (s *Store) open(ctx context.Context) (err error) {
	// Statements of Open are checked before a pool is made whose connections
	// need the tables to prepare the look-up.
	if s.meta, err = describe(ctx, s.cfg.URL); err != nil {
		return err
	}
	config, err := s.cfg.poolConfig()
	if err != nil {
		return err
	}
	// A pool lives until Close, not as long as the context of Open.
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return err
	}
	if err := s.pool.Ping(ctx); err != nil {
		s.pool.Close()
		return err
	}
	return nil
}

// Lookup finds a student with one query and encodes the page. It waits for a
// connection and for the answer as long as the configuration says, or ctx if
// that is less.
func (s *Store) Lookup(ctx context.Context, id int64) (results.Page, error) {
	began := time.Now()
	page, err := s.lookup(ctx, id)
	now := time.Now()
	outcome := s.outcome(ctx, err)
	s.metrics.looked(outcome, now.Sub(began))
	if outcome == found || outcome == notFound {
		s.health.answered(now)
	}
	if outcome == notFound {
		return results.Page{}, results.ErrNotFound
	}
	if err != nil {
		return results.Page{}, s.failed(fmt.Errorf("look up student %d in %s: %w", id, s.name, classify(ctx, err)))
	}
	return page, nil
}

func (s *Store) lookup(ctx context.Context, id int64) (results.Page, error) {
	waiting, cancel := context.WithTimeout(ctx, s.cfg.AcquireTimeout)
	conn, err := s.pool.Acquire(waiting)
	cancel()
	if err != nil {
		return results.Page{}, fmt.Errorf("get a connection: %w", err)
	}
	defer conn.Release()
	ctx, cancel = context.WithTimeout(ctx, s.cfg.QueryTimeout)
	defer cancel()
	var row row
	if err := conn.QueryRow(ctx, lookupName, id).Scan(row.targets()...); err != nil {
		return results.Page{}, err
	}
	if err := row.parse(); err != nil {
		return results.Page{}, err
	}
	return results.NewPage(&row.student), nil
}

// failed turns an error that comes from Close into ErrUnavailable.
func (s *Store) failed(err error) error {
	if s.closed.Load() {
		return results.ErrUnavailable
	}
	return err
}

// Meta describes the data set.
func (s *Store) Meta() results.Meta { return s.meta }

// Close closes the connections after the queries under way. Look-ups then
// return results.ErrUnavailable. It always returns nil, and may be called again.
func (s *Store) Close() error {
	if !s.closed.Swap(true) {
		s.pool.Close()
		s.metrics.unregister(s.cfg.Registerer)
	}
	return nil
}
