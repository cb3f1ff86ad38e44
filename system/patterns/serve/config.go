package serve

import (
	"errors"
	"fmt"
	"time"

	"loadstone/block/redact"
	"loadstone/block/service"
	"loadstone/system/patterns/activity/stores"
	"loadstone/system/patterns/book"
	"loadstone/system/patterns/event"
	"loadstone/system/patterns/job"
	"loadstone/system/patterns/movie"
)

// Off is the value of every switch for a pattern that is not used.
const Off = "off"

// Config says what to serve and where. Start from DefaultConfig. Registerers of the
// patterns' parts are set by Run.
type Config struct {
	service.Config

	// Movies, Books and Jobs are the patterns that are always there, off or on.
	Movies movie.Config
	Books  book.Config
	Jobs   job.Config
	// Events is how POST /handle passes an event on; Off for not at all.
	Events string
	// Activities is where POST /activities stores; Off for nowhere.
	Activities string
}

// DefaultConfig returns a service with all patterns off.
func DefaultConfig() Config {
	c := Config{
		Config: service.DefaultConfig("patterns"),
		Movies: movie.DefaultConfig(), Books: book.DefaultConfig(), Jobs: job.DefaultConfig(),
		Events: Off, Activities: Off,
	}
	c.Drain, c.MaxBodyBytes = 100*time.Millisecond, 64<<10 // an event or an activity is small
	return c
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate(), c.Movies.Validate(), c.Books.Validate(), c.Jobs.Validate()}
	if c.Events != Off {
		_, err := event.ParseTarget(c.Events)
		errs = append(errs, err)
	}
	if c.Activities != Off {
		if err := stores.Check(c.Activities); err != nil {
			errs = append(errs, fmt.Errorf("%w, or %s", err, Off))
		}
	}
	return errors.Join(errs...)
}

// attributes are the resolved configuration for the log, without secrets.
func (c Config) attributes() []any {
	return []any{
		"component", c.Name, "listen", c.Listen, "admin", c.AdminListen, "max_conns", c.MaxConns,
		"movies", c.Movies.String(), "books", c.Books.String(), "jobs", c.Jobs.String(),
		"events", redact.Address(c.Events), "activities", stores.Redact(c.Activities),
		"drain", c.Drain.String(), "stop_timeout", c.StopTimeout.String(),
	}
}
