package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/queue"
)

func metrics() *queue.Metrics { return queue.NewMetrics(prometheus.NewRegistry()) }

// A refused message is put aside after its tries, once, and the others are handled.
func TestDeliverPutsAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var handled, buried []string
		tries := map[string]int{}
		d := queue.Delivery{
			Retry: queue.DefaultRetry(), Metrics: metrics(),
			Handle: func(_ context.Context, batch []queue.Message) error {
				for _, m := range batch {
					if tries[m.ID]++; m.ID == "b" {
						return fmt.Errorf("%w: b", queue.ErrRefused)
					}
				}
				for _, m := range batch {
					handled = append(handled, m.ID)
				}
				return nil
			},
			Bury: func(_ context.Context, m queue.Message, reason error) error {
				if !errors.Is(reason, queue.ErrRefused) {
					t.Errorf("the reason: got %v, want %v", reason, queue.ErrRefused)
				}
				if buried = append(buried, m.ID); len(buried) == 1 {
					return errors.New("not now") // and then it must be tried again
				}
				return nil
			},
		}
		if err := d.Deliver(t.Context(), []queue.Message{{ID: "a"}, {ID: "b"}, {ID: "c"}}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(handled, []string{"a", "c"}) || !slices.Equal(buried, []string{"b", "b"}) {
			t.Errorf("got %q handled and %q put aside, want a and c, and b after one failure", handled, buried)
		}
		if want := d.Retry.Tries + 1; tries["b"] != want {
			t.Errorf("b was tried %d times, want %d: in the batch and by itself", tries["b"], want)
		}
	})
}

// While a handler cannot work, nothing is acknowledged and nothing put aside.
func TestDeliverEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		calls := 0
		d := queue.Delivery{
			Retry: queue.DefaultRetry(), Metrics: metrics(),
			Handle: func(context.Context, []queue.Message) error {
				if calls++; calls == 10 {
					stop()
				}
				return errors.New("the disk is full")
			},
			Bury: func(context.Context, queue.Message, error) error {
				t.Error("a message was put aside, because of the disk")
				return nil
			},
		}
		if err := d.Deliver(ctx, []queue.Message{{ID: "a"}}); !errors.Is(err, context.Canceled) || calls != 10 {
			t.Errorf("Deliver: got %v after %d calls, want %v after 10", err, calls, context.Canceled)
		}
	})
}
