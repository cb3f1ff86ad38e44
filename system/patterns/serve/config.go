package serve

import (
	"errors"
	"fmt"
	"net"
	"time"

	"loadstone/block/redact"
	"loadstone/system/patterns/activity/stores"
	"loadstone/system/patterns/book"
	"loadstone/system/patterns/job"
	"loadstone/system/patterns/movie"
)

// Off is the value of every switch for a pattern that is not used.
const Off = "off"

// maxBodyBytes bounds a request's body: an event or an activity is small.
const maxBodyBytes = 64 << 10

// Config says what to serve and where. Start from DefaultConfig. Registerers of the
// patterns' parts are set by Run.
type Config struct {
	// Listen is the address for everybody, host:port. Port 0 picks a free one.
	Listen string
	// AdminListen is the address for metrics, profiles and the pool's size.
	// Whoever reaches it can slow the process down: it should not be public.
	AdminListen string
	// MaxConns bounds the open connections; one more is answered 503.
	MaxConns int
	// Movies, Books and Jobs are the patterns that are always there, off or on.
	Movies movie.Config
	Books  book.Config
	Jobs   job.Config
	// Events is how POST /handle passes an event on; Off for not at all.
	Events string
	// Activities is where POST /activities stores; Off for nowhere.
	Activities string
	// Drain is how long the service goes on accepting requests, not ready,
	// after it has been told to stop: as long as a balancer takes to notice.
	Drain time.Duration
	// StopTimeout bounds what comes after Drain. Both together must be less
	// than what the process's supervisor waits before it kills.
	StopTimeout time.Duration
}

// DefaultConfig returns a service with all patterns off.
func DefaultConfig() Config {
	return Config{
		Listen:      "127.0.0.1:8080",
		AdminListen: "127.0.0.1:9090",
		// Two buffers and a goroutine each, see httpserver.
		MaxConns:    10_000,
		Movies:      movie.DefaultConfig(),
		Books:       book.DefaultConfig(),
		Jobs:        job.DefaultConfig(),
		Events:      Off,
		Activities:  Off,
		Drain:       100 * time.Millisecond,
		StopTimeout: 8 * time.Second,
	}
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	for _, a := range []struct{ what, value string }{{"listen", c.Listen}, {"admin listen", c.AdminListen}} {
		if _, _, err := net.SplitHostPort(a.value); err != nil {
			errs = append(errs, fmt.Errorf("%s address %q: write HOST:PORT, such as 127.0.0.1:8080", a.what, a.value))
		}
	}
	if c.MaxConns < 1 {
		errs = append(errs, fmt.Errorf("%d connections at most: write at least 1", c.MaxConns))
	}
	if c.Drain < 0 || c.StopTimeout <= 0 {
		errs = append(errs, fmt.Errorf("drain %v and stop timeout %v: write a drain of 0s or more and a stop timeout above", c.Drain, c.StopTimeout))
	}
	return errors.Join(append(errs, c.Movies.Validate(), c.Books.Validate(), c.Jobs.Validate(), c.checkEvents(), c.checkActivities())...)
}

// attributes are the resolved configuration for the log, without secrets.
func (c Config) attributes() []any {
	return []any{
		"listen", c.Listen, "admin", c.AdminListen, "max_conns", c.MaxConns,
		"movies", c.Movies.String(), "books", c.Books.String(), "jobs", c.Jobs.String(),
		"events", redact.Address(c.Events), "activities", stores.Redact(c.Activities),
		"drain", c.Drain.String(), "stop_timeout", c.StopTimeout.String(),
	}
}
