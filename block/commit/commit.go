// Package commit is a group commit: many writers, one sync.
//
// A sync of a disk takes as long for one write as for a hundred. So one goroutine
// takes all that wait, commits them together and answers each; while it does, the
// next group gathers. Nobody waits for a group to fill: a single writer has the
// latency of one commit, and with more writers groups grow by themselves.
//
//	writers ──► queue (bounded, see Policy) ──► one goroutine ──► Commit ──► answers
//
// The package does not know what is written or where; Commit does. A Writer owns
// its goroutine and its queue.
package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The failures of a write that was not tried.
var (
	// ErrFull: the queue has no room. Nothing was tried.
	ErrFull = errors.New("too many writes wait to be committed")
	// ErrClosed: the writer was closed. Nothing was tried.
	ErrClosed = errors.New("the writer is closed")
)

// Policy is what Put does when the queue is full or the caller's context ends.
type Policy string

const (
	// Refuse returns ErrFull at once where there is no room. Who waits for a commit
	// leaves when its context ends; the item may still be committed.
	Refuse Policy = "refuse"
	// Wait waits for room until the context ends. Who got it stays until the item is
	// committed, whatever becomes of the context: the item may be in memory that the
	// caller uses again.
	Wait Policy = "wait"
)

// Config says how to commit. Queue, Batch and WhenFull may come from DefaultConfig.
type Config[T any] struct {
	// Commit stores the items, in this order, and returns when they are durable;
	// all of them, or an error. It has the items until it returns. There is one
	// call at a time.
	Commit func(items []T) error
	// Queue bounds the items that wait.
	Queue int
	// WhenFull says what becomes of one more.
	WhenFull Policy
	// Batch bounds the items of one Commit.
	Batch int
	// Registerer receives the metrics, see New.
	Registerer prometheus.Registerer
}

// DefaultConfig returns a configuration whose Commit and Registerer are for the
// caller to set.
//
//   - Queue: 1024. At the 2,000 syncs a second of a good disk and the smallest
//     groups it is half a second of work, and who waits longer is better told to
//     come back.
//   - Batch: 256. A sync is shared by so many that its part of each write is
//     small beside the write itself, and a group stays a few hundred KiB.
//   - WhenFull: Refuse, for the same reason.
func DefaultConfig[T any]() Config[T] {
	return Config[T]{Queue: 1024, WhenFull: Refuse, Batch: 256}
}

// Writer commits in groups. It is safe for concurrent use.
type Writer[T any] struct {
	commit  func([]T) error
	queue   chan entry[T]
	batch   int
	policy  Policy
	metrics *metrics
	ended   chan struct{}

	mu     sync.RWMutex // held by Put while it sends, so that Close closes no queue under it
	closed bool
}

type entry[T any] struct {
	item T
	done chan<- error // has room for the one answer, so nobody waits for a writer that left; nil of Start
}

// New starts a writer and registers its metrics, which have no labels:
//
//	commit_queue_depth        gauge: writes that wait
//	commit_queue_capacity     gauge: how many may
//	commit_queue_refused_total  writes for which there was no room
//	commit_group_size         histogram: writes committed together
//	commit_busy_seconds_total time in commits
//
// Whoever makes one must Close it.
func New[T any](cfg Config[T]) *Writer[T] {
	w := &Writer[T]{
		commit: cfg.Commit, batch: cfg.Batch, policy: cfg.WhenFull,
		queue: make(chan entry[T], cfg.Queue), ended: make(chan struct{}),
	}
	w.metrics = newMetrics(cfg.Registerer, func() float64 { return float64(len(w.queue)) }, cfg.Queue)
	go w.run()
	return w
}

// Put returns when the item is committed. ErrFull and ErrClosed mean that nothing
// was tried; an error of ctx means the same under Wait, and under Refuse that the item
// may be committed. Other errors are Commit's.
func (w *Writer[T]) Put(ctx context.Context, item T) error {
	done := make(chan error, 1)
	if err := w.enqueue(ctx, entry[T]{item, done}); err != nil {
		return err
	}
	if w.policy == Wait {
		return <-done
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Start is Put for who must not wait: it returns nil once the item has room, and Commit tells
// what became of it to whoever wants to know. Items of one caller are committed in the order
// in which it started them. Where there is no room it returns ErrFull, whatever the policy.
func (w *Writer[T]) Start(item T) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return ErrClosed
	}
	if w.offer(entry[T]{item: item}) {
		return nil
	}
	w.metrics.refused.Inc()
	return ErrFull
}

// offer queues the entry if there is room.
func (w *Writer[T]) offer(e entry[T]) bool {
	select {
	case w.queue <- e:
		return true
	default:
		return false
	}
}

func (w *Writer[T]) enqueue(ctx context.Context, e entry[T]) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return ErrClosed
	}
	if w.offer(e) {
		return nil
	}
	if w.policy == Refuse {
		w.metrics.refused.Inc()
		return ErrFull
	}
	select {
	case w.queue <- e:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for room: %w", ctx.Err())
	}
}

// Close commits what is in the queue, or waits for room in it, and ends the writer. A second call waits for
// the same.
func (w *Writer[T]) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.queue)
	}
	w.mu.Unlock()
	<-w.ended
}

// run is the one goroutine that commits.
func (w *Writer[T]) run() {
	defer close(w.ended)
	items := make([]T, 0, w.batch)
	waiting := make([]chan<- error, 0, w.batch)
	for first := range w.queue {
		items, waiting = append(items[:0], first.item), append(waiting[:0], first.done)
		items, waiting = w.gather(items, waiting)
		began := time.Now()
		err := w.commit(items)
		w.metrics.busy.Add(time.Since(began).Seconds())
		w.metrics.size.Observe(float64(len(items)))
		for _, done := range waiting {
			if done != nil {
				done <- err
			}
		}
		clear(items) // what was written need not stay in memory until the next group
	}
}

// gather takes what waits already, up to a whole batch.
func (w *Writer[T]) gather(items []T, waiting []chan<- error) ([]T, []chan<- error) {
	for len(items) < w.batch {
		select {
		case e, ok := <-w.queue:
			if !ok {
				return items, waiting
			}
			items, waiting = append(items, e.item), append(waiting, e.done)
		default:
			return items, waiting
		}
	}
	return items, waiting
}
