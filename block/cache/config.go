package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config describes a cache. The parts that are pointers may be nil: the cache
// then does without. With neither Memory nor Shared, misses are still coalesced
// and loads still bounded.
type Config[K comparable, V any] struct {
	// Name tells this cache's metrics from those of others in the process.
	Name string
	// MaxAge is how long after its load an entry is forgotten. Without Valid it is
	// the longest time for which a change behind the loader can stay unseen.
	MaxAge time.Duration
	// Valid reports whether a value that a tier has may still be served; nil: it may.
	// What is not valid is a miss. It is asked at each look-up, so it must be fast, and
	// once it has refused a value it must not take it again.
	Valid func(key K, value V) bool
	// LoadTimeout bounds one load. A load serves everybody who waits for its
	// key, so no caller's deadline can: see Find.
	LoadTimeout time.Duration
	// Load gets a value that is in no tier. Its context ends after LoadTimeout;
	// it must return soon after that.
	Load func(ctx context.Context, key K) (V, error)
	// Registerer receives the metrics, see metrics.
	Registerer prometheus.Registerer

	Memory  *Memory[K, V]
	Shared  *Shared[K, V]
	Refresh *Refresh
	Absent  *Absent
	Shed    *Shed
	Jitter  Jitter
}

// Memory is the tier in this process.
type Memory[K comparable, V any] struct {
	// MaxBytes bounds the memory for entries: the sum over all of Bytes plus
	// EntryOverhead. While entries are written faster than the evicting
	// goroutine runs, the sum may be over it by what has just been written.
	MaxBytes int64
	// Bytes is the size of an entry's key and value in memory, without what
	// EntryOverhead covers. It is called with the zero value for a key that is
	// known to be absent.
	Bytes func(key K, value V) int
}

// Refresh replaces entries before they are gone.
type Refresh struct {
	// After is the age from which an entry is refreshed behind the caller.
	After time.Duration
	// SyncAfter is the age from which the caller waits for the refresh.
	SyncAfter time.Duration
	// SyncWait is how long it waits. Then it gets the stale value.
	SyncWait time.Duration
	// Backoff is how long an entry whose refresh failed is served as it is
	// before the next attempt. The memory tier keeps that time; without it,
	// each look-up is an attempt.
	Backoff time.Duration
	// Concurrent bounds the refreshes behind callers. One that finds no place is
	// skipped and counted: a later look-up of its key tries again.
	Concurrent int
}

// Absent keeps the knowledge that a key has no value. Without it, look-ups of
// unknown keys all reach the loader, and the time that they take tells them from
// known ones.
//
// Absent keys take room: somebody who tries many fills the memory tier with
// them, where the admission policy prefers keys that are asked for again, and the
// shared tier for Age.
type Absent struct {
	// Err is the loader's error (errors.Is) that means "there is no such key",
	// and what is returned while that is remembered.
	Err error
	// Age is how long it is remembered, at most MaxAge.
	Age time.Duration
}

// Jitter makes entries that were loaded together expire and refresh apart: each
// draws a number in (1-Fraction, 1] that all its ages are multiplied by.
type Jitter struct {
	// Fraction is in [0, 1); 0 is no jitter.
	Fraction float64
	// Seed makes the sequence of draws.
	Seed uint64
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config[K, V]) Validate() error {
	var bad problems
	bad.unlessf(c.Name != "", "there is no name")
	bad.unlessf(c.MaxAge >= time.Millisecond, "max age is %v, must be at least 1ms", c.MaxAge)
	bad.unlessf(c.LoadTimeout > 0, "load timeout is %v, must be positive", c.LoadTimeout)
	bad.unlessf(c.Load != nil, "the function to load is missing")
	bad.unlessf(c.Registerer != nil, "there is no metrics registerer")
	bad.unlessf(c.Jitter.Fraction >= 0 && c.Jitter.Fraction < 1, "jitter is %v, must be at least 0 and less than 1", c.Jitter.Fraction)
	if m := c.Memory; m != nil {
		bad.unlessf(m.MaxBytes >= MinBytes, "max bytes is %d, must be at least %d", m.MaxBytes, MinBytes)
		bad.unlessf(m.Bytes != nil, "the function for an entry's bytes is missing")
	}
	if s := c.Shared; s != nil {
		bad.unlessf(s.Remote != nil && s.KeyText != nil && s.Encode != nil && s.Decode != nil,
			"the shared tier or one of its three functions is missing")
	}
	if r := c.Refresh; r != nil {
		bad.unlessf(r.After > 0 && r.After < r.SyncAfter && r.SyncAfter < c.MaxAge,
			"refresh after %v, synchronous after %v, max age %v: each must be less than the next", r.After, r.SyncAfter, c.MaxAge)
		bad.unlessf(r.SyncWait > 0, "synchronous wait is %v, must be positive", r.SyncWait)
		bad.unlessf(r.Backoff > 0, "refresh backoff is %v, must be positive", r.Backoff)
		bad.unlessf(r.Concurrent >= 1, "concurrent refreshes is %d, must be at least 1", r.Concurrent)
	}
	if a := c.Absent; a != nil {
		bad.unlessf(a.Err != nil, "the error that means absent is missing")
		bad.unlessf(a.Age > 0 && a.Age <= c.MaxAge, "age of absent keys is %v, must be positive and at most the max age of %v", a.Age, c.MaxAge)
	}
	if s := c.Shed; s != nil {
		bad.unlessf(s.Concurrent >= 1, "concurrent loads is %d, must be at least 1", s.Concurrent)
		bad.unlessf(s.Queue >= 0, "queue of loads is %d, must not be negative", s.Queue)
		bad.unlessf(s.Wait > 0, "wait for a load is %v, must be positive", s.Wait)
	}
	return errors.Join(bad...)
}

type problems []error

func (p *problems) unlessf(fine bool, format string, args ...any) {
	if !fine {
		*p = append(*p, fmt.Errorf("cache: "+format, args...))
	}
}

// ages are the configured ages in microseconds; those of what is not configured
// are those of MaxAge.
type ages struct{ refresh, sync, value, absent int64 }

func (c Config[K, V]) ages() ages {
	most := c.MaxAge.Microseconds()
	a := ages{most, most, most, most}
	if c.Refresh != nil {
		a.refresh, a.sync = c.Refresh.After.Microseconds(), c.Refresh.SyncAfter.Microseconds()
	}
	if c.Absent != nil {
		a.absent = c.Absent.Age.Microseconds()
	}
	return a
}
