// Package eventlog is the log service of the pattern "sync to async": it takes events,
// does its work for each, and stores each exactly once by its id. Run is all of it.
//
// Events come by calls (POST /events, one each) or from a queue, at the service's own
// pace and as many at once as are waiting. Whichever it is, the work and the store are
// the same. An answer 200, or an acknowledgement to the queue, is given only after the
// events are on disk; so the service may be killed at any time.
//
//	POST /events       stores one event; headers as in package event; 200, 400, 503, and
//	                   422 if its id is that of an event with another key or body
//	POST /missing      ids, one a line; answers those that are not stored
//	GET  /healthz, /readyz
//
// Metrics, beside those of the queue and the server:
//
//	eventlog_stored              events in the store, counted from disk at the start
//	eventlog_duplicates_total    events that came again
//	eventlog_conflicts_total     attempts, of which a queue makes several, to store an event
//	                             that has the id of one with another key or body
//	eventlog_age_p50_seconds     from an event's acceptance to its being on disk, by two
//	eventlog_age_p95_seconds     clocks: quantiles of the last ten seconds, absent if
//	eventlog_age_p99_seconds     nothing came in them
//	eventlog_busy_seconds_total  seconds that the one writer was writing
package eventlog

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/queue"
	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/patterns/event"
)

// Config says what to store where, and from where. Start from DefaultConfig.
type Config struct {
	service.Config

	// Store is the file of the database.
	Store string
	// Queue is where events come from beside the calls; nil for nowhere.
	Queue  *event.Target
	Commit Commit
	// Rounds is the work for each event: how often its body is hashed.
	Rounds int
}

// DefaultConfig takes calls only, on loopback.
func DefaultConfig() Config {
	c := Config{Config: service.DefaultConfig("eventlog"), Store: "events.db", Commit: CommitEach, Rounds: 100}
	c.Listen, c.AdminListen = "127.0.0.1:8081", "127.0.0.1:9091"
	c.Drain = 0              // few call it, and they try again
	c.MaxBodyBytes = 1 << 20 // an event, or a list of some thousand ids
	return c
}

// maxRounds bounds the work: a second for an event is no log service.
const maxRounds = 1_000_000

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Config.Validate()}
	if c.Store == "" {
		errs = append(errs, errors.New("the log service has no file for its store"))
	}
	if c.Commit != CommitEach && c.Commit != CommitGroup {
		errs = append(errs, fmt.Errorf("commit %q: write %s or %s", c.Commit, CommitEach, CommitGroup))
	}
	if c.Rounds < 1 || c.Rounds > maxRounds {
		errs = append(errs, fmt.Errorf("%d rounds of work: write 1 to %d", c.Rounds, maxRounds))
	}
	if c.Queue != nil && !c.Queue.Async() {
		errs = append(errs, errors.New("the log service is called at its own address; its queue is nats:// or kafka://, or off"))
	}
	return errors.Join(errs...)
}

// openTimeout bounds the wait for a broker at the start.
const openTimeout = 30 * time.Second

// eventLog is the parts of one Run.
type eventLog struct {
	cfg   Config
	store *Store
	queue event.Queue // nil for none
	age   *age
}

// Run serves until ctx ends, stops taking events, and returns nil if nothing was lost
// in stopping.
func Run(ctx context.Context, cfg Config, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	logger.Info("configuration", "component", cfg.Name,
		"store", cfg.Store, "commit", cfg.Commit, "rounds", cfg.Rounds, "queue", cfg.Queue != nil)
	return service.Run(ctx, cfg.Config, logger, (&eventLog{cfg: cfg, age: newAge()}).open)
}

// open adds the parts in the order in which they depend on each other.
func (s *eventLog) open(ctx context.Context, in *service.Service) (service.Handler, error) {
	var err error
	if s.store, err = OpenStore(ctx, s.cfg.Store, s.cfg.Commit); err != nil {
		return service.Handler{}, err
	}
	in.Add(service.Component{Name: "store", Close: s.store.Close})
	in.Logger.Info("store opened", "stored", s.store.stored.Load())
	s.register(in.Registry)
	if s.cfg.Queue != nil {
		if err := s.consume(ctx, in); err != nil {
			return service.Handler{}, err
		}
	}
	routes := route.New(route.Config{Table: answers, Ready: in.Ready, Logger: in.Logger, Registerer: in.Registry})
	routes.Add("POST", "/events", s.postEvent)
	routes.Add("POST", "/missing", s.postMissing)
	return service.Handler{Handle: routes.Handle, BadRequest: routes.BadRequest}, nil
}

func (s *eventLog) consume(ctx context.Context, in *service.Service) error {
	open, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var err error
	if s.queue, err = s.cfg.Queue.OpenQueue(open); err != nil {
		return err
	}
	m := queue.NewMetrics(in.Registry)
	queue.RegisterStats(in.Registry, s.queue.Stats)
	in.Add(service.Component{
		Name:  "consumer",
		Run:   func(ctx context.Context) error { return s.queue.Consume(ctx, s.take, m) },
		Close: s.queue.Close,
		Ready: s.queue.Ready,
	})
	return nil
}

// take stores a batch from the queue.
func (s *eventLog) take(ctx context.Context, batch []queue.Message) error {
	events := make([]event.Event, len(batch))
	for i, m := range batch {
		e, err := event.Open(m)
		if err != nil {
			return err
		}
		events[i] = e
	}
	err := s.keep(ctx, events)
	if errors.Is(err, errConflict) {
		// Trying again will not help: it is put aside, where somebody can look at it.
		return fmt.Errorf("%w: %w", queue.ErrRefused, err)
	}
	return err
}

// keep does the work for events and stores them.
func (s *eventLog) keep(ctx context.Context, events []event.Event) error {
	for i := range events {
		work(events[i].Body, s.cfg.Rounds)
	}
	if err := s.store.put(ctx, events); err != nil {
		return err
	}
	now := time.Now()
	for i := range events {
		s.age.observe(max(0, now.Sub(events[i].Accepted)))
	}
	return nil
}

// work stands for what a log service does with an event, such as reading, checking
// and enriching it: so many rounds of SHA-256, which no cache shortens.
func work(body []byte, rounds int) [sha256.Size]byte {
	sum := sha256.Sum256(body)
	for range rounds - 1 {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

func (s *eventLog) register(to prometheus.Registerer) {
	to.MustRegister(s.age)
	auto := promauto.With(to)
	auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "eventlog_stored", Help: "Events in the store."},
		func() float64 { return float64(s.store.stored.Load()) })
	auto.NewCounterFunc(prometheus.CounterOpts{Name: "eventlog_duplicates_total", Help: "Events that came again."},
		func() float64 { return float64(s.store.duplicates.Load()) })
	auto.NewCounterFunc(prometheus.CounterOpts{Name: "eventlog_conflicts_total", Help: "Attempts to store an event that has the id of another one."},
		func() float64 { return float64(s.store.conflicts.Load()) })
	auto.NewCounterFunc(prometheus.CounterOpts{Name: "eventlog_busy_seconds_total", Help: "Seconds that the writer was writing."},
		func() float64 { return time.Duration(s.store.busy.Load()).Seconds() })
}
