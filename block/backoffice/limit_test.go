package backoffice

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// For tests of the package from outside.
const (
	TriesOfName    = triesOfName
	TriesOfAddress = triesOfAddress
	MaxSignInBytes = maxSignInBytes
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter{keys: map[string]bucket{}}
		for i := range 5 {
			if got := l.take("a", 3, time.Minute); got != (i < 3) {
				t.Errorf("attempt %d: got %v", i, got)
			}
		}
		time.Sleep(time.Minute)
		if !l.take("a", 3, time.Minute) || l.take("a", 3, time.Minute) {
			t.Error("a minute later there is not one more")
		}
		for i := range 3 * maxKeys {
			l.take(fmt.Sprint(i), 3, time.Minute)
			if len(l.keys) > maxKeys {
				t.Fatalf("it remembers %d", len(l.keys))
			}
		}
		l.forget("a")
		if !l.take("a", 1, time.Minute) {
			t.Error("it did not forget")
		}
	})
}

func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		turns := newTurns()
		results := make(chan error, 100)
		for range cap(results) {
			go func() {
				results <- turns.do(t.Context(), func() {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
				})
			}()
		}
		done := 0
		for range cap(results) {
			if err := <-results; err == nil {
				done++
			}
		}
		if done < hashing || done > hashing*(1+int(hashTimeout/time.Second)) || most.Load() > hashing {
			t.Errorf("got %d done, %d at a time", done, most.Load())
		}
	})
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8:0:1:2::3": "2001:db8:0:1::/64"} {
		if got := network(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
	if got := network(netip.Addr{}); got == "" {
		t.Error("nobody is an address, too")
	}
}
