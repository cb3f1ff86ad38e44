// Package pgstore keeps a data set in a PostgreSQL database: the full form's
// store, which several servers share.
//
// Seed fills a database, Open serves it and Correct corrects single students of it.
// The tables lie in a schema of their
// own, results, so that the database may hold other things and
// `DROP SCHEMA results CASCADE` takes ours away. Migrate makes the schema; the
// numbered files in migrations are all there is to it.
//
// # What fails how
//
// A Store outlives its database. While that is away, look-ups fail soon with an
// error that is results.ErrUnavailable; when it is back they succeed again, and
// nobody has to do anything. Every look-up ends in Config.AcquireTimeout plus
// Config.QueryTimeout at the latest.
//
// A database that was not filled whole is not opened: a seed that was
// interrupted must be run again, and goes on where it stopped. A lazy Store
// (Config.Lazy) waits for that, not ready.
//
// The data set is also a source: publishing is snapshot.Build of a Source.
//
// The address is a URL as psql takes it. What it leaves out, such as the
// password, may come from PostgreSQL's own variables (PGPASSWORD) and files.
// Addresses are secrets: Redact makes one fit to be shown.
package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/redact"
)

// Config says which database to serve and how long to wait for it.
type Config struct {
	// URL is the database, postgres://USER@HOST:PORT/DATABASE.
	URL string
	// Connections is the size of the pool. The parameter pool_max_conns of
	// the URL wins.
	Connections int
	// AcquireTimeout bounds how long a look-up waits for a free connection.
	AcquireTimeout time.Duration
	// QueryTimeout bounds a query as seen from here.
	QueryTimeout time.Duration
	// StatementTimeout is after how long the database itself ends a query; less
	// than QueryTimeout.
	StatementTimeout time.Duration
	// CheckInterval is how often Run asks a database that nobody looks up in.
	CheckInterval time.Duration
	// Lazy lets Open succeed without the database: Run opens it as soon as it is
	// there and good, and until then the store is not Ready and answers nothing.
	Lazy bool
	// Events tell what Run does.
	Events Events
	// Registerer receives the metrics, see metrics.
	Registerer prometheus.Registerer
}

// connectTimeout bounds one attempt to connect. A handshake takes three round
// trips and some milliseconds; who takes longer is not there.
const connectTimeout = 2 * time.Second

// DefaultConfig returns the configuration for a database close by. URL and
// Registerer are for the caller to set.
//
//   - Connections: three for each core. A look-up is processor work on both
//     sides: the rows are in the database's memory. More connections than that
//     only wait for the same cores, and cost the database memory; fewer leave
//     gaps while messages are under way, and a process wakes for each single
//     one. BenchmarkLookup, 32 callers, client and database on the same 2 cores
//     with other work beside them, medians of 28 rounds:
//
//     connections               1      2      3      4      6      8     16
//     look-ups a second     8,400 10,200 12,000 12,100 15,600 16,100 13,400
//     processor time, us      104    111    103     92     84     84     87
//
//   - AcquireTimeout: one second. Who waits longer stands behind thousands of
//     look-ups, and is better told to come back than kept.
//
//   - StatementTimeout: one second, 10,000 times what a look-up takes: then the
//     database is in trouble, and should stop working for somebody who has left.
//
//   - QueryTimeout: twice that. It is for a database or network that is gone
//     without a word, and costs the connection; the database's own limit comes
//     first and leaves the connection whole.
//
//   - CheckInterval: one second, as long as a balancer takes to ask again.
func DefaultConfig() Config {
	return Config{
		Connections:      3 * runtime.GOMAXPROCS(0),
		AcquireTimeout:   time.Second,
		QueryTimeout:     2 * time.Second,
		StatementTimeout: time.Second,
		CheckInterval:    time.Second,
	}
}

// maxConnections bounds a pool: a server of the usual size takes a hundred
// connections from everybody together.
const maxConnections = 1000

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{CheckURL(c.URL)}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("pgstore: "+format, args...)) }
	if c.Connections < 1 || c.Connections > maxConnections {
		bad("connections is %d, must be from 1 to %d", c.Connections, maxConnections)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"acquire timeout", c.AcquireTimeout}, {"query timeout", c.QueryTimeout},
		{"check interval", c.CheckInterval},
	} {
		if d.value <= 0 {
			bad("%s is %v, must be positive", d.name, d.value)
		}
	}
	// PostgreSQL counts in milliseconds, and takes 0 for no limit.
	if c.StatementTimeout < time.Millisecond || c.StatementTimeout >= c.QueryTimeout {
		bad("statement timeout is %v, must be from 1ms to less than the query timeout, %v", c.StatementTimeout, c.QueryTimeout)
	}
	if c.Registerer == nil {
		bad("there is no metrics registerer")
	}
	return errors.Join(errs...)
}

// CheckURL reports whether the text is the address of a PostgreSQL database. Its
// error does not show the password.
func CheckURL(text string) error {
	_, err := parse(text)
	return err
}

var schemes = []string{"postgres", "postgresql"}

func parse(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Opaque != "" {
		// Without the reason, which quotes the text and so the password.
		return nil, errors.New("the database's address must be like postgres://USER@HOST:5432/DATABASE, " +
			"with special characters of a password written as %XX")
	}
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		// The reason without the address that pgx puts before it.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, fmt.Errorf("the database's address %s is wrong: %w", Redact(text), err)
	}
	return config, nil
}

// Redact returns an address without its secrets, for people.
func Redact(text string) string { return redact.Address(text) }

// poolConfig is what a serving pool is made from.
func (c Config) poolConfig() (*pgxpool.Config, error) {
	config, err := parse(c.URL)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(c.URL); err == nil && !u.Query().Has("pool_max_conns") {
		config.MaxConns = int32(c.Connections)
	}
	config.ConnConfig.ConnectTimeout = connectTimeout
	// Connections that look-ups wait for are ready before the first of them.
	config.MinConns = config.MaxConns
	// They are made together and replaced after an hour; not all in one moment.
	config.MaxConnLifetimeJitter = 10 * time.Minute
	parameters := config.ConnConfig.RuntimeParams
	parameters["statement_timeout"] = strconv.FormatInt(c.StatementTimeout.Milliseconds(), 10)
	parameters["application_name"] = "loadstone results"
	// Every look-up has the same plan; making it again for each id costs more
	// than following it.
	parameters["plan_cache_mode"] = "force_generic_plan"
	// Rows come one by one through indexes: compiling is never worth its time.
	parameters["jit"] = "off"
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Prepare(ctx, lookupName, lookupStatement)
		return err
	}
	return config, nil
}
