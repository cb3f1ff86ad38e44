package pause

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if !For(ctx, 2*time.Second) || time.Since(began) != 2*time.Second {
			t.Errorf("got false or %v, want true after 2s", time.Since(began))
		}
		if For(ctx, 2*time.Second) || time.Since(began) != 3*time.Second {
			t.Errorf("got true or %v, want false when the context ends, after 3s", time.Since(began))
		}
	})
}

func TestAtStart(t *testing.T) {
	t.Parallel()
	for takes, want := range map[time.Duration]struct{ told, over bool }{time.Second: {}, 3 * time.Second: {true, false}, time.Hour: {true, true}} {
		synctest.Test(t, func(t *testing.T) {
			var told atomic.Bool
			began := time.Now()
			err := AtStart(t.Context(), "it", time.Minute, func(error) { told.Store(true) }, func(ctx context.Context) error {
				if !For(ctx, takes) {
					return ctx.Err()
				}
				return nil
			})
			if waited := time.Since(began); told.Load() != want.told || (err != nil) != want.over || waited != min(takes, time.Minute) {
				t.Errorf("what takes %v: got %v, %v after %v, want %+v", takes, told.Load(), err, waited, want)
			}
		})
	}
}
