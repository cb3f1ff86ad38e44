// Package broker serves the embedded queue as a process of its own, so that it can
// die apart from who puts events into it and who takes them out. What it keeps, and
// when that is on the disk, is package nats's to say.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/queue"
	"loadstone/block/queue/nats"
	"loadstone/block/service"
)

// Config says where the broker listens and what it keeps.
type Config struct {
	nats.BrokerConfig

	// AdminListen is the address for metrics, host:port.
	AdminListen string
}

// DefaultConfig keeps up to 1 GiB in the directory broker, each message on the disk
// before it is acknowledged.
func DefaultConfig() Config {
	return Config{
		BrokerConfig: nats.BrokerConfig{Addr: "127.0.0.1:4222", Dir: "broker", MaxBytes: 1 << 30, Flush: true},
		AdminListen:  "127.0.0.1:9092",
	}
}

// stopTimeout bounds the stop of the broker, which writes its indexes.
const stopTimeout = 10 * time.Second

// Run serves the broker and, on the admin address, how its queue stands, until ctx
// ends. It makes no queue and changes none: who puts events into one says how many it
// holds, and that outlives the broker.
func Run(ctx context.Context, c Config, logger *slog.Logger) error {
	group := service.NewGroup(stopTimeout)
	fail := func(err error) error { return errors.Join(err, group.Close()) }
	registry := prometheus.NewRegistry()
	inner, err := nats.StartBroker(ctx, c.BrokerConfig)
	if err != nil {
		return err
	}
	group.Add(service.Component{Name: "broker", Run: inner.Run, Close: inner.Close})
	q, err := nats.Observe(inner.URL(), nats.DefaultConfig().Name)
	if err != nil {
		return fail(err)
	}
	group.Add(service.Component{
		Name: "queue", Close: q.Close,
		Run: func(ctx context.Context) error { return follow(ctx, q, logger) },
	})
	queue.RegisterStats(registry, q.Stats)
	admin, err := service.ListenAdmin(ctx, c.AdminListen, "", registry)
	if err != nil {
		return fail(fmt.Errorf("serve metrics: %w", err))
	}
	group.Add(service.Component{Name: "admin", Run: admin.Run, Close: admin.Close})
	logger.Info("listening", "component", "broker", "address", inner.Addr().String(), "admin", admin.Addr().String(), "dir", c.Dir, "flush", c.Flush)
	return group.Run(ctx)
}

const (
	// followPause is how often the bound of the queue is looked at: soon enough to tell
	// which start of a service changed it, and too seldom to cost anything.
	followPause = time.Second
	// followTimeout bounds a look: the broker is in this process.
	followTimeout = time.Second
)

// follow writes the queue's bound to the log, and each change of it, until ctx ends.
func follow(ctx context.Context, q *nats.Observer, logger *slog.Logger) error {
	ticker := time.NewTicker(followPause)
	defer ticker.Stop()
	for last := int64(0); ; {
		own, cancel := context.WithTimeout(ctx, followTimeout)
		s, err := q.Stats(own)
		cancel()
		// While there is no queue, or no answer, there is nothing to tell.
		if err == nil && s.Capacity != last {
			logger.Info(fmt.Sprintf("the queue holds at most %d events", s.Capacity), "component", "broker", "before", last, "depth", s.Depth)
			last = s.Capacity
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
