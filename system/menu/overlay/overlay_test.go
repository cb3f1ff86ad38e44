package overlay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/system/menu"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source has an overlay of menu 7 and none of others.
type source struct {
	asked  atomic.Int64
	broken atomic.Bool
	dish   atomic.Value
}

func (s *source) load(ctx context.Context, id int64) ([]byte, error) {
	s.asked.Add(1)
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("there is no deadline")
	}
	if s.broken.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if id != 7 {
		return nil, fmt.Errorf("menu %d: %w", id, menu.ErrNotFound)
	}
	return fmt.Appendf(nil, `{"soldOut":[{"dish":%q}]}`, s.dish.Load()), nil
}

func open(t *testing.T) (*Overlays, *source) {
	t.Helper()
	s := &source{}
	s.dish.Store("Shiro")
	o, err := New(s.load, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o, s
}

func sold(o *menu.Overlay, dish string) bool { return o.At(time.Now()).SoldOut(dish) }

// The hot page does not ask each time, also where there is nothing to say.
func TestAHotPageAsksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := open(t)
		for _, id := range []int64{7, 8} {
			before := s.asked.Load()
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if got := sold(o.Find(t.Context(), id), "Shiro"); got != (id == 7) {
						t.Errorf("menu %d: got %v", id, got)
					}
				})
			}
			all.Wait()
			if got := s.asked.Load() - before; got != 1 {
				t.Errorf("menu %d: it was asked for %d times, want once", id, got)
			}
		}
	})
}

// A change is seen within four seconds, by who asks all the time and by who comes back.
func TestChangesAreSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := open(t)
		o.Find(t.Context(), 7)
		s.dish.Store("Kitfo")
		for range 41 {
			time.Sleep(100 * time.Millisecond)
			o.Find(t.Context(), 7)
		}
		if !sold(o.Find(t.Context(), 7), "Kitfo") {
			t.Error("not seen by who asks all the time")
		}
		s.dish.Store("Genfo")
		time.Sleep(5 * time.Second)
		if !sold(o.Find(t.Context(), 7), "Genfo") {
			t.Error("not seen by who comes back")
		}
	})
}

// A source that is gone costs no page more than a moment, and what was known holds for a minute.
func TestASourceThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o, s := open(t)
		o.Find(t.Context(), 7)
		s.broken.Store(true)
		asked, waited := s.asked.Load(), 0
		for range 1000 {
			began := time.Now()
			if o.Find(t.Context(), 8) != nil {
				t.Fatal("got an overlay from nowhere")
			}
			if time.Since(began) > wait {
				t.Fatalf("a page waited for %v", time.Since(began))
			}
			if time.Since(began) > 0 {
				waited++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := s.asked.Load() - asked; got > 10 || waited > 60 {
			t.Errorf("in 10 s it was asked %d times, and %d pages waited", got, waited)
		}
		if !sold(o.Find(t.Context(), 7), "Shiro") {
			t.Error("what was known is lost")
		}
		time.Sleep(2 * time.Minute)
		if o.Find(t.Context(), 7) != nil {
			t.Error("what was known two minutes ago is still shown")
		}
		s.broken.Store(false)
		time.Sleep(rest + time.Second) // the last attempt, and the rest
		if !sold(o.Find(t.Context(), 7), "Shiro") {
			t.Error("it is back, and nobody asks")
		}
	})
}
