// Package pgstore keeps activities in PostgreSQL: the SQL of "SQL to NoSQL".
//
// Each activity is one prepared INSERT that is its own transaction. The service
// does not put several requests into one: PostgreSQL groups the syncs of
// transactions that commit at one time by itself, as Cassandra does. The
// connections ask for synchronous_commit=on, whatever the server's default; whether
// the server syncs at all (fsync) is asked once and told by Durability.
//
// The store owns its pool and the table activities in the schema that the address
// leads to. It makes the table if it is not there; several processes may do so at
// one time.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/postgres"
	"loadstone/system/patterns/activity"
)

// Config says which database, and how long to wait for it. Start from DefaultConfig.
type Config struct {
	postgres.Config

	// Registerer receives the metrics, see Open.
	Registerer prometheus.Registerer
}

// DefaultConfig returns a configuration whose URL and Registerer are for the
// caller to set.
//
//   - Connections: 16. A write holds its connection while its log is synced, and
//     waits more than it works, so more connections than cores are of use: those
//     who commit at one time share a sync. Each is a process of the database.
//   - Waiting: 1024, and AcquireTimeout a second, as for the other stores' queues.
//   - StatementTimeout: two seconds, hundreds of times what a write takes: then the
//     database is in trouble and should not work for somebody who left.
//   - QueryTimeout: three, for a database that is gone without a word; it costs
//     the connection, so the database's own limit comes first.
func DefaultConfig() Config {
	return Config{Config: postgres.Config{
		Name:        "loadstone activities",
		Connections: 16, Waiting: 1024, AcquireTimeout: time.Second,
		StatementTimeout: 2 * time.Second, QueryTimeout: 3 * time.Second,
		Parameters: map[string]string{"synchronous_commit": "on"},
		Statements: map[string]string{putName: put, getName: get},
	}}
}

// The statements, and the names under which they are prepared.
const (
	putName = "put_activity"
	getName = "get_activity"

	// The upsert is what Cassandra's INSERT is: the last one wins.
	put = `INSERT INTO activities (id, user_name, kind, at_ms, details) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET user_name = excluded.user_name, kind = excluded.kind, at_ms = excluded.at_ms, details = excluded.details`
	get = `SELECT user_name, kind, at_ms, details FROM activities WHERE id = $1`

	// The key is compared by bytes: no collation to look up, and the same order
	// on every machine.
	schema = `CREATE TABLE IF NOT EXISTS activities (
		id text COLLATE "C" PRIMARY KEY,
		user_name text NOT NULL,
		kind text NOT NULL,
		at_ms bigint NOT NULL, -- milliseconds since 1970
		details text NOT NULL
	)`
	// schemaLock is the advisory lock under which the table is made: without it
	// two who find it missing both make it, and one fails. "LSAC".
	schemaLock = 0x4c534143
)

// Store is an activity.Store over one database.
type Store struct {
	pool       *postgres.Pool
	durability activity.Durability
}

// Open connects, makes the table if it is not there, and registers the metrics:
//
//	activities_pool_size, activities_pool_in_use, activities_pool_waiting   gauges of connections and of who waits for one
//	activities_pool_wait_seconds_total                                      time that was waited for one
//
// It returns by the end of ctx at the latest; a database that cannot be reached is
// an error that wraps activity.ErrUnavailable.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open the database of activities: %w", classify(err))
	}
	register(cfg.Registerer, s.pool)
	return s, nil
}

func open(ctx context.Context, cfg Config) (*Store, error) {
	if err := makeTable(ctx, cfg.URL); err != nil {
		return nil, err
	}
	pool, err := postgres.Open(ctx, cfg.Config)
	if err != nil {
		return nil, err
	}
	s := &Store{pool: pool}
	if err := pool.With(ctx, s.askDurability); err != nil {
		pool.Close()
		return nil, fmt.Errorf("ask for its settings: %w", err)
	}
	return s, nil
}

func makeTable(ctx context.Context, address string) (err error) {
	conn, err := postgres.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return postgres.BeginLocked(ctx, conn, schemaLock, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, schema); err != nil {
			return fmt.Errorf("make the table: %w", err)
		}
		return nil
	})
}

// askDurability asks how durable what is written over the connection is.
func (s *Store) askDurability(ctx context.Context, conn *pgxpool.Conn) error {
	var fsync, commit string
	if err := conn.QueryRow(ctx, "SELECT current_setting('fsync'), current_setting('synchronous_commit')").Scan(&fsync, &commit); err != nil {
		return err
	}
	s.durability = activity.Durability{
		Synced: fsync == "on" && commit == "on",
		How:    "PostgreSQL: fsync=" + fsync + ", synchronous_commit=" + commit,
	}
	return nil
}

// with lends a connection to do, within the bounds.
func (s *Store) with(ctx context.Context, do func(ctx context.Context, conn *pgxpool.Conn) error) error {
	return classify(s.pool.With(ctx, do))
}

// Put implements activity.Store.
func (s *Store) Put(ctx context.Context, a *activity.Activity) error {
	err := s.with(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, putName, a.ID, a.User, a.Kind, a.Millis(), a.Details)
		return err
	})
	if err != nil {
		return fmt.Errorf("store activity %s: %w", a.ID, err)
	}
	return nil
}

// Get implements activity.Store.
func (s *Store) Get(ctx context.Context, id string) (activity.Activity, error) {
	a, at := activity.Activity{ID: id}, int64(0)
	err := s.with(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, getName, id).Scan(&a.User, &a.Kind, &at, &a.Details)
	})
	if err != nil {
		return activity.Activity{}, fmt.Errorf("read activity %s: %w", id, err)
	}
	a.At = activity.Time(at)
	return a, nil
}

// classify gives an error of a statement the identity that activity.Store promises.
func classify(err error) error {
	switch postgres.KindOf(err) {
	case postgres.NotFound:
		return activity.ErrNotFound
	case postgres.Busy:
		return fmt.Errorf("%w: %w", activity.ErrBusy, err)
	case postgres.Closed:
		return activity.ErrClosed
	case postgres.Unavailable:
		return fmt.Errorf("%w: %w", activity.ErrUnavailable, err)
	default:
		return err
	}
}

// Durability implements activity.Store.
func (s *Store) Durability() activity.Durability { return s.durability }

// Close implements activity.Store.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}
