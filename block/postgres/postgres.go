// Package postgres sets up connections to PostgreSQL: a pool whose users are bounded
// in number and time, single connections, locks, and tables that are migrated. It says
// which kind an error of the database is of.
//
// It owns the connections and no table: statements are the caller's, as pgx has them
// (COPY too). An address is a URL as psql takes it; what it leaves out, such as the
// password, may come from PostgreSQL's own variables (PGPASSWORD) and files. Addresses
// are secrets, and no error shows one whole.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/redact"
	"loadstone/block/socket"
)

// Config says which database, and how long to wait for it.
type Config struct {
	// URL is the database, postgres://USER@HOST:PORT/DATABASE.
	URL string
	// Name is what the connections are called in the database's own views.
	Name string
	// Connections is the size of the pool. The parameter pool_max_conns of the URL
	// wins.
	Connections int
	// Waiting bounds the callers who wait for a connection. One more is ErrBusy.
	Waiting int
	// AcquireTimeout bounds that wait. Who waited so long is ErrBusy too.
	AcquireTimeout time.Duration
	// QueryTimeout bounds what a caller does with a connection, as seen from here. It
	// is for a database or network that is gone without a word, and costs the
	// connection.
	QueryTimeout time.Duration
	// StatementTimeout is after how long the database itself ends a statement; less
	// than QueryTimeout, for it leaves the connection whole.
	StatementTimeout time.Duration
	// Parameters are further settings of each connection.
	Parameters map[string]string
	// Statements are prepared when a connection is made, under these names.
	Statements map[string]string
}

// maxConnections bounds a pool: a server of the usual size takes a hundred
// connections from everybody together.
const maxConnections = 1000

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{CheckURL(c.URL)}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("postgres: "+format, args...)) }
	if c.Connections < 1 || c.Connections > maxConnections {
		bad("connections is %d, must be from 1 to %d", c.Connections, maxConnections)
	}
	if c.Waiting < 1 {
		bad("waiting is %d, must be at least 1", c.Waiting)
	}
	if c.AcquireTimeout <= 0 {
		bad("acquire timeout is %v, must be positive", c.AcquireTimeout)
	}
	if c.QueryTimeout <= 0 {
		bad("query timeout is %v, must be positive", c.QueryTimeout)
	}
	// PostgreSQL counts in milliseconds, and takes 0 for no limit.
	if c.StatementTimeout < time.Millisecond || c.StatementTimeout >= c.QueryTimeout {
		bad("statement timeout is %v, must be from 1ms to less than the query timeout, %v", c.StatementTimeout, c.QueryTimeout)
	}
	return errors.Join(errs...)
}

// Size is how many connections the pool has: what the address says wins.
func (c Config) Size() int {
	u, err := url.Parse(c.URL)
	if err != nil {
		return c.Connections
	}
	if n, err := strconv.Atoi(u.Query().Get("pool_max_conns")); err == nil && n > 0 {
		return n
	}
	return c.Connections
}

// CheckURL reports whether the text is the address of a PostgreSQL database. Its
// error does not show the password.
func CheckURL(text string) error {
	_, err := parse(text)
	return err
}

// connectTimeout bounds one attempt to connect, unless the address has a connect_timeout, of
// which 0 is none. A handshake takes some round trips, a process to start and some milliseconds; who takes
// longer is not there.
const connectTimeout = 2 * time.Second

func parse(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains([]string{"postgres", "postgresql"}, u.Scheme) || u.Opaque != "" {
		// Without the reason, which quotes the text and so the password.
		return nil, addressError{errors.New("the database's address must be like postgres://USER@HOST:5432/DATABASE, " +
			"with special characters of a password written as %XX")}
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		// The reason without the address that pgx puts before it.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, addressError{fmt.Errorf("the database's address %s is wrong: %w", redact.Address(text), err)}
	}
	if !u.Query().Has("connect_timeout") {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	config.ConnConfig.DialFunc = pgconn.DialFunc(socket.Dialing(socket.Dial(config.ConnConfig.DialFunc)))
	return config, nil
}

// Connect makes one connection outside of any pool, without the deadlines of one. Its
// error is a *ConnectError, unless the address is wrong.
func Connect(ctx context.Context, address string) (*pgx.Conn, error) {
	config, err := parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, &ConnectError{err}
	}
	return conn, nil
}

// Pool is connections that callers share.
type Pool struct {
	cfg    Config
	pool   *pgxpool.Pool
	inside atomic.Int64 // callers that wait for a connection or have one
	most   int64
	closed atomic.Bool
}

