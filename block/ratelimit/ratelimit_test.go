package ratelimit

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const maxKeys = 100
		l := New(maxKeys)
		for i := range 5 {
			if got := l.Take("a", 3, time.Minute); got != (i < 3) {
				t.Errorf("attempt %d: got %v", i, got)
			}
		}
		time.Sleep(time.Minute)
		if !l.Take("a", 3, time.Minute) || l.Take("a", 3, time.Minute) {
			t.Error("a minute later there is not one more")
		}
		for i := range 3 * maxKeys {
			l.Take(fmt.Sprint(i), 3, time.Minute)
			if len(l.keys) > maxKeys {
				t.Fatalf("it remembers %d", len(l.keys))
			}
		}
		l.Forget("a")
		if !l.Take("a", 1, time.Minute) {
			t.Error("it did not forget")
		}
	})
}
