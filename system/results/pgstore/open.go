package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/results"
)

// Events tell what a store does by itself. Each may be nil; they are called by
// Run and must return soon.
type Events struct {
	// Switched: look-ups are answered from another data set from now on. From is the
	// zero Meta if there was none.
	Switched func(from, to dataset.Meta)
	// Refused: the database cannot be served, as Open's errors say; it is tried
	// again. Called when the reason changes, and every refusalInterval.
	Refused func(error)
}

// database is an open one, as it was when it was last asked.
type database struct {
	pool *postgres.Pool
	set  *dataSet // nil: it holds none whole
}

// Open connects to a database that was filled. The error is results.ErrMissing if
// it was not, or not whole, results.ErrVersion if its tables are of another
// version, results.ErrUnavailable if it does not answer.
//
// If Config.Lazy is set, it asks the database nothing: Run opens it, whenever it
// is there and good.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, name: redact.Address(cfg.URL), metrics: newMetrics()}
	s.health.said.Store(time.Now().UnixNano())
	if !cfg.Lazy {
		if err := s.open(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.metrics.register(cfg.Registerer, s); err != nil {
		return nil, errors.Join(fmt.Errorf("register metrics of the database: %w", err), s.Close())
	}
	return s, nil
}

// open finds out whether the database can be served, and makes the pool.
func (s *Store) open(ctx context.Context) error {
	found, err := connectPool(ctx, s.cfg)
	if err != nil {
		return fmt.Errorf("open database %s: %w", s.name, classify(ctx, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Load() {
		found.pool.Close()
		return results.ErrUnavailable
	}
	s.health.says(time.Now())
	s.database.Store(found)
	return nil
}

// hold keeps what the database said that it holds.
func (s *Store) hold(set *dataSet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed.Load() {
		s.database.Store(&database{s.database.Load().pool, set})
	}
}

func connectPool(ctx context.Context, cfg Config) (*database, error) {
	// The tables are checked before a pool is made whose connections need them
	// to prepare the look-up.
	set, err := describe(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	pool, err := postgres.Open(ctx, cfg.Config)
	if err != nil {
		return nil, err
	}
	return &database{pool, set}, nil
}
