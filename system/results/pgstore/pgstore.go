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
// Addresses are block/postgres's, and secrets: redact.Address makes one fit to be shown.
package pgstore

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/postgres"
)

// Config says which database to serve and how long to wait for it.
type Config struct {
	postgres.Config

	// CheckInterval is how often Run asks the database what it holds.
	CheckInterval time.Duration
	// Lazy lets Open succeed without the database: Run opens it as soon as it is
	// there and good, and until then the store is not Ready and answers nothing.
	Lazy bool
	// Events tell what Run does.
	Events Events
	// Registerer receives the metrics, see metrics.
	Registerer prometheus.Registerer
}

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
//   - CheckInterval: one second. So long a correction, another data set or another
//     time of publication may go unnoticed.
//
//   - Waiting: as many as there are; those who serve bound their requests.
func DefaultConfig() Config {
	return Config{
		Config: postgres.Config{
			Name:             "loadstone results",
			Connections:      3 * runtime.GOMAXPROCS(0),
			Waiting:          1 << 20,
			AcquireTimeout:   time.Second,
			QueryTimeout:     2 * time.Second,
			StatementTimeout: time.Second,
			// Every look-up has the same plan; making it again for each id costs more
			// than following it.
			Parameters: map[string]string{"plan_cache_mode": "force_generic_plan"},
			Statements: map[string]string{lookupName: lookupStatement},
		},
		CheckInterval: time.Second,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.CheckInterval <= 0 {
		errs = append(errs, fmt.Errorf("pgstore: check interval is %v, must be positive", c.CheckInterval))
	}
	if c.Registerer == nil {
		errs = append(errs, errors.New("pgstore: there is no metrics registerer"))
	}
	return errors.Join(errs...)
}
