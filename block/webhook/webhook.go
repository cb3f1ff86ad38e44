// Package webhook tells HTTP endpoints of the messages of a log, signed as the Standard
// Webhooks specification says (version 1.0.0, symmetric): headers webhook-id,
// webhook-timestamp and webhook-signature.
//
// It knows neither what the messages are about nor the store of the log: a Source reads
// them, and Places keep how far each endpoint is.
//
// # What a receiver can rely on
//
//   - Every message arrives at least once, with the same id each time. Of messages with
//     the same key that wait together only the newest is sent.
//   - Those of one key arrive in order: the next one is sent when the last was answered
//     2xx. Only a sender that is stopped in the middle of a request, for longer than
//     Lease, can send one after a newer one.
//   - If messages are lost, because the endpoint was down for longer than the source
//     keeps them or refused one for Patience, it gets {"type":"gap","since":TIME}:
//     any message since then may be missing.
//
// # How
//
// Each endpoint has a place of its own, so that one which is down holds back nobody. Any
// number of senders share the places; who has written its name into a place sends, and
// writes again before a third of Lease is over. The others take over when a place has not
// changed for Lease by their own clocks, or was left. So two send at once only in error, and
// a killed sender's successor repeats at most one batch.
//
// A try that fails is repeated after a pause that doubles, with jitter; the whole endpoint
// waits, because what does not answer one message seldom answers the next. 410 Gone ends
// the sending until the senders are started anew. Redirects are failures: who configured
// the address decides where messages go.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Message is what an endpoint is told.
type Message struct {
	// ID is the same whenever this message is sent: letters, digits, - and _.
	ID string
	// Key is what the message is about.
	Key string
	// Cursor is where the log goes on behind the message.
	Cursor string
	// At is when it happened.
	At time.Time
	// Body is JSON.
	Body []byte
}

// Source is a log of messages.
type Source interface {
	// After returns the messages behind a cursor ("" for the oldest that is kept), in the order
	// of the log, at most limit; none at its end.
	After(ctx context.Context, cursor string, limit int) ([]Message, error)
	// End is the cursor of the newest message, "" if there is none.
	End(ctx context.Context) (string, error)
}

// Places keep a small text for each endpoint.
type Places interface {
	// Load returns the text of an endpoint, nil if there is none.
	Load(ctx context.Context, endpoint string) ([]byte, error)
	// Swap replaces it, if it still is old (nil: if there still is none). Else the error
	// wraps ErrTaken. Any other error leaves open whether it was replaced.
	Swap(ctx context.Context, endpoint string, old, place []byte) error
}

// ErrTaken says that another sender has written a place.
var ErrTaken = errors.New("another sender has written the place")

// Config says who is told of what, and how patiently. Start from DefaultConfig; the zero
// ones are for the caller.
type Config struct {
	Endpoints  []Endpoint
	Source     Source
	Places     Places
	Registerer prometheus.Registerer
	// Failed is told of what did not work, and is repeated. It must not block. Nil for nobody.
	Failed func(endpoint string, err error)

	// Timeout bounds one try.
	Timeout time.Duration
	// First is the pause after a failure. It doubles up to Most.
	First, Most time.Duration
	// MostRetryAfter bounds what an answer's Retry-After can ask for.
	MostRetryAfter time.Duration
	// Patience is how long an endpoint may refuse a message, answering something else than
	// that it is gone, elsewhere or overloaded, until the message is given up. One
	// that cannot be reached is waited for.
	Patience time.Duration
	// Kept is how long the source keeps messages.
	Kept time.Duration
	// Poll is how often the log is read where nothing is new, and a place that another has.
	Poll time.Duration
	// Lease is how long a place must not have changed to be taken over.
	Lease time.Duration
	// Batch is how many messages of an endpoint are in memory, Parallel how many of them are
	// sent at once.
	Batch, Parallel int
}

// DefaultConfig returns one for receivers anywhere on the Internet.
func DefaultConfig() Config {
	return Config{
		Timeout: 15 * time.Second, // the specification recommends 15 to 30 s
		First:   time.Second, Most: 10 * time.Minute, MostRetryAfter: time.Hour,
		Patience: 24 * time.Hour, // somebody has read the alert by then
		Poll:     time.Second,
		Lease:    45 * time.Second, // a third of it and a try leave as much to spare
		Batch:    100, Parallel: 4,
	}
}

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	names := map[string]bool{}
	for _, e := range c.Endpoints {
		errs = append(errs, e.Validate())
		if names[e.Name] {
			errs = append(errs, fmt.Errorf("two endpoints have the name %q: write another", e.Name))
		}
		names[e.Name] = true
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"timeout", c.Timeout}, {"first pause", c.First}, {"longest pause", c.Most}, {"longest Retry-After", c.MostRetryAfter},
		{"patience", c.Patience}, {"time that messages are kept", c.Kept}, {"poll", c.Poll},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s is %v: write a positive time", d.name, d.value))
		}
	}
	if c.Lease/3+c.Timeout >= c.Lease {
		errs = append(errs, fmt.Errorf("lease is %v: write more than one and a half of the timeout, %v", c.Lease, c.Timeout))
	}
	if c.Batch < 1 || c.Parallel < 1 {
		errs = append(errs, fmt.Errorf("batch is %d and parallel %d: write at least 1", c.Batch, c.Parallel))
	}
	return errors.Join(errs...)
}

// Sender sends to all endpoints of a configuration.
type Sender struct{ endpoints []*endpoint }

// New returns a sender, which does nothing before Run.
func New(cfg Config) (*Sender, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Failed == nil {
		cfg.Failed = func(string, error) {}
	}
	m, s := newMetrics(cfg.Registerer), &Sender{}
	for _, e := range cfg.Endpoints {
		s.endpoints = append(s.endpoints, newEndpoint(e, cfg, m))
	}
	return s, nil
}

// Run sends until ctx ends, and then leaves its places to others. It returns nil.
func (s *Sender) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, e := range s.endpoints {
		all.Go(func() { e.run(ctx) })
	}
	all.Wait()
	return nil
}
