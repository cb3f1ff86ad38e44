package pause

import (
	"context"
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
