package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Policy says what happens to a job that finds no place.
type Policy string

// The policies.
const (
	// Reject refuses it at once: for callers who can come again.
	Reject Policy = "reject"
	// Wait lets Callers of them wait for a place, until Config.Wait: for callers
	// whom it serves better to be slow than to be refused.
	Wait Policy = "wait"
)

// MaxWorkers is the largest size of a pool: beyond that, it bounds nothing.
const MaxWorkers = 100_000

// Config describes a pool. All fields are required but Adaptive, and Callers where
// the policy is Reject.
type Config struct {
	// Name tells this pool's metrics from those of others in the process.
	Name string
	// Workers is how many jobs run at one time: what the resource behind them
	// does best. Queue is how many more are let in.
	Workers, Queue int
	// Full is what happens when there is no place.
	Full Policy
	// Wait is how long a job waits at most until it begins, wherever it waits.
	Wait time.Duration
	// Callers is how many wait for a place at most, with the policy Wait.
	Callers int
	// Adaptive moves the number of places between Workers and Workers + Queue by
	// how the times from entry to end develop. Under overload it keeps the queue
	// short, for a queue then only makes everybody slower. When jobs become slower by
	// themselves it lets fewer in for some seconds, and then takes that for
	// normal. It decides every quarter of a second, after 20 jobs at least.
	Adaptive bool
	// Registerer receives the metrics, see counts.
	Registerer prometheus.Registerer
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	unless := func(fine bool, format string, args ...any) {
		if !fine {
			errs = append(errs, fmt.Errorf("pool: "+format, args...))
		}
	}
	unless(c.Name != "", "there is no name")
	unless(c.Workers >= 1 && c.Workers <= MaxWorkers, "%d workers: write a number from 1 to %d", c.Workers, MaxWorkers)
	unless(c.Queue >= 1 && c.Queue <= MaxWorkers, "a queue of %d: write a number from 1 to %d", c.Queue, MaxWorkers)
	unless(c.Full == Reject || c.Full == Wait, "policy %q: write reject or wait", c.Full)
	unless(c.Wait > 0, "a wait of %v: write a positive duration", c.Wait)
	unless(c.Full != Wait || c.Callers >= 1, "%d callers may wait: write at least 1, or use the policy reject", c.Callers)
	unless(c.Registerer != nil, "there is no metrics registerer")
	return errors.Join(errs...)
}
