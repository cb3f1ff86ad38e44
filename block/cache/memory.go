package cache

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/maypok86/otter/v2/stats"
)

// EntryOverhead is what the memory tier adds to each entry, in bytes: what its
// node holds besides key and value, its age and its share of the hash table and
// of the frequency sketch. TestEntryOverhead measures it: about 128 bytes, by the
// number of entries; rounded up to what allocators round to.
const EntryOverhead = 160

// MinBytes is the smallest bound that makes sense: below it, the overhead of a
// few entries is all there is.
const MinBytes = 64 << 10

// maxShare is the part of MaxBytes that one entry may take. A larger one would
// push out a good part of all others to be kept for one key.
const maxShare = 8

// memory is the tier in this process: an otter cache behind a pointer, which
// decides what stays and what goes (W-TinyLFU) and expires entries. Clearing
// replaces the whole otter cache: that takes the same time for any size.
type memory[K comparable, V any] struct {
	cfg     Memory[K, V]
	name    string
	ages    ages
	events  *evictions
	current atomic.Pointer[otter.Cache[K, *entry[V]]]
}

// evictions counts what otter throws out; the cache counts the rest itself.
type evictions struct {
	stats.NoopRecorder

	n atomic.Uint64
}

// RecordEviction implements stats.Recorder.
func (e *evictions) RecordEviction(uint32) { e.n.Add(1) }

func newMemory[K comparable, V any](name string, cfg Memory[K, V], ages ages) (*memory[K, V], error) {
	m := &memory[K, V]{cfg: cfg, name: name, ages: ages, events: &evictions{}}
	first, err := m.generation()
	if err != nil {
		return nil, err
	}
	m.current.Store(first)
	return m, nil
}

// generation is a new, empty otter cache.
func (m *memory[K, V]) generation() (*otter.Cache[K, *entry[V]], error) {
	next, err := otter.New(&otter.Options[K, *entry[V]]{
		MaximumWeight: uint64(m.cfg.MaxBytes),
		Weigher:       func(key K, e *entry[V]) uint32 { return uint32(m.weight(key, e.value)) }, // fits keeps larger ones out
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[K, *entry[V]]) time.Duration {
			return max(1, m.ages.rest(e.Value.born, e.Value.scale, e.Value.absent))
		}),
		StatsRecorder: m.events,
	})
	if err != nil {
		return nil, fmt.Errorf("make cache %q: %w", m.name, err)
	}
	return next, nil
}

// get returns the entry and the present moment, from the one reading of the
// clock that the look-up makes.
func (m *memory[K, V]) get(key K) (e *entry[V], now int64, ok bool) {
	found, ok := m.current.Load().GetEntry(key)
	return found.Value, found.SnapshotAtNano / 1000, ok
}

// peek is get without a trace in the eviction policy.
func (m *memory[K, V]) peek(key K) (*entry[V], bool) {
	found, ok := m.current.Load().GetEntryQuietly(key)
	return found.Value, ok
}

func (m *memory[K, V]) set(key K, e *entry[V]) { m.current.Load().Set(key, e) }
func (m *memory[K, V]) drop(key K)             { m.current.Load().Invalidate(key) }
func (m *memory[K, V]) stop()                  { m.current.Load().StopAllGoroutines() }

// clear forgets everything. The caller holds Cache.mu, as for set and drop.
func (m *memory[K, V]) clear() error {
	next, err := m.generation()
	if err != nil {
		return err
	}
	m.current.Swap(next).StopAllGoroutines()
	return nil
}

func (m *memory[K, V]) weight(key K, value V) int64 {
	return int64(m.cfg.Bytes(key, value)) + EntryOverhead
}

// fits also keeps weights within what otter counts with.
func (m *memory[K, V]) fits(key K, value V) bool {
	return m.weight(key, value) <= min(m.cfg.MaxBytes/maxShare, math.MaxUint32)
}

// reading is what the tier knows about itself at one moment.
type reading struct {
	evictions, bytes uint64
	entries          int
	limit            int64
}

func (m *memory[K, V]) reading() reading {
	now := m.current.Load()
	return reading{evictions: m.events.n.Load(), bytes: now.WeightedSize(), entries: now.EstimatedSize(), limit: m.cfg.MaxBytes}
}
