// Package broker serves the embedded queue as a process of its own, so that it can
// die apart from who puts events into it and who takes them out. What it keeps, and
// when that is on the disk, is package nats's to say.
package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/httpserver"
	"loadstone/block/lifecycle"
	"loadstone/block/queue"
	"loadstone/block/queue/nats"
	"loadstone/system/patterns/event"
)

// Config says where the broker listens and what it keeps.
type Config struct {
	nats.BrokerConfig

	// AdminListen is the address for metrics and profiles, host:port.
	AdminListen string
	// Events is the queue as the services have it, nats://BROKER:PORT?capacity=N, of
	// which the capacity is read; empty for the usual one.
	Events string
}

// DefaultConfig keeps up to 1 GiB in the directory broker, each message on the disk
// before it is acknowledged.
func DefaultConfig() Config {
	return Config{
		BrokerConfig: nats.BrokerConfig{Addr: "127.0.0.1:4222", Dir: "broker", MaxBytes: 1 << 30, Flush: true},
		AdminListen:  "127.0.0.1:9092",
	}
}

// Validate returns all problems, joined, or nil.
func (c Config) Validate() error {
	_, err := c.target("nats://" + c.Addr)
	return errors.Join(c.BrokerConfig.Validate(), err)
}

// target is the queue at an address, with the capacity of Events.
func (c Config) target(at string) (event.Target, error) {
	if _, query, ok := strings.Cut(c.Events, "?"); ok {
		at += "?" + query
	}
	return event.ParseTarget(at)
}

// stopTimeout bounds the stop of the broker, which writes its indexes.
const stopTimeout = 10 * time.Second

// Run serves the broker and, on the admin address, how its queue stands, until ctx
// ends.
func Run(ctx context.Context, c Config, logger *slog.Logger) error {
	group := lifecycle.New(stopTimeout)
	fail := func(err error) error { return errors.Join(err, group.Close()) }
	registry := prometheus.NewRegistry()
	inner, err := nats.StartBroker(c.BrokerConfig)
	if err != nil {
		return err
	}
	group.Add(lifecycle.Component{Name: "broker", Run: inner.Run, Close: inner.Close})
	// A client of its own knows no more than any other: how the queue stands.
	target, err := c.target("nats://" + inner.Addr().String())
	if err != nil {
		return fail(err)
	}
	q, err := target.OpenQueue(ctx)
	if err != nil {
		return fail(err)
	}
	group.Add(lifecycle.Component{Name: "queue", Close: q.Close})
	if err := queue.RegisterStats(registry, q.Stats); err != nil {
		return fail(err)
	}
	admin, err := httpserver.ListenAdmin(ctx, c.AdminListen, registry)
	if err != nil {
		return fail(fmt.Errorf("serve metrics: %w", err))
	}
	group.Add(lifecycle.Component{Name: "admin", Run: admin.Run, Close: admin.Close})
	logger.Info("listening", "component", "broker", "address", inner.Addr().String(), "admin", admin.Addr().String(), "dir", c.Dir, "flush", c.Flush)
	return group.Run(ctx)
}
