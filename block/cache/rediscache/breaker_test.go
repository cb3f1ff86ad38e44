package rediscache

import (
	"testing"
	"time"
)

// What was under way together fails once: a pause of this process must not look like a Redis that
// has failed many times.
func TestCallsThatWereUnderWayTogetherFailOnce(t *testing.T) {
	t.Parallel()
	const limit = 3
	b := newBreaker(limit)
	together := func() (opened int) {
		began := time.Now()
		for range 100 {
			if b.fail(began) {
				opened++
			}
		}
		return opened
	}
	for i := range limit - 1 {
		if together() > 0 || b.isOpen() {
			t.Fatalf("it is open after %d failures, want %d", i+1, limit)
		}
	}
	b.succeed()
	for range limit - 1 {
		together()
	}
	if b.isOpen() {
		t.Fatalf("it is open after %d failures since a success, want %d", limit-1, limit)
	}
	if opened := together(); opened != 1 || !b.isOpen() {
		t.Errorf("it opened %d times after %d failures, want once", opened, limit)
	}
}
