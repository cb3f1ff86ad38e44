package lookaside

import (
	"fmt"
	"testing"
	"time"

	"loadstone/block/servertest"
)

// While Redis is lost, what was found of late costs the database nothing, and what it answers then
// is found once. What Redis had nothing of is not found in the spare, nor what
// never was: nobody is told when it comes to be.
func TestSpare(t *testing.T) {
	t.Parallel()
	s, d := servertest.Redis(t), newDatabase()
	spare := func(cfg *Config) { cfg.Spare = &Spare{MaxBytes: 1 << 20, Age: time.Hour} }
	c, writer := process(t, s.Addr(), d, spare), process(t, s.Addr(), d)
	keys := numbers(d, 100)
	var want []Value
	for _, key := range keys {
		want = append(want, d.set(key, false))
		gets(t, c, key, want[len(want)-1])
	}
	absent := d.set("none", true)
	gets(t, c, "none", absent)
	gets(t, c, "never", Value{Absent: true})

	// A change that this process has seen is seen without Redis, too.
	if err := writer.Changing(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	want[0] = d.set(keys[0], false)
	if err := writer.Changed(t.Context(), keys[0], want[0]); err != nil {
		t.Fatal(err)
	}
	gets(t, c, keys[0], want[0])

	// While a write is under way nothing is kept.
	if err := writer.Changing(t.Context(), keys[1]); err != nil {
		t.Fatal(err)
	}
	gets(t, c, keys[1], want[1])

	s.Kill()
	before := d.loads.Load()
	for range 3 {
		for i, key := range keys {
			gets(t, c, key, want[i])
		}
		gets(t, c, "none", absent)
		gets(t, c, "never", Value{Absent: true})
	}
	if got := d.loads.Load() - before; got != 1+3 {
		t.Errorf("the database was asked %d times, want once for what was being changed, and each time for what never was", got)
	}
	if got := count(c.metrics.spared); got != 3*101-1 {
		t.Errorf("the spare had %d of %d look-ups", got, 3*101-1)
	}
	if err := c.Changing(t.Context(), keys[2]); err == nil {
		t.Error("a write may go on of which the others are not told")
	}
}

// It is bounded, in time and memory.
func TestSpareIsBounded(t *testing.T) {
	t.Parallel()
	s, err := newSpare(&Spare{MaxBytes: 64 << 10, Age: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for i := range 10_000 {
		s.keep(fmt.Sprint("key ", i), Value{Bytes: make([]byte, 100)})
	}
	s.entries.CleanUp()
	if got := s.entries.WeightedSize(); got > 64<<10 {
		t.Errorf("it keeps %d bytes, want at most %d", got, 64<<10)
	}
	eventually(t, "it is found", func() bool {
		s.keep("key", Value{Version: 1})
		v, ok := s.find("key")
		return ok && v.Version == 1
	})
	eventually(t, "it is forgotten", func() bool { _, ok := s.find("key"); return !ok })
}

func TestSpareKeepsTheNewest(t *testing.T) {
	t.Parallel()
	s, err := newSpare(&Spare{MaxBytes: 64 << 10, Age: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.keep("key", Value{Version: 2})
	s.keep("key", Value{Version: 1}) // a load that began before the change
	if v, ok := s.find("key"); !ok || v.Version != 2 {
		t.Errorf("got version %d, there: %v; want 2, whose place 1 may not take", v.Version, ok)
	}
}
