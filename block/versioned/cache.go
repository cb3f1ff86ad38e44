// Package versioned keeps what was read of something that tells cheaply whether it has changed,
// such as a SQLite database: each reading begins with its version, and an answer of another
// version is none. So nothing that is read is older than it would be without the cache, whoever
// changes the original, and there is nothing to invalidate.
//
// It differs from package cache in that: there ages bound what can be missed, and a look-up that
// finds its answer asks nobody.
//
// It owns no original and makes no query. It fails open: while the version cannot be told
// nothing is found or kept.
package versioned

import (
	"context"
	"fmt"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Original is what is read.
type Original interface {
	// Version is another number after each change, whoever made it, than it was before.
	Version(ctx context.Context) (int64, error)
}

// Cache keeps answers by their questions K. It is safe for concurrent use. A nil one has
// nothing and keeps nothing.
type Cache[K comparable, V any] struct {
	original Original
	answers  *otter.Cache[K, answer[V]]

	hits, misses prometheus.Counter
}

// answer is one of a version of the original.
type answer[V any] struct {
	version int64
	value   V
	bytes   int
}

// EntryBytes is about what an answer takes beside its key and value.
const EntryBytes = 192

// New returns an empty cache of an original, of about so many bytes. Its metrics begin with
// the name: NAME_cache_hits_total and NAME_cache_misses_total.
func New[K comparable, V any](of Original, bytes int64, name string, to prometheus.Registerer) (*Cache[K, V], error) {
	answers, err := otter.New(&otter.Options[K, answer[V]]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ K, a answer[V]) uint32 { return uint32(EntryBytes + a.bytes) },
	})
	if err != nil {
		return nil, fmt.Errorf("make the cache %s: %w", name, err)
	}
	count := func(what string) prometheus.Counter {
		return promauto.With(to).NewCounter(prometheus.CounterOpts{
			Name: name + "_cache_" + what + "_total", Help: "Answers that were looked for in the memory of this process, and were there, or not.",
		})
	}
	return &Cache[K, V]{original: of, answers: answers, hits: count("hits"), misses: count("misses")}, nil
}

// Reading is of one version of the original, or of a later one.
type Reading[K comparable, V any] struct {
	cache   *Cache[K, V] // nil: nothing is found or kept
	version int64
}

// Read begins a reading.
func (c *Cache[K, V]) Read(ctx context.Context) Reading[K, V] {
	if c == nil {
		return Reading[K, V]{}
	}
	version, err := c.original.Version(ctx)
	if err != nil {
		c.misses.Inc()
		return Reading[K, V]{}
	}
	return Reading[K, V]{c, version}
}

// Find returns the answer to a question. It belongs to all who read it: nobody may change it.
func (r Reading[K, V]) Find(question K) (value V, ok bool) {
	if r.cache == nil {
		return value, false
	}
	found, ok := r.cache.answers.GetIfPresent(question)
	if !ok || found.version != r.version {
		r.cache.misses.Inc()
		return value, false
	}
	r.cache.hits.Inc()
	return found.value, true
}

// Keep keeps what was read since the reading began, with the bytes of question and answer.
func (r Reading[K, V]) Keep(question K, value V, bytes int) {
	if r.cache != nil {
		r.cache.answers.Set(question, answer[V]{r.version, value, bytes})
	}
}
