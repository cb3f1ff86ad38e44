package backoffice

import (
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
