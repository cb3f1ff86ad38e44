package reconcile

import (
	"errors"
	"fmt"
	"time"
)

// Config says who is checked. Start from DefaultConfig.
type Config struct {
	App, Log string // host:port of the service and of the log service
	// Rate is how many events are sent a second, and For how long.
	Rate int
	For  time.Duration
	// Settle is how long an accepted event may take to be stored. One that takes
	// longer is missing. So long the log service may also take to answer for all of
	// them at the end.
	Settle time.Duration
	// Stay is whether Run goes on after the last event was found: it asks for all of
	// them again every second, and serves the count, until its context ends.
	Stay bool
	// AdminListen is the address for metrics, host:port.
	AdminListen string
}

// DefaultConfig sends 200 events a second for ten seconds.
func DefaultConfig() Config {
	return Config{Rate: 200, For: 10 * time.Second, Settle: 30 * time.Second, AdminListen: "127.0.0.1:9093"}
}

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.App == "" || c.Log == "" {
		errs = append(errs, errors.New("reconcile needs the addresses of the service and of the log service, HOST:PORT"))
	}
	if c.Rate < 1 || c.Rate > 10_000 {
		errs = append(errs, fmt.Errorf("%d events a second: write 1 to 10000", c.Rate))
	}
	if c.For <= 0 || c.Settle <= 0 {
		errs = append(errs, fmt.Errorf("it sends for %v and waits for %v: write times above 0", c.For, c.Settle))
	}
	if all := float64(c.Rate) * c.For.Seconds(); all > mostEvents {
		errs = append(errs, fmt.Errorf("%d events a second for %v are %.0f, whose ids it keeps: write a rate and a time for at most %d", c.Rate, c.For, all, mostEvents))
	}
	return errors.Join(errs...)
}

// Count is what was found.
type Count struct {
	Accepted int64 // events answered 2xx
	Stored   int64 // of them, found in the store when it was last asked for them
	Missing  int64 // of them, not found within Config.Settle, or not any more
	Repeated int64 // times that an event was sent again for want of an answer
}

// Balanced reports whether there were events and every accepted one was found.
func (c Count) Balanced() bool { return c.Accepted > 0 && c.Accepted == c.Stored }

// String is the one line that says it.
func (c Count) String() string {
	if c.Accepted == 0 {
		return fmt.Sprintf("accepted none (sent again %d)", c.Repeated)
	}
	sign := "="
	if !c.Balanced() {
		sign = "≠"
	}
	return fmt.Sprintf("accepted %d %s stored %d (missing %d, sent again %d)", c.Accepted, sign, c.Stored, c.Missing, c.Repeated)
}