// Open makes a pool, and returns when the database has answered over it.
func Open(ctx context.Context, cfg Config) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	config, err := cfg.poolConfig()
	if err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg, most: int64(config.MaxConns) + int64(cfg.Waiting)}
	// A pool lives until Close, not as long as the context of Open.
	if p.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), config); err != nil {
		return nil, err
	}
	if err := p.pool.Ping(ctx); err != nil {
		p.pool.Close()
		return nil, err
	}
	return p, nil
}

func (c Config) poolConfig() (*pgxpool.Config, error) {
	config, err := parse(c.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(c.Size())
	// Connections that callers wait for are ready before the first of them.
	config.MinConns = config.MaxConns
	// They are made together and replaced after an hour; not all in one moment.
	config.MaxConnLifetimeJitter = 10 * time.Minute
	parameters := config.ConnConfig.RuntimeParams
	parameters["application_name"] = c.Name
	parameters["statement_timeout"] = strconv.FormatInt(c.StatementTimeout.Milliseconds(), 10)
	// Single rows by their keys: compiling is never worth its time.
	parameters["jit"] = "off"
	maps.Copy(parameters, c.Parameters)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		for name, statement := range c.Statements {
			if _, err := conn.Prepare(ctx, name, statement); err != nil {
				return fmt.Errorf("prepare %s: %w", name, err)
			}
		}
		return nil
	}
	return config, nil
}

// With lends a connection to do, within the bounds of the configuration. The error is
// do's, or that of getting a connection. ctx bounds the wait for one; what do has begun ends by the
// configuration's bounds alone, as ending it earlier costs the connection, and making another costs both sides
// more than the query.
func (p *Pool) With(ctx context.Context, do func(ctx context.Context, conn *pgxpool.Conn) error) error {
	if p.closed.Load() {
		return ErrClosed
	}
	if p.inside.Add(1) > p.most {
		p.inside.Add(-1)
		return ErrBusy
	}
	defer p.inside.Add(-1)
	waiting, cancel := context.WithTimeout(ctx, p.cfg.AcquireTimeout)
	conn, err := p.pool.Acquire(waiting)
	cancel()
	if err != nil {
		return p.refusal(ctx, err)
	}
	defer conn.Release()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.QueryTimeout)
	defer cancel()
	return do(bounded, conn)
}

// refusal is why there was no connection.
func (p *Pool) refusal(ctx context.Context, err error) error {
	stat := p.pool.Stat()
	switch {
	case p.closed.Load():
		return ErrClosed
	// All are lent: then it is load that one waited for, else a database that takes no
	// connections.
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && stat.AcquiredConns() >= stat.MaxConns():
		return fmt.Errorf("%w: no connection became free in %v", ErrBusy, p.cfg.AcquireTimeout)
	default:
		return fmt.Errorf("get a connection: %w", err)
	}
}

// maxAttempts bounds how often Tx does a transaction that meets others: with a third
// conflict there is too much of the same, and more attempts only add to it.
const maxAttempts = 3

// Tx is With in a transaction, which is done again, from its beginning, if the database
// ended it because of another one (Conflict): nothing of it was done then. No other
// error is tried again: whether a commit that was not answered was done is not known.
func (p *Pool) Tx(ctx context.Context, do func(ctx context.Context, tx pgx.Tx) error) error {
	return p.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		for attempt := 1; ; attempt++ {
			err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return do(ctx, tx) })
			if KindOf(err) != Conflict || attempt == maxAttempts {
				return err
			}
		}
	})
}

// Ping asks for nothing, over a connection of the pool: a pool that nobody gets a
// connection from is as good as no database.
func (p *Pool) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.AcquireTimeout)
	defer cancel()
	return p.pool.Ping(ctx)
}

// Stat is the state of the pool.
func (p *Pool) Stat() *pgxpool.Stat { return p.pool.Stat() }

// Waiting is how many callers wait for a connection.
func (p *Pool) Waiting() int { return max(int(p.inside.Load())-int(p.pool.Stat().AcquiredConns()), 0) }

// Register registers the metrics of the pool, whose names begin with the prefix:
//
//	{prefix}_database_connections, {prefix}_database_connections_in_use   gauges
//	{prefix}_database_waiting                                             gauge of who waits for a connection
func (p *Pool) Register(prefix string, r prometheus.Registerer) {
	gauge := func(name, help string, value func() float64) {
		promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{Name: prefix + "_database_" + name, Help: help}, value)
	}
	gauge("connections", "Connections to the database at most.", func() float64 { return float64(p.Stat().MaxConns()) })
	gauge("connections_in_use", "Connections that are lent.", func() float64 { return float64(p.Stat().AcquiredConns()) })
	gauge("waiting", "Requests that wait for a connection.", func() float64 { return float64(p.Waiting()) })
}

// Close closes the connections after what is under way. With then returns ErrClosed.
// It may be called again.
func (p *Pool) Close() {
	if !p.closed.Swap(true) {
		p.pool.Close()
	}
}
