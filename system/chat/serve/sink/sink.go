// Package sink stores for good what several servers of a chat accepted: it reads raw-chats, in a group of
// its own, and writes to Cassandra.
//
// It commits what it has stored, and not before: after a crash some of it comes again, and is the same row.
// While Cassandra cannot be written it waits, and raw-chats grows. A
// record that is no message is put aside, to raw-chats-dead, and stops nothing. It reads analysis-result and
// summary-results, too, only to put aside what is no result: the servers leave such a record out.
//
// A message whose sender had no ack is in raw-chats twice. Who stores it asks Redis for its place, so that
// both have the time of the one that has it, and are one row. Redis knows that for a while; what is older
// is stored as it is.
package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"loadstone/block/pause"
	"loadstone/block/route"
	"loadstone/block/service"
	"loadstone/system/chat"
	"loadstone/system/chat/broadcast"
	"loadstone/system/chat/messagestore"
	"loadstone/system/chat/topics"
)

// Config says from where to where, and how. Start from DefaultConfig.
type Config struct {
	Topics    topics.Config
	Broadcast broadcast.Config
	Store     messagestore.Config
	// Most bounds the records that are read at once, and Linger is how long they wait for more.
	Most   int
	Linger time.Duration
	// AdminListen is the address for metrics and probes.
	AdminListen string
	// Listening is told the address, if it is there.
	Listening func(admin net.Addr)
}

// DefaultConfig leaves the addresses of the parts to the caller.
func DefaultConfig() Config {
	b := broadcast.DefaultConfig()
	b.Keep = broadcast.MostKept // how much is kept is the servers' to say: who gives a place drops what is older
	return Config{
		Topics: topics.DefaultConfig(), Broadcast: b, Store: messagestore.DefaultConfig(),
		Most: 1000, Linger: 200 * time.Millisecond, AdminListen: "127.0.0.1:9091",
	}
}

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	errs := []error{c.Topics.Validate(), c.Broadcast.Validate(), c.Store.Validate()}
	if c.Most < 1 || c.Most > 10_000 {
		errs = append(errs, fmt.Errorf("%d records are read at once: write 1 to 10000", c.Most))
	}
	if c.Linger <= 0 || c.Linger > 10*time.Second {
		errs = append(errs, fmt.Errorf("records linger for %v: write more than 0, and 10s at most", c.Linger))
	}
	return errors.Join(errs...)
}

// group is that of all sinks: they share the work.
const group = "sink"

type sink struct {
	cfg       Config
	topics    *topics.Client
	broadcast *broadcast.Client
	store     *messagestore.Store
	logger    *slog.Logger

	stored, repeated, failures prometheus.Counter
	dead                       *prometheus.CounterVec
	failing                    atomic.Bool  // what was tried last failed
	told                       atomic.Int64 // when a failure was logged last, in ns
}

// Run stores until ctx ends. The metrics, beside those of the process:
//
//	chat_sink_stored_total       messages that are in Cassandra, those among them that came again
//	chat_sink_repeated_total     messages that were sent again, and are the rows of the first
//	chat_sink_dead_total{topic}  records that are not what their topic has, put aside
//	chat_sink_failures_total     attempts that failed and are made again
func Run(ctx context.Context, cfg Config, logger *slog.Logger) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	const stopTimeout = 10 * time.Second
	parts, registry := service.NewGroup(stopTimeout), prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg.Topics.Registerer = registry
	s := newSink(cfg, registry, logger.With("component", "sink"))
	fail := func(err error) error { return errors.Join(err, parts.Close()) }
	if err := s.open(ctx, parts); err != nil {
		return fail(err)
	}
	admin, err := service.ListenAdmin(ctx, cfg.AdminListen, "", registry)
	if err != nil {
		return fail(err)
	}
	admin.Handle(route.HealthPath, probe(func() bool { return true }))
	admin.Handle(route.ReadyPath, probe(func() bool { return !s.failing.Load() }))
	parts.Add(service.Component{Name: "admin", Run: admin.Run, Close: admin.Close})
	parts.Add(service.Component{Name: "reader", Run: func(ctx context.Context) error {
		return s.topics.Read(ctx, topics.Reader{Group: group, Most: cfg.Most, Linger: cfg.Linger, Take: s.take, Failed: s.notStored, Recovered: func() { s.failing.Store(false) }})
	}})
	for _, topic := range []string{topics.Analysis, topics.Summaries} {
		parts.Add(service.Component{Name: topic, Run: func(ctx context.Context) error {
			return s.topics.Read(ctx, topics.Reader{Topic: topic, Group: group, Most: cfg.Most, Linger: cfg.Linger, Take: s.putAside, Failed: s.failed})
		}})
	}
	s.logger.Info("storing", "admin", admin.Addr().String(), "kafka", cfg.Topics.Brokers, "redis", cfg.Broadcast.Where(), "cassandra", cfg.Store.Cluster.Hosts,
		"batch", cfg.Store.Batch, "in_flight", cfg.Store.InFlight, "durability", s.store.Durability().How)
	if cfg.Listening != nil {
		cfg.Listening(admin.Addr())
	}
	return parts.Run(ctx)
}

