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
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/redact"
	"loadstone/system/patterns/activity"
)

// Config says which database, and how long to wait for it. Start from DefaultConfig.
type Config struct {
	// URL is the database, postgres://USER@HOST:PORT/DATABASE. A password may
	// come from PGPASSWORD. The parameter pool_max_conns wins over Connections.
	URL string
	// Connections is the size of the pool.
	Connections int
	// Waiting bounds the requests that wait for a connection. One more is busy.
	Waiting int
	// AcquireTimeout bounds that wait; who waited so long is busy too.
	AcquireTimeout time.Duration
	// StatementTimeout is after how long the database itself ends a statement.
	StatementTimeout time.Duration
	// QueryTimeout bounds a statement as seen from here.
	QueryTimeout time.Duration
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
	return Config{
		Connections: 16, Waiting: 1024, AcquireTimeout: time.Second,
		StatementTimeout: 2 * time.Second, QueryTimeout: 3 * time.Second,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{CheckURL(c.URL)}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("pgstore: "+format, args...)) }
	if c.Connections < 1 || c.Connections > 1000 || c.Waiting < 1 {
		bad("connections are %d and waiting %d; must be 1 to 1000, and at least 1", c.Connections, c.Waiting)
	}
	if c.AcquireTimeout <= 0 || c.StatementTimeout < time.Millisecond || c.StatementTimeout >= c.QueryTimeout {
		bad("timeouts are %v, %v and %v; the first must be positive, the second at least 1ms and less than the third", c.AcquireTimeout, c.StatementTimeout, c.QueryTimeout)
	}
	if c.Registerer == nil {
		bad("there is no metrics registerer")
	}
	return errors.Join(errs...)
}

// CheckURL returns what is wrong with a database's address, without its password,
// or nil.
func CheckURL(text string) error {
	_, err := parse(text)
	return err
}

func parse(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"postgres", "postgresql"}, u.Scheme) || u.Opaque != "" {
		// Without the reason, which quotes the text and so the password.
		return nil, errors.New("the database's address must be like postgres://USER@HOST:5432/DATABASE, with special characters of a password written as %XX")
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		if inner := errors.Unwrap(err); inner != nil { // without the address that pgx puts before it
			err = inner
		}
		return nil, fmt.Errorf("the database's address %s is wrong: %w", redact.Address(text), err)
	}
	return config, nil
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

// connectTimeout bounds one attempt to connect: some round trips and a process
// to start on a machine that may be busy.
const connectTimeout = 2 * time.Second

// Store is an activity.Store over one database.
type Store struct {
	cfg        Config
	pool       *pgxpool.Pool
	gate       activity.Gate
	durability activity.Durability
	closed     atomic.Bool
	close      sync.Once
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
	config, err := cfg.poolConfig()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, gate: activity.NewGate(int(config.MaxConns) + cfg.Waiting)}
	if err := s.prepare(ctx, config.ConnConfig); err != nil {
		return nil, fmt.Errorf("open the database of activities: %w", classify(err))
	}
	// A pool lives until Close, not as long as the context of Open.
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return nil, fmt.Errorf("open the database of activities: %w", classify(err))
	}
	if err := errors.Join(s.pool.Ping(ctx), s.register()); err != nil {
		s.pool.Close()
		return nil, fmt.Errorf("open the database of activities: %w", classify(err))
	}
	return s, nil
}

// prepare makes the table and asks how durable its rows are.
func (s *Store) prepare(ctx context.Context, config *pgx.ConnConfig) (err error) {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", schemaLock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, schema)
		return err
	})
	if err != nil {
		return fmt.Errorf("make the table: %w", err)
	}
	var fsync, commit string
	if err := conn.QueryRow(ctx, "SELECT current_setting('fsync'), current_setting('synchronous_commit')").Scan(&fsync, &commit); err != nil {
		return fmt.Errorf("ask for its settings: %w", err)
	}
	s.durability = activity.Durability{
		Synced: fsync == "on" && commit == "on",
		How:    "PostgreSQL: fsync=" + fsync + ", synchronous_commit=" + commit,
	}
	return nil
}

// poolConfig is what the pool is made from.
func (c Config) poolConfig() (*pgxpool.Config, error) {
	config, err := parse(c.URL)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(c.URL); err == nil && !u.Query().Has("pool_max_conns") {
		config.MaxConns = int32(c.Connections)
	}
	config.MinConns = config.MaxConns // the first requests wait for no handshake
	config.MaxConnLifetimeJitter = 10 * time.Minute
	config.ConnConfig.ConnectTimeout = connectTimeout
	parameters := config.ConnConfig.RuntimeParams
	parameters["application_name"] = "loadstone activities"
	parameters["statement_timeout"] = strconv.FormatInt(c.StatementTimeout.Milliseconds(), 10)
	parameters["synchronous_commit"] = "on"
	parameters["jit"] = "off" // single rows by their key: compiling is never worth its time
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		for name, statement := range map[string]string{putName: put, getName: get} {
			if _, err := conn.Prepare(ctx, name, statement); err != nil {
				return fmt.Errorf("prepare %s: %w", name, err)
			}
		}
		return nil
	}
	return config, nil
}

// with lends a connection to do, within the bounds.
func (s *Store) with(ctx context.Context, do func(ctx context.Context, conn *pgxpool.Conn) error) error {
	if s.closed.Load() {
		return activity.ErrClosed
	}
	if !s.gate.Enter() {
		return activity.ErrBusy
	}
	defer s.gate.Leave()
	acquire, cancel := context.WithTimeout(ctx, s.cfg.AcquireTimeout)
	defer cancel()
	conn, err := s.pool.Acquire(acquire)
	switch {
	case err == nil:
	case s.closed.Load():
		return activity.ErrClosed
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && s.exhausted():
		return fmt.Errorf("%w: no connection became free in %v", activity.ErrBusy, s.cfg.AcquireTimeout)
	default:
		return classify(err)
	}
	defer conn.Release()
	query, cancelQuery := context.WithTimeout(ctx, s.cfg.QueryTimeout)
	defer cancelQuery()
	return classify(do(query, conn))
}

// exhausted reports whether all connections are lent: then it is load that one
// waits for, else a database that takes no connections.
func (s *Store) exhausted() bool {
	stat := s.pool.Stat()
	return stat.AcquiredConns() >= stat.MaxConns()
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
// What is no message of the database comes from the way there; of its messages,
// those of these classes (PostgreSQL's manual, appendix A) say that it cannot now:
// connection, resources, operator (statement_timeout too), operating system.
func classify(err error) error {
	var message *pgconn.PgError
	var scan pgx.ScanArgError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return activity.ErrNotFound
	case errors.As(err, &scan):
		return err
	case errors.As(err, &message) && !slices.ContainsFunc([]string{"08", "53", "57", "58"}, func(class string) bool { return strings.HasPrefix(message.Code, class) }):
		return err
	default:
		return fmt.Errorf("%w: %w", activity.ErrUnavailable, err)
	}
}

// Durability implements activity.Store.
func (s *Store) Durability() activity.Durability { return s.durability }

// Close implements activity.Store.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.closed.Store(true)
		s.pool.Close()
	})
	return nil
}
