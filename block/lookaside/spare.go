package lookaside

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
)

// Spare is what a process keeps of what it has found of late, for while Redis does not answer.
// Only the rest goes to the database then. It is for who can bear an old value more easily than a
// database that gets all look-ups at once: stale-if-error, in the words of RFC 5861.
//
// Writers are refused while Redis is lost, so what is served then is what is true, but for three
// changes, which may stay unseen for Age: one that took place within Age before Redis was lost, of
// a key that this process has not looked up since; one that was under way; and one of a writer
// that still reaches Redis when this process does not, which a machine without time to spare is enough
// for. Of a write that is not announced nobody is told either; such is the first of a key, so that
// there never was a value is not kept.
type Spare struct {
	// MaxBytes bounds the memory: keys, values and spareOverhead.
	MaxBytes int64
	// Age is how long after it was found a value may be served.
	Age time.Duration
}

// spareOverhead is what an entry takes beside its key and bytes: otter's node, its places in the hash
// table and the sketch, the Value and the headers of both. Rounded up.
const spareOverhead = 256

// spare is the memory; nil, it keeps nothing.
type spare struct {
	age     time.Duration
	entries *otter.Cache[string, Value]
}

func newSpare(cfg *Spare) (*spare, error) {
	if cfg == nil {
		return nil, nil //nolint:nilnil // a nil spare is one that keeps nothing
	}
	entries, err := otter.New(&otter.Options[string, Value]{
		MaximumWeight:    uint64(cfg.MaxBytes),
		Weigher:          func(key string, v Value) uint32 { return uint32(len(key) + len(v.Bytes) + spareOverhead) },
		ExpiryCalculator: otter.ExpiryWriting[string, Value](cfg.Age),
	})
	if err != nil {
		return nil, fmt.Errorf("make the spare of the look-aside cache: %w", err)
	}
	return &spare{cfg.Age, entries}, nil
}

// find returns what was found of late.
func (s *spare) find(key string) (Value, bool) {
	if s == nil {
		return Value{}, false
	}
	return s.entries.GetIfPresent(key)
}

// keep notes what was found. Of a key that is asked for all the time that costs a look-up: the same
// version is only noted again once a quarter of its time is over. An older one takes no newer one's place.
func (s *spare) keep(key string, v Value) {
	if s == nil {
		return
	}
	if v.Absent && v.Version == 0 { // its first write is not announced
		s.drop(key)
		return
	}
	old, ok := s.entries.GetEntry(key)
	if ok && old.Value.Version == v.Version && old.Value.Tag == v.Tag && old.ExpiresAfter() >= s.age/4*3 {
		return
	}
	s.entries.Compute(key, func(now Value, found bool) (Value, otter.ComputeOp) {
		if found && now.Version > v.Version {
			return now, otter.CancelOp // somebody else was told of a change meanwhile
		}
		return v, otter.WriteOp
	})
}

// drop forgets a key: Redis has nothing of it, or it is being changed.
func (s *spare) drop(key string) {
	if s != nil {
		s.entries.Invalidate(key)
	}
}

func (s *spare) close() {
	if s != nil {
		s.entries.StopAllGoroutines()
	}
}
