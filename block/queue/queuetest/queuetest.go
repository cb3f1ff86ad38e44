// Package queuetest checks that a driver keeps block/queue's contract, against a real
// broker or what stands for it.
//
// What only a death of a process can show, such as what a killed broker still has, is
// for the drivers' own tests.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/pause"
	"loadstone/block/queue"
)

// Queue is what is checked.
type Queue interface {
	Publish(ctx context.Context, m queue.Message) error
	Consume(ctx context.Context, handle queue.Handler, m *queue.Metrics) error
	Stats(ctx context.Context) (queue.Stats, error)
	Close() error
}

// Setting is how a queue for one check is to be.
type Setting struct {
	Capacity int64
	WhenFull queue.WhenFull
}

// Open makes a queue of its own, empty, for one check: the same queue for every call
// with the same name. Its retries are to be fast (see FastRetry).
type Open func(t *testing.T, name string, s Setting) Queue

// FastRetry is a policy for tests: three tries within some milliseconds.
func FastRetry() queue.Retry {
	return queue.Retry{Tries: 3, First: time.Millisecond, Most: 10 * time.Millisecond, HandleTimeout: 5 * time.Second}
}

// limit bounds every wait; what a broker does takes milliseconds, the first time and
// beside other work some seconds.
const limit = 60 * time.Second

// Run runs all checks.
func Run(t *testing.T, open Open) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, Open){
		"what is accepted is delivered in order of its key": ordered,
		"a batch that was not handled comes again":          again,
		"what is refused is put aside, alone":               refused,
		"a full queue refuses":                              rejects,
		"a full queue lets wait":                            waits,
		"a consumer that begins again goes on in order":     resumes,
		"what is no message is not taken":                   invalid,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open)
		})
	}
}

func roomy() Setting { return Setting{Capacity: 100_000, WhenFull: queue.Reject} }

// publish puts n messages of a key, one after the other. A driver that is not sure for a
// moment that its queue has room may refuse one, which is put again.
func publish(t *testing.T, q Queue, key string, n int) {
	t.Helper()
	for i := range n {
		m := queue.Message{ID: fmt.Sprintf("%s-%05d", key, i), Key: key, Body: []byte(key)}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := q.Publish(ctx, m)
		for errors.Is(err, queue.ErrFull) && pause.For(ctx, 10*time.Millisecond) {
			err = q.Publish(ctx, m)
		}
		cancel()
		if err != nil {
			t.Errorf("publish: %v", err)
			return
		}
	}
}

// consumer runs Consume until stop is called, which waits for it.
func consumer(t *testing.T, q Queue, handle queue.Handler) (stop func()) {
	t.Helper()
	m := queue.NewMetrics(prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Consume(ctx, handle, m) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Consume: got %v, want nil", err)
			}
		case <-time.After(limit):
			t.Error("Consume did not return when it was told to")
		}
	})
	t.Cleanup(stop)
	return stop
}

// seen collects what is delivered for the first time.
type seen struct {
	mu    sync.Mutex
	known map[string]bool
	ids   map[string][]string // by key, in order
}

func (s *seen) add(batch []queue.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known, s.ids = map[string]bool{}, map[string][]string{}
	}
	for _, m := range batch {
		if !s.known[m.ID] {
			s.known[m.ID] = true
			s.ids[m.Key] = append(s.ids[m.Key], m.ID)
		}
	}
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.known)
}

// checkOrder says whether each key's first deliveries were in order.
func (s *seen) checkOrder(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.ids)) {
		if ids := s.ids[key]; !slices.IsSorted(ids) {
			t.Errorf("key %s came as %v, want it in order", key, ids)
		}
	}
}

// await polls until ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// awaitStats polls until the queue stands so.
func awaitStats(t *testing.T, q Queue, depth, dead int64) {
	t.Helper()
	var last queue.Stats
	var err error
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		last, err = q.Stats(ctx)
		cancel()
		if err == nil && last.Depth == depth && last.Dead == dead {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("Stats: got %+v and %v, want depth %d and %d put aside", last, err, depth, dead)
		}
	}
}

func ordered(t *testing.T, open Open) {
	t.Helper()
	q := open(t, "ordered", roomy())
	const keys, each = 4, 100
	var published sync.WaitGroup
	for k := range keys {
		published.Go(func() { publish(t, q, fmt.Sprintf("k%d", k), each) })
	}
	var s seen
	consumer(t, q, func(_ context.Context, batch []queue.Message) error { s.add(batch); return nil })
	published.Wait()
	await(t, "all messages are delivered", func() bool { return s.count() == keys*each })
	s.checkOrder(t)
	awaitStats(t, q, 0, 0)
}

