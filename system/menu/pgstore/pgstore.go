// Package pgstore keeps menus in a PostgreSQL database, which several servers share.
//
// The tables lie in a schema of their own, menu, so that the database may hold other
// things and `DROP SCHEMA menu CASCADE` takes ours away. Open makes them if they are not
// there. A look-up and a write are one statement each, and one round trip; a write is on
// stable storage when it returns, if the server syncs at all (fsync).
//
// A Store outlives its database: while that is away, calls fail soon with
// menu.ErrUnavailable, and when it is back they succeed again. Every look-up and write
// ends in Config.AcquireTimeout plus Config.QueryTimeout at the latest.
//
// Addresses are block/postgres's, and secrets.
package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/menu"
)

// Config says which database, and how long to wait for it. Start from DefaultConfig.
type Config struct {
	postgres.Config

	// Registerer receives the metrics, see Open; nil for none.
	Registerer prometheus.Registerer
}

// DefaultConfig returns a configuration whose URL is for the caller to set.
//
//   - Connections: four for each core. A look-up is processor work on both sides, and a
//     write waits for its sync, which those who commit at one time share.
//   - Waiting: 1024; one more is told to come back (menu.ErrOverloaded), and so is who
//     waited for AcquireTimeout, a second.
//   - StatementTimeout: one second, thousands of times what a look-up takes: then the
//     database is in trouble, and should stop working for somebody who has left.
//   - QueryTimeout: twice that. It is for a database or network that is gone without a
//     word, and costs the connection; the database's own limit comes first.
func DefaultConfig() Config {
	return Config{Config: postgres.Config{
		Name:        "loadstone menus",
		Connections: 4 * runtime.GOMAXPROCS(0), Waiting: 1024, AcquireTimeout: time.Second,
		StatementTimeout: time.Second, QueryTimeout: 2 * time.Second,
		Parameters: map[string]string{
			"synchronous_commit":            "on",
			"default_transaction_isolation": "read committed", // what the statement of a write counts on
			"plan_cache_mode":               "force_generic_plan",
		},
		Statements: map[string]string{lookupName: lookup, writeName: write, nextName: next, skipName: skip},
	}}
}

// Store is a menu.Desk and a menu.Filler over one database.
type Store struct {
	cfg  Config
	name string // of the database, without secrets
	pool *postgres.Pool
	// writes of this process since it opened the store.
	writes atomic.Int64

	mu    sync.Mutex
	conns map[*pgx.Conn]struct{} // beside the pool; nil when the store is closed
}

// Open connects, brings the tables to this program's version, and registers the metrics of
// postgres.Pool.Register, whose names begin with menu, and
//
//	menu_database_wait_seconds_total   time that was waited for a connection
//
// Its error wraps menu.ErrUnavailable if the database does not answer, and
// menu.ErrVersion if its tables are of a later program.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, name: redact.Address(cfg.URL), conns: map[*pgx.Conn]struct{}{}}
	err := migrate(ctx, cfg.URL)
	if err == nil {
		s.pool, err = postgres.Open(ctx, cfg.Config)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", s.name, s.classify(ctx, err))
	}
	if cfg.Registerer != nil {
		s.pool.Register("menu", cfg.Registerer)
		promauto.With(cfg.Registerer).NewCounterFunc(prometheus.CounterOpts{Name: "menu_database_wait_seconds_total", Help: "Time that was waited for a connection."},
			func() float64 { return s.pool.Stat().EmptyAcquireWaitTime().Seconds() })
	}
	return s, nil
}

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Keys of the advisory locks, "LSMN" and a number.
const (
	migrateLock = 0x4c534d4e_00000001
	fillLock    = 0x4c534d4e_00000002
	logLock     = 0x4c534d4e_00000003
)

func migrate(ctx context.Context, address string) error {
	steps, err := postgres.ReadMigrations(migrationFiles, "menu", migrateLock)
	if err != nil {
		return err
	}
	return steps.MigrateAt(ctx, address)
}

// filled is the row of menu.data_set.
type filled struct {
	meta     dataset.Meta
	chunk    int
	complete bool
}

// readFilled returns nil if there was no filling.
func readFilled(ctx context.Context, db postgres.Querier) (*filled, error) {
	var f filled
	err := db.QueryRow(ctx, "SELECT origin, fingerprint, menus, chunk_menus, completed_at IS NOT NULL FROM menu.data_set").
		Scan(&f.meta.Origin, &f.meta.Fingerprint, &f.meta.Count, &f.chunk, &f.complete)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what it was filled with: %w", err)
	}
	return &f, nil
}

// errFilling is why there are no menus before a filling is complete.
var errFilling = fmt.Errorf("%w: the filling has not ended; if it was interrupted, fill it with the same again", menu.ErrMissing)

// classify gives an error the identity that menu.Database promises.
func (s *Store) classify(ctx context.Context, err error) error {
	switch kind := postgres.KindOf(err); {
	case err != nil && s.closed():
		return fmt.Errorf("%w: it was closed", menu.ErrUnavailable)
	case errors.Is(err, postgres.ErrNewer):
		return fmt.Errorf("%w: %w", menu.ErrVersion, err)
	default:
		return menu.Classify(ctx, err, kind == postgres.Busy, kind == postgres.Unavailable || kind == postgres.Closed)
	}
}

// Ping asks the database for a sign of life over a connection of the pool.
func (s *Store) Ping(ctx context.Context) error {
	return s.classify(ctx, s.pool.Ping(ctx))
}

// connect makes a connection beside the pool, without the deadlines of look-ups: reading
// or filling everything takes as long as it takes. Close ends it, if hangUp has not.
func (s *Store) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := postgres.Connect(ctx, s.cfg.URL)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		_ = conn.PgConn().Conn().Close()
		return nil, postgres.ErrClosed
	}
	s.conns[conn] = struct{}{}
	return conn, nil
}

// hangUp ends a connection, and with it what the database does for it. Others may use it.
func (s *Store) hangUp(conn *pgx.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
	_ = conn.PgConn().Conn().Close()
}

func (s *Store) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns == nil
}

// Close closes the connections after look-ups and writes that are under way, and those of
// sources and fillings at once. It always returns nil, and may be called again.
func (s *Store) Close() error {
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.PgConn().Conn().Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.pool.Close()
	return nil
}
