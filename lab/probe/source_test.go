package probe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestASourceThatFailsLeavesAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := Source{Instance: "log-1", Whole: true, Read: func(ctx context.Context) (map[string]float64, error) {
			asked++
			switch asked {
			case 1:
				return map[string]float64{"lag": 5}, nil
			case 2: // it says nothing
				<-ctx.Done()
				return nil, ctx.Err()
			case 3:
				return nil, errors.New("no leader")
			case 4: // it is busy
				time.Sleep(4 * time.Second)
			}
			return map[string]float64{"lag": 7}, nil
		}}
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		records, done := make(chan any), make(chan error, 1)
		go func() { done <- ask(ctx, s, records) }()
		for _, want := range []struct {
			at, took time.Duration
			lag      float64
		}{{0, 0, 5}, {26 * time.Second, 4 * time.Second, 7}, {30 * time.Second, 0, 7}, {31 * time.Second, 0, 7}} {
			got := (<-records).(*Scrape)
			if got.At.Sub(began) != want.at || got.Took != want.took || got.Instance != "log-1" || !got.Whole || got.Values["lag"] != want.lag {
				t.Errorf("got %+v after %v, want a lag of %v after %v", got, got.At.Sub(began), want.lag, want.at)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
