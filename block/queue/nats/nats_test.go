package nats

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstone/block/queue"
	"loadstone/block/queue/queuetest"
)

func startBroker(t *testing.T, addr, dir string) *Broker {
	t.Helper()
	b, err := StartBroker(BrokerConfig{Addr: addr, Dir: dir, MaxBytes: 1 << 28, Flush: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func openQueue(t *testing.T, url, name string, s queuetest.Setting) *Client {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.Capacity, cfg.WhenFull = url, strings.ToUpper(name), s.Capacity, s.WhenFull
	cfg.Retry, cfg.Batch = queuetest.FastRetry(), 32
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c, err := Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestContract(t *testing.T) {
	t.Parallel()
	b := startBroker(t, "127.0.0.1:0", t.TempDir())
	queuetest.Run(t, func(t *testing.T, name string, s queuetest.Setting) queuetest.Queue {
		t.Helper()
		return openQueue(t, b.URL(), name, s)
	})
}

// A broker that went away keeps what it had, and its clients find it again.
func TestBrokerComesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBroker(t, "127.0.0.1:0", dir)
	addr := b.Addr().String()
	c := openQueue(t, b.URL(), "BACK", queuetest.Setting{Capacity: 100, WhenFull: queue.Reject})
	for i := range 10 {
		if err := c.Publish(t.Context(), queue.Message{ID: fmt.Sprint(i), Key: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := c.Publish(ctx, queue.Message{ID: "nobody", Key: "k"}); err == nil {
		t.Error("publish without a broker: got nil, want an error")
	}
	startBroker(t, addr, dir)
	deadline := time.Now().Add(30 * time.Second)
	for !c.Ready() && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	s, err := c.Stats(t.Context())
	if err != nil || s.Depth != 10 || !s.OldestKnown || s.Oldest <= 0 {
		t.Errorf("Stats: got %+v and %v, want the 10 messages and the age of the oldest", s, err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err == nil {
		t.Error("an empty configuration: got nil, want an error")
	}
	for what, cfg := range map[string]BrokerConfig{
		"no address":   {Dir: "d", MaxBytes: 1 << 20},
		"no port":      {Addr: "127.0.0.1:x", Dir: "d", MaxBytes: 1 << 20},
		"no directory": {Addr: "127.0.0.1:0", MaxBytes: 1 << 20},
		"no room":      {Addr: "127.0.0.1:0", Dir: "d"},
	} {
		if _, err := StartBroker(cfg); err == nil {
			t.Errorf("%s: got nil, want an error", what)
		}
	}
}
