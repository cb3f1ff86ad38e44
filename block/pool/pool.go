// Package pool runs jobs on a bounded number of workers, with a bounded number of
// jobs waiting before them, and turns away what it cannot begin in time.
//
//	Do ─► place? ──────────────► queue ─► worker ─► the job
//	        │ none: refused         │
//	        │ or waits a little     └ not begun within Wait: refused
//
// A job holds a place from when it is let in until it is done: there are
// Workers + Queue of them, or fewer where the pool adapts. Nothing is unbounded: not
// the workers, the queue, nor those who wait for a place in it (Callers), and nobody
// waits for longer than Wait to begin.
//
// It is not for work that must survive the process, nor for jobs that nobody waits
// for: Do returns when the job has ended, and the job does not run after that.
//
// The workers are pond's, the adaptive limit is failsafe-go's; neither shows in this
// interface. Of pond only what does not block is used: those who wait do so here,
// where they can be called back by their context. (Its blocking submits have hung
// before, and heed the pool's context only.) It is not told to stop either: its Stop
// borrows a goroutine of a pool that is the whole process's, and its workers end by
// themselves when the queue is empty. Of the limiter the bounds are always
// set: its baseline follows times that stay bad for long, so without an upper
// bound it may come to take an outage for normal.
//
// It fails closed: a pool that is full or closed runs nothing.
package pool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alitto/pond/v2"
)

var (
	// ErrPanicked is wrapped by what Do returns for a job that panicked, or that
	// ended its goroutine; the text has the stack.
	ErrPanicked = errors.New("the job panicked")
	// ErrClosed is what Do returns after Close.
	ErrClosed = errors.New("the pool is closed")
)

// FullError says that a job was refused. It was not begun and will not be.
type FullError struct {
	// Why is one of Full, Crowded and Late.
	Why string
	// RetryAfter is when those who are inside should be done, by the mean time of
	// recent jobs.
	RetryAfter time.Duration
}

// The reasons for a refusal, as in metrics.
const (
	Full    = "full"    // no place
	Crowded = "crowded" // Callers wait for a place already
	Late    = "late"    // not begun within Wait
)

// Error implements error.
func (e *FullError) Error() string {
	return fmt.Sprintf("the pool is busy (%s); try again after %v", e.Why, e.RetryAfter)
}

// Pool runs jobs. It is safe for concurrent use.
type Pool struct {
	cfg     Config
	places  gate
	workers pond.Pool
	metrics *counts
	size    atomic.Int64 // workers
	calling atomic.Int64 // callers that wait for a place
	mean    atomic.Int64 // of a job's time, nanoseconds, moving

	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup // what workers have yet to come to, and to end; Add under mu while not closed
}

// New returns a pool and registers its metrics. The caller must Close it.
func New(cfg Config) (*Pool, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Pool{cfg: cfg, places: newGate(cfg)}
	p.size.Store(int64(cfg.Workers))
	// The places bound what is ever in this queue; pond's own bound is never met.
	p.workers = pond.NewPool(cfg.Workers, pond.WithQueueSize(cfg.Workers+cfg.Queue), pond.WithNonBlocking(true))
	p.metrics = newCounts(p)
	return p, nil
}

// Do runs the job on a worker and returns when it has ended, with its error. The
// job gets ctx and should return soon after ctx has ended.
//
// A *FullError says that the job was refused, an error that wraps ErrPanicked that it
// panicked; ctx's error that ctx ended before the job was begun.
func (p *Pool) Do(ctx context.Context, job func(ctx context.Context) error) error {
	arrived := time.Now()
	limit := time.NewTimer(p.cfg.Wait)
	defer limit.Stop()
	leave, err := p.enter(ctx)
	if err != nil {
		p.metrics.waited(time.Since(arrived))
		return err
	}
	t := &task{pool: p, ctx: ctx, job: job, arrived: arrived, leave: leave, done: make(chan struct{})}
	if err := p.submit(t); err != nil {
		leave(false)
		return err
	}
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = nil
	}
	if !t.withdraw() {
		<-t.done // it has been begun, and nobody else will wait for it
		return t.err
	}
	if err != nil {
		return err
	}
	return p.refuse(Late)
}

