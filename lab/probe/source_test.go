package probe

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
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
		// A question that was busy or in vain took longer than any interval, and is followed by as long a pause.
		random := rand.New(rand.NewPCG(1, 2))
		interval := func() time.Duration { return time.Duration((0.5 + random.Float64()) * 1e9) }
		first, _, third, _, fifth := interval(), interval(), interval(), interval(), interval()
		fourth := first + 2*sourceTimeout + third
		ctx, cancel := context.WithCancel(t.Context())
		records, done := make(chan any), make(chan error, 1)
		go func() { done <- ask(ctx, s, records) }()
		for _, want := range []struct {
			at, took time.Duration
			lag      float64
		}{{0, 0, 5}, {fourth + 4*time.Second, 4 * time.Second, 7}, {fourth + 8*time.Second, 0, 7}, {fourth + 8*time.Second + fifth, 0, 7}} {
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

// TestQuestionsAreInStepWithNothing: whatever happens at even times, questions come at any moment between two of
// them, and the next ones at another.
func TestQuestionsAreInStepWithNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		var asked []float64
		s := Source{Read: func(context.Context) (map[string]float64, error) {
			if asked = append(asked, time.Since(began).Seconds()); len(asked) == 1000 {
				cancel()
			}
			return nil, errors.New("nothing is told")
		}}
		if err := ask(ctx, s, nil); err != nil {
			t.Fatal(err)
		}
		if mean := asked[len(asked)-1] / float64(len(asked)-1); math.Abs(mean-1) > 0.05 {
			t.Errorf("asked every %v s, want 1", mean)
		}
		for _, every := range []float64{0.1, 0.5, 0.97, 1, 1.02, 2, 5} {
			// Half of the questions come in the later half of what is between two such moments, and half of the
			// questions that follow those.
			var late, both float64
			for i := range asked[1:] {
				half := func(at float64) bool { return math.Mod(at, every) > every/2 }
				if half(asked[i]) {
					late++
					if half(asked[i+1]) {
						both++
					}
				}
			}
			if n := float64(len(asked) - 1); every <= 1.02 && math.Abs(both/n-0.25) > 0.06 || math.Abs(late/n-0.5) > 0.06 {
				t.Errorf("every %v s: %.2f of the questions in the later half, %.2f after such a one; want 0.5 and 0.25", every, late/n, both/n)
			}
		}
	})
}
