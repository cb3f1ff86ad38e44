package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/queue"
	"loadstone/block/queue/queuetest"
	"loadstone/block/servertest"
)

func startBroker(t *testing.T, addr, dir string) *Broker {
	t.Helper()
	b, err := StartBroker(t.Context(), BrokerConfig{Addr: addr, Dir: dir, MaxBytes: 1 << 28, Flush: true})
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
	dir, addr := t.TempDir(), servertest.Host()+":4222"
	b := startBroker(t, addr, dir)
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
	s, err := c.Stats(t.Context())
	for deadline := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(deadline); s, err = c.Stats(t.Context()) {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil || s.Depth != 10 || !s.OldestKnown || s.Oldest <= 0 {
		t.Errorf("Stats: got %+v and %v, want the 10 messages and the age of the oldest", s, err)
	}
}

// A directory has one broker at a time, and so has an address. Both are said at once,
// and a broker that was refused leaves nothing behind that stands in the way.
func TestSecondBrokerIsRefused(t *testing.T) {
	t.Parallel()
	dir, addr := t.TempDir(), servertest.Host()+":4222"
	first := startBroker(t, addr, dir)
	began := time.Now()
	for text, cfg := range map[string]BrokerConfig{
		"another broker keeps its files there": {Addr: "127.0.0.1:0", Dir: dir, MaxBytes: 1 << 28},
		"another process listens there":        {Addr: addr, Dir: t.TempDir(), MaxBytes: 1 << 28},
	} {
		b, err := StartBroker(t.Context(), cfg)
		if err == nil {
			_ = b.Close()
		}
		if !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), text) {
			t.Errorf("a second broker: got %v, want %q", err, text)
		}
	}
	if took := time.Since(began); took > readyTimeout/2 {
		t.Errorf("both were refused after %v, want at once", took)
	}
	for range 2 { // the second has nothing to do
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
	startBroker(t, addr, dir)
}

// bounded is a queue's configuration for what concerns its bound.
func bounded(url string, capacity int64, set bool) Config {
	cfg := DefaultConfig()
	cfg.URL, cfg.Capacity, cfg.SetCapacity = url, capacity, set
	return cfg
}

// The bound of a queue is what was last stated for it on purpose, and not what those
// have who ask for it or take from it, or a broker that begins again.
func TestCapacityIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := startBroker(t, "127.0.0.1:0", dir)
	o, err := Observe(b.URL(), DefaultConfig().Name)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); !o.Ready() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := o.Stats(t.Context()); !errors.Is(err, ErrNoQueue) {
		t.Errorf("Stats before there is a queue: got %v, want %v", err, ErrNoQueue)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		capacity int64
		set      bool
		want     int64
	}{
		{7, false, 7}, // it makes the queue
		{50_000, false, 7}, {5, true, 5}, {50_000, false, 5}, {9, true, 9}, {3, true, 3},
	} {
		c, err := Open(t.Context(), bounded(b.URL(), step.capacity, step.set))
		if err != nil {
			t.Fatal(err)
		}
		if s, err := c.Stats(t.Context()); err != nil || s.Capacity != step.want {
			t.Errorf("step %d: got capacity %d and %v, want %d", i, s.Capacity, err, step.want)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // the broker begins again
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			b = startBroker(t, "127.0.0.1:0", dir)
		}
	}
	c, err := Open(t.Context(), bounded(b.URL(), 50_000, false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for i := range 5 {
		err := c.Publish(t.Context(), queue.Message{ID: fmt.Sprint(i)})
		if full := errors.Is(err, queue.ErrFull); full != (i >= 3) || !full && err != nil {
			t.Errorf("message %d of a queue of 3: got %v", i, err)
		}
	}
	// A bound below what is there drops nothing.
	lower, err := Open(t.Context(), bounded(b.URL(), 1, true))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lower.Close() }()
	if s, err := lower.Stats(t.Context()); err != nil || s.Depth != 3 || s.Capacity != 1 {
		t.Errorf("after the bound was lowered: got %+v and %v, want the 3 messages and a capacity of 1", s, err)
	}
}

// A message that is published again is one; another one with its id is not dropped.
func TestSameIDOtherMessage(t *testing.T) {
	t.Parallel()
	b := startBroker(t, "127.0.0.1:0", t.TempDir())
	c := openQueue(t, b.URL(), "SAME", queuetest.Setting{Capacity: 100, WhenFull: queue.Reject})
	for _, m := range []queue.Message{
		{ID: "a", Key: "k", Body: []byte("1")}, {ID: "a", Key: "k", Body: []byte("1")},
		{ID: "a", Key: "k", Body: []byte("2")}, {ID: "a", Key: "k1"}, {ID: "a", Body: []byte("k1")},
	} {
		if err := c.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	m := queue.NewMetrics(prometheus.NewRegistry())
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	var got []string
	err := c.Consume(ctx, func(_ context.Context, batch []queue.Message) error {
		for _, m := range batch {
			got = append(got, m.ID+" "+m.Key+" "+string(m.Body))
		}
		if len(got) >= 4 {
			stop()
		}
		return nil
	}, m)
	if want := []string{"a k 1", "a k 2", "a k1 ", "a  k1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("delivered: got %q and %v, want %q", got, err, want)
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
		if _, err := StartBroker(t.Context(), cfg); err == nil {
			t.Errorf("%s: got nil, want an error", what)
		}
	}
}
