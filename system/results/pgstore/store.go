package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Store is a results.Store over one database.
type Store struct {
	cfg     Config
	name    string // of the database, without secrets
	metrics *metrics
	health  health

	database atomic.Pointer[database] // nil until it is open
	mu       sync.Mutex               // opening and closing exclude each other
	closed   atomic.Bool
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

// errNothing is why there is no answer before Run has opened the database, and while it
// is filled anew.
var errNothing error = kind{results.ErrUnavailable, errors.New("the database is not known to hold a data set whole")}

func (s *Store) lookup(ctx context.Context, id int64) (results.Page, error) {
	db := s.database.Load()
	if db == nil || db.set == nil {
		return results.Page{}, errNothing
	}
	var row row
	err := db.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, lookupName, id).Scan(row.targets()...)
	})
	if err == nil {
		err = row.parse()
	}
	if err != nil {
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

// Meta describes the data set as it was filled, whatever was corrected since; it
// is empty if there is none, see State.
func (s *Store) Meta() dataset.Meta {
	if db := s.database.Load(); db != nil && db.set != nil {
		return db.set.meta
	}
	return dataset.Meta{}
}

// stat is the state of the pool, nil as long as there is none.
func (s *Store) stat() *pgxpool.Stat {
	if db := s.database.Load(); db != nil {
		return db.pool.Stat()
	}
	return nil
}

// Close closes the connections after the queries under way. Look-ups then
// return results.ErrUnavailable. It always returns nil, and may be called again.
func (s *Store) Close() error {
	s.mu.Lock()
	already := s.closed.Swap(true)
	s.mu.Unlock()
	if already {
		return nil
	}
	if db := s.database.Load(); db != nil {
		db.pool.Close()
	}
	s.metrics.unregister(s.cfg.Registerer)
	return nil
}