func newSink(cfg Config, to prometheus.Registerer, logger *slog.Logger) *sink {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(to).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &sink{
		cfg: cfg, logger: logger,
		stored:   counter("chat_sink_stored_total", "Messages that are in Cassandra."),
		repeated: counter("chat_sink_repeated_total", "Messages that were sent again."),
		dead:     promauto.With(to).NewCounterVec(prometheus.CounterOpts{Name: "chat_sink_dead_total", Help: "Records that are not what their topic has."}, []string{"topic"}),
		failures: counter("chat_sink_failures_total", "Attempts that failed."),
	}
}

// open opens the parts, one after the other.
func (s *sink) open(ctx context.Context, parts *service.Group) (err error) {
	closes := func(name string, end func()) {
		parts.Add(service.Component{Name: name, Close: func() error { end(); return nil }})
	}
	if s.store, err = messagestore.Open(ctx, s.cfg.Store); err != nil {
		return err
	}
	closes("store", s.store.Close)
	const patience = 2 * time.Minute // as the servers have it
	if err := pause.AtStart(ctx, fmt.Sprintf("Redis at %v", s.cfg.Broadcast.Where()), patience, s.failed, func(ctx context.Context) (err error) {
		s.broadcast, err = broadcast.Open(ctx, s.cfg.Broadcast)
		return err
	}); err != nil {
		return err
	}
	closes("broadcast", s.broadcast.Close)
	if err := pause.AtStart(ctx, fmt.Sprintf("Kafka at %v", s.cfg.Topics.Brokers), patience, s.failed, func(ctx context.Context) (err error) {
		s.topics, err = topics.Open(ctx, s.cfg.Topics)
		return err
	}); err != nil {
		return err
	}
	closes("topics", s.topics.Close)
	return nil
}

func probe(ok func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if !ok() {
			http.Error(w, "nothing can be stored now", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n") // whoever asked has left
	}
}

// failed counts what is tried again, and logs it once in a while.
func (s *sink) failed(err error) {
	s.failures.Inc()
	const quiet = 10 * time.Second
	now, last := time.Now().UnixNano(), s.told.Load()
	if now-last > int64(quiet) && s.told.CompareAndSwap(last, now) {
		s.logger.Warn("it is tried again", "error", err)
	}
}

// notStored is failed of what has to be stored.
func (s *sink) notStored(err error) {
	s.failing.Store(true)
	s.failed(err)
}

// take stores a batch.
func (s *sink) take(ctx context.Context, batch []topics.Record) error {
	messages := make([]chat.Raw, 0, len(batch))
	for i := range batch {
		if batch[i].Err == nil {
			messages = append(messages, batch[i].Message)
		}
	}
	again, err := s.settle(ctx, messages)
	if err != nil {
		return err
	}
	if err := s.store.Store(ctx, messages); err != nil {
		return fmt.Errorf("store %d messages: %w", len(messages), err)
	}
	if err := s.putAside(ctx, batch); err != nil { // last: what fails before is done again, and this would be there twice
		return err
	}
	s.stored.Add(float64(len(messages) - again))
	s.repeated.Add(float64(again))
	s.failing.Store(false)
	return nil
}

// putAside puts aside what is not what its topic has.
func (s *sink) putAside(ctx context.Context, batch []topics.Record) error {
	for i := range batch {
		if batch[i].Err == nil {
			continue
		}
		if err := s.topics.PutAside(ctx, &batch[i]); err != nil {
			return err
		}
		s.dead.WithLabelValues(batch[i].Topic).Inc()
	}
	return nil
}

// settle gives messages the times of those that have their places, and returns how many are others sent again.
func (s *sink) settle(ctx context.Context, messages []chat.Raw) (again int, err error) {
	const together = 256
	known := time.Now().Add(-s.cfg.Broadcast.Remember / 2).UnixMilli()
	var some []*chat.Raw
	for i := range messages {
		if messages[i].At > known {
			some = append(some, &messages[i])
		}
	}
	for len(some) > 0 {
		n := min(together, len(some))
		for i, p := range s.broadcast.Place(ctx, some[:n]) {
			if p.Err != nil {
				return 0, fmt.Errorf("ask for a message's place: %w", p.Err)
			}
			if p.At != some[i].At {
				some[i].At = p.At
				again++
			}
		}
		some = some[n:]
	}
	return again, nil
}
