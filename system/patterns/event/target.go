package event

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"loadstone/block/queue"
	"loadstone/block/queue/kafka"
	"loadstone/block/queue/nats"
)

// TargetForms are what a Target is written as.
const TargetForms = "off, http://LOG:PORT (sync), nats://BROKER:PORT or kafka://BROKER:PORT,... (async, with ?full=reject or wait, &capacity=N, for Kafka &replicas=N)"

// The schemes of targets.
const (
	schemeSync  = "http"
	schemeNATS  = "nats"
	schemeKafka = "kafka"
)

// Target is where events go. The service and the log service have the same.
type Target struct {
	Scheme   string
	Hosts    []string // host:port
	Full     queue.WhenFull
	Capacity int64 // of the queue, in events
	// SetCapacity is whether Capacity was stated. Then it becomes the bound of a queue
	// that is there with another one; else that bound stays. Kafka has no bound of its
	// own: each producer refuses above its Capacity.
	SetCapacity bool
	// Replicas are the least that Kafka's topics must have; kafka.ByBrokers if none were
	// stated.
	Replicas int16
}

// defaultCapacity is how many events may wait: a minute of what the experiments
// offer, and some ten megabytes of a broker's disk.
const defaultCapacity = 50_000

// ParseTarget reads a target, one of TargetForms but for off.
func ParseTarget(text string) (Target, error) {
	bad := func(format string, args ...any) (Target, error) {
		return Target{}, fmt.Errorf("events %q: %w; write %s", text, fmt.Errorf(format, args...), TargetForms)
	}
	scheme, rest, _ := strings.Cut(text, "://")
	if !slices.Contains([]string{schemeSync, schemeNATS, schemeKafka}, scheme) {
		return bad("it is no place for events")
	}
	hosts, query, _ := strings.Cut(rest, "?")
	t := Target{Scheme: scheme, Hosts: strings.Split(hosts, ","), Full: queue.Reject, Capacity: defaultCapacity, Replicas: kafka.ByBrokers}
	for _, h := range t.Hosts {
		name, port, ok := strings.Cut(h, ":")
		if _, err := strconv.ParseUint(port, 10, 16); !ok || name == "" || err != nil {
			return bad("%q is not HOST:PORT", h)
		}
	}
	if len(t.Hosts) > 1 && scheme != schemeKafka {
		return bad("it names %d hosts, and only Kafka has several", len(t.Hosts))
	}
	if query != "" && scheme == schemeSync {
		return bad("a call has no options, such as %q", query)
	}
	t, err := t.with(query)
	if err != nil {
		return bad("%w", err)
	}
	if t.Replicas != kafka.ByBrokers && scheme != schemeKafka {
		return bad("only Kafka has replicas")
	}
	return t, nil
}

// errOption is an option that no queue has.
var errOption = errors.New("no option of a queue")

// with returns the target with what follows the question mark.
func (t Target) with(query string) (Target, error) {
	options, err := url.ParseQuery(query)
	if err != nil {
		return t, fmt.Errorf("%q are options that cannot be read", query)
	}
	for name, values := range options {
		value := values[len(values)-1]
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case name == "full" && (value == string(queue.Reject) || value == string(queue.Wait)):
			t.Full = queue.WhenFull(value)
		case name == "capacity" && err == nil && n > 0:
			t.Capacity, t.SetCapacity = n, true
		case name == "replicas" && err == nil && n > 0 && n <= kafka.MaxReplicas:
			t.Replicas = int16(n)
		default:
			return t, fmt.Errorf("%s=%s is %w", name, value, errOption)
		}
	}
	return t, nil
}

// Async reports whether the target is a queue.
func (t Target) Async() bool { return t.Scheme != schemeSync }

// Queue is what the pattern needs of a driver of block/queue, on both sides of it.
type Queue interface {
	Publish(ctx context.Context, m queue.Message) error
	Consume(ctx context.Context, handle queue.Handler, m *queue.Metrics) error
	Stats(ctx context.Context) (queue.Stats, error)
	Ready() bool
	Close() error
}

// errSync is a mistake of the caller's.
var errSync = errors.New("a call of the log service is no queue")

// OpenQueue connects to the target's queue, which is made if it is not there. It
// waits for the broker until ctx ends.
func (t Target) OpenQueue(ctx context.Context) (Queue, error) {
	switch t.Scheme {
	case schemeNATS:
		cfg := nats.DefaultConfig()
		cfg.URL, cfg.Capacity, cfg.SetCapacity, cfg.WhenFull = "nats://"+t.Hosts[0], t.Capacity, t.SetCapacity, t.Full
		q, err := nats.Open(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("open the queue of events: %w", err)
		}
		return q, nil
	case schemeKafka:
		cfg := kafka.DefaultConfig()
		cfg.Brokers, cfg.Capacity, cfg.WhenFull, cfg.Replicas = t.Hosts, t.Capacity, t.Full, t.Replicas
		q, err := kafka.Open(ctx, cfg)
		if err != nil {
			return nil, fmt.Errorf("open the queue of events: %w", err)
		}
		return q, nil
	default:
		return nil, errSync
	}
}
