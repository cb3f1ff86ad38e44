package guard

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// ways is how many entries a set has. A key has its place in one set only, so
// finding it reads at most so many entries, which are side by side.
const ways = 8

// table is a fixed number of entries, found by key. It is made whole at the start
// and never grows. The place of a key depends on a secret seed, so nobody can
// choose keys that all fall on one set.
type table struct {
	sets      []set
	shift     uint
	seed      maphash.Seed
	forgotten atomic.Uint64
}

// key is an address, an id, or an id and an address. It is kept whole: if pairs
// were told apart by a hash, one could be sought that collides with another
// student's.
type key struct{ first, second uint64 }

// set has a lock of its own: two requests meet only if they need the same
// entries.
type set struct {
	mu    sync.Mutex
	keys  [ways]key
	slots [ways]entry
}

// entry is what is known of a key; the zero entry is empty. It stops to count
// at until, in nanoseconds since the guard's epoch.
type entry struct {
	until  int64
	count  int32
	untold int32 // requests that the peers do not know of
}

// newTable returns a table with at least n places, n at least 1, rounded up to a power of two.
func newTable(n int) *table {
	log := uint(bits.Len(uint((n+ways-1)/ways - 1)))
	return &table{sets: make([]set, 1<<log), shift: 64 - log, seed: maphash.MakeSeed()}
}

// lock returns the key's set, locked.
func (t *table) lock(key key) *set {
	var text [16]byte
	binary.NativeEndian.PutUint64(text[:], key.first)
	binary.NativeEndian.PutUint64(text[8:], key.second)
	// A shift by 64 gives 0: the one set of the smallest table. Bytes, for
	// Comparable takes five times as long.
	s := &t.sets[maphash.Bytes(t.seed, text[:])>>t.shift]
	s.mu.Lock()
	return s
}

// find returns what is known of the key, or nil.
func (s *set) find(key key) *entry {
	for i := range s.keys {
		if s.keys[i] == key && s.slots[i].until != 0 {
			return &s.slots[i]
		}
	}
	return nil
}

// claim returns the key's entry, a new one if there is none. A full set forgets
// an entry that has stopped to count, else the one with the smallest count, and
// of those the one that would stop first.
func (s *set) claim(key key, at int64, t *table) *entry {
	if slot := s.find(key); slot != nil {
		return slot
	}
	victim := 0
	for i := range s.slots {
		if s.slots[i].until <= at {
			victim = i
			break
		}
		if s.slots[i].less(&s.slots[victim]) {
			victim = i
		}
	}
	if s.slots[victim].until > at {
		t.forgotten.Add(1)
	}
	s.keys[victim], s.slots[victim] = key, entry{}
	return &s.slots[victim]
}

func (o *entry) less(other *entry) bool {
	if o.count != other.count {
		return o.count < other.count
	}
	return o.until < other.until
}

// add counts a try. The count lives for a window from the first; from the limit on it
// lives for a window from the last.
func (o *entry) add(at, window int64, limit, weight int32) {
	if o.until <= at {
		*o = entry{until: at + window}
	}
	o.count = min(o.count+weight, limit)
	if o.count >= limit {
		o.until = at + window
	}
}

// locked returns how long the count stays at or above the limit: 0 if it is
// below. A nil entry is an empty one.
func (o *entry) locked(at int64, limit int32) time.Duration {
	if o == nil || o.until <= at || o.count < limit {
		return 0
	}
	return time.Duration(o.until - at)
}
