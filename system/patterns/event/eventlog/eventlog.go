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
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/httpserver"
	"loadstone/block/lifecycle"
	"loadstone/block/queue"
	"loadstone/system/patterns/event"
)

// Config says what to store where, and from where. Start from DefaultConfig.
type Config struct {
	Listen, AdminListen string // host:port
	// Store is the file of the database.
	Store string
	// Queue is where events come from beside the calls; nil for nowhere.
	Queue  *event.Target
	Commit Commit
	// Rounds is the work for each event: how often its body is hashed.
	Rounds int
	// Drain and StopTimeout are httpserver's.
	Drain, StopTimeout time.Duration
}

// DefaultConfig takes calls only, on loopback.
func DefaultConfig() Config {
	return Config{
		Listen: "127.0.0.1:8081", AdminListen: "127.0.0.1:9091", Store: "events.db", Commit: CommitEach, Rounds: 100,
		// Few call it, and they try again.
		Drain: 0, StopTimeout: 8 * time.Second,
	}
}

// maxRounds bounds the work: a second for an event is no log service.
const maxRounds = 1_000_000

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	var errs []error
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

// Listening is called once, when requests are accepted.
type Listening func(api, admin net.Addr)

// openTimeout bounds the wait for a broker at the start.
const openTimeout = 30 * time.Second

// service is the parts of one Run.
type service struct {
	cfg      Config
	registry *prometheus.Registry
	group    *lifecycle.Group
	store    *Store
	queue    event.Queue // nil for none
	age      *age
	api      *httpserver.Server
}

// Run serves until ctx ends, stops taking events, and returns nil if nothing was lost
// in stopping. listening may be nil.
func Run(ctx context.Context, cfg Config, logger *slog.Logger, listening Listening) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	s := &service{cfg: cfg, registry: prometheus.NewRegistry(), group: lifecycle.New(cfg.Drain + cfg.StopTimeout + time.Second)}
	admin, err := s.build(ctx)
	if err != nil {
		return errors.Join(err, s.group.Close())
	}
	logger.Info("listening", "component", "eventlog", "address", s.api.Addr().String(), "admin", admin.Addr().String(),
		"store", cfg.Store, "commit", cfg.Commit, "rounds", cfg.Rounds, "queue", cfg.Queue != nil, "stored", s.store.stored.Load())
	if listening != nil {
		listening(s.api.Addr(), admin.Addr())
	}
	if err := s.group.Run(ctx); err != nil {
		return fmt.Errorf("serve the log of events: %w", err)
	}
	logger.Info("stopped", "component", "eventlog", "stored", s.store.stored.Load())
	return nil
}

// build adds the parts in the order in which they depend on each other. What it has
// made when it fails is in the group.
func (s *service) build(ctx context.Context) (*httpserver.Admin, error) {
	store, err := OpenStore(ctx, s.cfg.Store, s.cfg.Commit)
	if err != nil {
		return nil, err
	}
	s.store = store
	s.group.Add(lifecycle.Component{Name: "store", Close: store.Close})
	if err := s.register(); err != nil {
		return nil, err
	}
	admin, err := httpserver.ListenAdmin(ctx, s.cfg.AdminListen, s.registry)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	s.group.Add(lifecycle.Component{Name: "admin", Run: admin.Run, Close: admin.Close})
	if s.cfg.Queue != nil {
		if err := s.consume(ctx); err != nil {
			return nil, err
		}
	}
	return admin, s.listen(ctx)
}

func (s *service) consume(ctx context.Context) error {
	m, err := queue.NewMetrics(s.registry)
	if err != nil {
		return err
	}
	open, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if s.queue, err = s.cfg.Queue.OpenQueue(open); err != nil {
		return err
	}
	if err := queue.RegisterStats(s.registry, s.queue.Stats); err != nil {
		return errors.Join(err, s.queue.Close())
	}
	s.group.Add(lifecycle.Component{
		Name:  "consumer",
		Run:   func(ctx context.Context) error { return s.queue.Consume(ctx, s.take, m) },
		Close: s.queue.Close,
	})
	return nil
}

// take stores a batch from the queue.
func (s *service) take(ctx context.Context, batch []queue.Message) error {
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
func (s *service) keep(ctx context.Context, events []event.Event) error {
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

func (s *service) register() error {
	if err := httpserver.RegisterProcess(s.registry); err != nil {
		return err
	}
	s.age = newAge()
	for _, c := range []prometheus.Collector{
		s.age,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "eventlog_stored", Help: "Events in the store."},
			func() float64 { return float64(s.store.stored.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eventlog_duplicates_total", Help: "Events that came again."},
			func() float64 { return float64(s.store.duplicates.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eventlog_conflicts_total", Help: "Attempts to store an event that has the id of another one."},
			func() float64 { return float64(s.store.conflicts.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "eventlog_busy_seconds_total", Help: "Seconds that the writer was writing."},
			func() float64 { return time.Duration(s.store.busy.Load()).Seconds() }),
	} {
		if err := s.registry.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
