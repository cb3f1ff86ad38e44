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
	// Opened: the database was found good, and holds this; the store is ready.
	Opened func(dataset.Meta)
	// Refused: the database cannot be served, as Open's errors say; it is tried
	// again. Called when the reason changes, and every refusalInterval.
	Refused func(error)
}

// refusalInterval is how often a reason that stays the same is told again.
const refusalInterval = time.Minute

// database is an open one.
type database struct {
	pool *postgres.Pool
	meta dataset.Meta
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
	if !cfg.Lazy {
		if err := s.open(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.metrics.register(cfg.Registerer, s.stat); err != nil {
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
	s.health.answered(time.Now())
	s.database.Store(found)
	return nil
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
	return &database{pool, set.meta}, nil
}

// opener opens a store's database in the background.
type opener struct {
	store  *Store
	reason *results.Error // of the last refusal
	told   time.Time
}

// try opens the database or tells why not.
func (o *opener) try(ctx context.Context) {
	events := &o.store.cfg.Events
	err := o.store.open(ctx)
	switch {
	case err == nil:
		if events.Opened != nil {
			events.Opened(o.store.Meta())
		}
	case ctx.Err() != nil || o.store.closed.Load():
	case events.Refused != nil:
		var reason *results.Error // nil for a refusal by the database itself
		_ = errors.As(err, &reason)
		if now := time.Now(); o.told.IsZero() || reason != o.reason || now.Sub(o.told) >= refusalInterval {
			o.reason, o.told = reason, now
			events.Refused(err)
		}
	}
}
