// Package cassandrastore keeps activities in Cassandra: the NoSQL of "SQL to
// NoSQL".
//
// Consistency, clocks and durability are those of block/cql: replicas of the service
// need clocks that agree to better than the time in which a client might replace its
// own activity.
//
// The store owns its session, the keyspace and the table activities in it, and
// makes them if they are not there.
package cassandrastore

import (
	"context"
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/block/cql"
	"loadstone/system/patterns/activity"
)

const (
	put = `INSERT INTO activities (id, user_name, kind, at_ms, details) VALUES (?, ?, ?, ?, ?)`
	get = `SELECT user_name, kind, at_ms, details FROM activities WHERE id = ?`

	// Rows are small and read one by one, so compression works on small chunks: a read
	// decompresses one.
	table = `CREATE TABLE IF NOT EXISTS %s.activities (
	id text PRIMARY KEY, user_name text, kind text, at_ms bigint, details text
) WITH compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}`
)

// Store is an activity.Store over one keyspace of a cluster.
type Store struct{ session *cql.Session }

// DefaultConfig returns a configuration whose Cluster is for the caller to set.
func DefaultConfig() cql.Config {
	cfg := cql.DefaultConfig()
	cfg.Tables = []string{table}
	return cfg
}

// Open opens the session, see cql.Open. A cluster that cannot be reached is an error
// that wraps activity.ErrUnavailable.
func Open(ctx context.Context, cfg cql.Config) (*Store, error) {
	session, err := cql.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the keyspace of activities: %w", classify(err))
	}
	return &Store{session}, nil
}

// Put implements activity.Store.
func (s *Store) Put(ctx context.Context, a *activity.Activity) error {
	err := s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		return session.Query(put, a.ID, a.User, a.Kind, a.Millis(), a.Details).Idempotent(true).ExecContext(ctx)
	})
	if err != nil {
		return fmt.Errorf("store activity %s: %w", a.ID, classify(err))
	}
	return nil
}

// Get implements activity.Store.
func (s *Store) Get(ctx context.Context, id string) (activity.Activity, error) {
	a, at := activity.Activity{ID: id}, int64(0)
	err := s.session.Do(ctx, func(ctx context.Context, session *gocql.Session) error {
		return session.Query(get, id).Idempotent(true).ScanContext(ctx, &a.User, &a.Kind, &at, &a.Details)
	})
	if err != nil {
		return activity.Activity{}, fmt.Errorf("read activity %s: %w", id, classify(err))
	}
	a.At = activity.Time(at)
	return a, nil
}

// classify gives an error the identity that activity.Store promises.
func classify(err error) error {
	switch cql.KindOf(err) {
	case cql.NotFound:
		return activity.ErrNotFound
	case cql.Busy:
		return activity.ErrBusy
	case cql.Closed:
		return activity.ErrClosed
	case cql.Unavailable:
		return fmt.Errorf("%w: %w", activity.ErrUnavailable, err)
	default:
		return err
	}
}

// Durability implements activity.Store.
func (s *Store) Durability() activity.Durability { return activity.Durability(s.session.Durability()) }

// Close implements activity.Store.
func (s *Store) Close() error {
	s.session.Close()
	return nil
}