// submit puts a job that has a place into the queue.
func (p *Pool) submit(t *task) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.inside.Add(1)
	p.metrics.queued.Add(1)
	if err := p.workers.Go(t.run); err != nil {
		p.inside.Done()
		p.metrics.queued.Add(-1)
		return fmt.Errorf("give a job to the workers: %w", err)
	}
	return nil
}

// enter waits for a place as the policy says. leave gives it back.
func (p *Pool) enter(ctx context.Context) (leave func(ran bool), err error) {
	if leave, ok := p.places.try(); ok {
		return leave, nil
	}
	if p.cfg.Full == Reject {
		return nil, p.refuse(Full)
	}
	if p.calling.Add(1) > int64(p.cfg.Callers) {
		p.calling.Add(-1)
		return nil, p.refuse(Crowded)
	}
	defer p.calling.Add(-1)
	waiting, cancel := context.WithTimeout(ctx, p.cfg.Wait)
	defer cancel()
	leave, err = p.places.wait(waiting)
	switch {
	case err == nil:
		return leave, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, p.refuse(Late)
	}
}

// refuse counts and makes the error.
func (p *Pool) refuse(why string) error {
	p.metrics.refused[why].Inc()
	inside := p.metrics.queued.Load() + p.metrics.running.Load() + p.calling.Load()
	return &FullError{Why: why, RetryAfter: time.Duration(p.mean.Load() * inside / p.size.Load())}
}

// Resize changes the number of workers. How many jobs are inside at most stays as
// it was. Jobs that are being done are not interrupted. It is an error unless
// workers is from 1 to MaxWorkers.
func (p *Pool) Resize(workers int) error {
	if workers < 1 || workers > MaxWorkers {
		return fmt.Errorf("resize the pool to %d workers: write a number from 1 to %d", workers, MaxWorkers)
	}
	p.workers.Resize(workers)
	p.size.Store(int64(workers))
	return nil
}

// Close takes nothing more and waits for the jobs that have been let in. Callers that
// wait for a place then get ErrClosed when they have one.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.inside.Wait()
	return nil
}

// task is a job that has been let in.
type task struct {
	pool    *Pool
	ctx     context.Context //nolint:containedctx // it lives as long as the caller's wait in Do
	job     func(ctx context.Context) error
	arrived time.Time
	leave   func(ran bool)
	taken   atomic.Bool // by the worker, or back by the caller
	done    chan struct{}
	err     error // before done is closed
}

// withdraw takes the job back; false if a worker has it. Its place is given back
// when a worker comes to it, which does not take long: it has nothing to do.
func (t *task) withdraw() bool {
	if !t.taken.CompareAndSwap(false, true) {
		return false
	}
	t.pool.metrics.queued.Add(-1)
	t.pool.metrics.waited(time.Since(t.arrived))
	return true
}

// run is called by a worker.
func (t *task) run() {
	defer t.pool.inside.Done()
	if !t.taken.CompareAndSwap(false, true) {
		t.leave(false)
		return
	}
	p, began := t.pool, time.Now()
	p.metrics.queued.Add(-1)
	p.metrics.running.Add(1)
	p.metrics.waited(began.Sub(t.arrived))
	t.err = fmt.Errorf("%w: it ended its goroutine", ErrPanicked)
	outcome := panicked
	defer func() {
		if r := recover(); r != nil {
			t.err = fmt.Errorf("%w: %v\n%s", ErrPanicked, r, debug.Stack())
		}
		took := time.Since(began)
		mean := p.mean.Load()
		p.mean.Store(mean + (int64(took)-mean)/8) // a lost update between two jobs does not matter
		p.metrics.running.Add(-1)
		p.metrics.ended(outcome, took)
		t.leave(true)
		close(t.done)
	}()
	t.err = t.job(t.ctx)
	outcome = done
}
