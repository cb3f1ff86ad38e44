package broker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/queue/nats"
)

// text collects a log, which another goroutine writes.
type text struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all.Write(p)
}

func (x *text) count(part string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Count(x.all.String(), part)
}

// await polls until the log has a part once.
func (x *text) await(t *testing.T, part string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); x.count(part) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the log has not %q", part)
		}
	}
}

// The broker makes no queue, and tells who made one of how many events, and who
// changed it.
func TestRunTellsTheCapacity(t *testing.T) {
	t.Parallel()
	inner, err := nats.StartBroker(t.Context(), nats.BrokerConfig{Addr: "127.0.0.1:0", Dir: t.TempDir(), MaxBytes: 1 << 28})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	q, err := nats.Observe(inner.URL(), nats.DefaultConfig().Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	var log text
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- follow(ctx, q, slog.New(slog.NewTextHandler(&log, nil))) }()
	for _, capacity := range []int64{7, 5} {
		cfg := nats.DefaultConfig()
		cfg.URL, cfg.Capacity, cfg.SetCapacity = inner.URL(), capacity, true
		c, err := nats.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		log.await(t, map[int64]string{7: "at most 7 events", 5: "at most 5 events"}[capacity])
	}
	stop()
	if err := <-done; err != nil || log.count("at most") != 2 {
		t.Errorf("got %v and %d sentences, want nil and 2", err, log.count("at most"))
	}
}

// Two brokers cannot have one directory.
func TestRunRefusesADirectory(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Addr, cfg.AdminListen, cfg.Dir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	inner, err := nats.StartBroker(t.Context(), cfg.BrokerConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inner.Close() })
	if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); !errors.Is(err, nats.ErrTaken) {
		t.Errorf("a second broker: got %v, want %v", err, nats.ErrTaken)
	}
}