func again(t *testing.T, open Open) {
	t.Helper()
	q := open(t, "again", roomy())
	publish(t, q, "k", 5)
	awaitStats(t, q, 5, 0)
	var s seen
	failures := 5 // more than Retry.Tries: an outage puts nothing aside
	consumer(t, q, func(_ context.Context, batch []queue.Message) error {
		if failures > 0 {
			failures--
			return errors.New("the disk is full")
		}
		s.add(batch)
		return nil
	})
	await(t, "all messages are delivered", func() bool { return s.count() == 5 })
	s.checkOrder(t)
	awaitStats(t, q, 0, 0)
}

func refused(t *testing.T, open Open) {
	t.Helper()
	q := open(t, "refused", roomy())
	publish(t, q, "k", 9)
	var s seen
	consumer(t, q, func(_ context.Context, batch []queue.Message) error {
		for _, m := range batch {
			if m.ID == "k-00004" {
				return fmt.Errorf("%w: it is the fourth", queue.ErrRefused)
			}
		}
		s.add(batch)
		return nil
	})
	await(t, "all others are delivered", func() bool { return s.count() == 8 })
	s.checkOrder(t)
	awaitStats(t, q, 0, 1)
}

func rejects(t *testing.T, open Open) {
	t.Helper()
	const capacity = 20
	q := open(t, "rejects", Setting{Capacity: capacity, WhenFull: queue.Reject})
	publish(t, q, "k", capacity)
	// A driver may learn with a delay that its queue is full; it must learn it.
	i, accepted := capacity, capacity
	await(t, "the queue refuses", func() bool {
		err := q.Publish(t.Context(), queue.Message{ID: fmt.Sprintf("k-%05d", i), Key: "k"})
		i++
		if err == nil {
			accepted++
		} else if !errors.Is(err, queue.ErrFull) {
			t.Fatalf("publish: got %v, want %v", err, queue.ErrFull)
		}
		return err != nil
	})
	var s seen
	consumer(t, q, func(_ context.Context, batch []queue.Message) error { s.add(batch); return nil })
	await(t, "what was accepted is delivered", func() bool { return s.count() == accepted })
	await(t, "there is room again", func() bool { return q.Publish(t.Context(), queue.Message{ID: "z", Key: "z"}) == nil })
}

func waits(t *testing.T, open Open) {
	t.Helper()
	const capacity = 20
	q := open(t, "waits", Setting{Capacity: capacity, WhenFull: queue.Wait})
	publish(t, q, "k", capacity)
	i := capacity
	await(t, "the queue is full", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		i++
		return errors.Is(q.Publish(ctx, queue.Message{ID: fmt.Sprintf("k-%05d", i), Key: "k"}), queue.ErrFull)
	})
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		done <- q.Publish(ctx, queue.Message{ID: "waiting", Key: "w"})
	}()
	var s seen
	consumer(t, q, func(_ context.Context, batch []queue.Message) error { s.add(batch); return nil })
	if err := <-done; err != nil {
		t.Errorf("publish once there is room: got %v, want nil", err)
	}
}

// resumes stops a consumer within a batch, more than once.
func resumes(t *testing.T, open Open) {
	t.Helper()
	q := open(t, "resumes", roomy())
	const n = 300
	publish(t, q, "k", n)
	var s seen
	for range 3 {
		reached := make(chan struct{}, 1)
		stop := consumer(t, q, func(ctx context.Context, batch []queue.Message) error {
			s.add(batch[:1])
			select {
			case reached <- struct{}{}:
			default:
			}
			<-ctx.Done() // it dies before it has handled the batch
			return ctx.Err()
		})
		select {
		case <-reached:
		case <-time.After(limit):
			t.Fatal("nothing was delivered")
		}
		stop()
	}
	consumer(t, q, func(_ context.Context, batch []queue.Message) error { s.add(batch); return nil })
	await(t, "all messages are delivered", func() bool { return s.count() == n })
	s.checkOrder(t)
	awaitStats(t, q, 0, 0)
}

func invalid(t *testing.T, open Open) {
	t.Helper()
	q := open(t, "invalid", roomy())
	for what, m := range map[string]queue.Message{
		"no id":           {Key: "k"},
		"an id of lines":  {ID: "a\r\nb"},
		"a key of spaces": {ID: "a", Key: "b c"},
		"a huge body":     {ID: "a", Body: make([]byte, queue.MaxBody+1)},
	} {
		if err := q.Publish(t.Context(), m); !errors.Is(err, queue.ErrMessage) {
			t.Errorf("%s: got %v, want %v", what, err, queue.ErrMessage)
		}
	}
}
