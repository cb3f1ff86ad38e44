package fault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a system in which everything takes as long as it is told.
type fake struct {
	mu    sync.Mutex
	log   []string
	began time.Time
	ready time.Duration // how long a start takes
	fails map[string]error
}

func (f *fake) do(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf("%g %s", time.Since(f.began).Seconds(), what))
	return f.fails[what]
}

func (f *fake) Kill(_ context.Context, in string) error   { return f.do("kill " + in) }
func (f *fake) Stop(_ context.Context, in string) error   { return f.do("stop " + in) }
func (f *fake) Pause(_ context.Context, in string) error  { return f.do("pause " + in) }
func (f *fake) Resume(_ context.Context, in string) error { return f.do("resume " + in) }

func (f *fake) Start(ctx context.Context, in string) (time.Time, error) {
	launched := time.Now()
	if err := f.do("start " + in); err != nil {
		return time.Time{}, err
	}
	select {
	case <-time.After(f.ready):
		return launched, nil
	case <-ctx.Done():
		return launched, fmt.Errorf("wait for %s: %w", in, context.Cause(ctx))
	}
}

func (f *fake) Exec(_ context.Context, in string, command []string, _ time.Duration) (string, error) {
	return "OK", f.do("exec " + in + " " + strings.Join(command, " "))
}

// carried carries faults out under a load of some length, and returns what was
// done and recorded.
func carried(t *testing.T, f *fake, length time.Duration, faults ...Fault) (begun int, events []Event, err error) {
	t.Helper()
	f.began = time.Now()
	began, over := make(chan time.Time, 1), make(chan struct{})
	time.AfterFunc(time.Second, func() { began <- f.began }) // the first window comes a second late
	time.AfterFunc(length, func() { close(over) })
	begun, err = Carry(t.Context(), Config{
		System: f, Faults: faults, Doing: func(string) {},
		Write: func(e Event) error { events = append(events, e); return nil },
	}, began, over)
	<-over // or its timer would be left
	return begun, events, err
}

var (
	killTwo = Fault{At: 5 * time.Second, Action: Kill, Targets: []string{"api-1", "api-2"}, Ends: true, For: 3 * time.Second}
	pause   = Fault{At: 20 * time.Second, Action: Pause, Targets: []string{"redis-1"}, Ends: true, For: 2 * time.Second}
	flush   = Fault{At: 30 * time.Second, Action: Exec, Targets: []string{"redis-1"}, Command: []string{"flush"}, Within: time.Second}
	stop    = Fault{At: 40 * time.Second, Action: Stop, Targets: []string{"db-1"}}
)

func TestFaultsAreCarriedOutAtTheirTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ready: 1500 * time.Millisecond}
		begun, events, err := carried(t, f, time.Minute, killTwo, pause, flush, stop)
		if err != nil || begun != 4 || len(events) != 4 {
			t.Fatalf("%d begun, %d recorded, %v", begun, len(events), err)
		}
		got := strings.Join(f.log, "; ")
		for _, want := range []string{"5 kill api-1", "5 kill api-2", "8 start api-1", "8 start api-2", "20 pause redis-1", "22 resume redis-1", "30 exec redis-1 flush", "40 stop db-1"} {
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		since := func(at time.Time) float64 { return at.Sub(f.began).Seconds() }
		back, ok := events[0].Back()
		if !ok || since(back) != 9.5 || since(events[0].Asked) != 5 || since(events[0].Instances[1].Launched) != 8 || events[0].What != "kill api-1, api-2" {
			t.Errorf("killed: %+v", events[0])
		}
		if back, ok := events[1].Back(); !ok || since(back) != 22 {
			t.Errorf("paused: %+v", events[1])
		}
		if back, ok := events[2].Back(); !ok || since(back) != 30 || events[2].Said != "OK" {
			t.Errorf("run: %+v", events[2])
		}
		if _, ok := events[3].Back(); ok || events[3].Done.IsZero() {
			t.Errorf("stopped for good: %+v", events[3])
		}
	})
}

// TestTheEndOfTheLoadIsNoFailure ends it before a fault, while an instance is
// away, and while it gets ready.
func TestTheEndOfTheLoadIsNoFailure(t *testing.T) {
	t.Parallel()
	for length, want := range map[time.Duration]int{500 * time.Millisecond: 0, 4 * time.Second: 0, 7 * time.Second: 1, 9 * time.Second: 1} {
		synctest.Test(t, func(t *testing.T) {
			begun, events, err := carried(t, &fake{ready: time.Minute}, length, killTwo, pause)
			if err != nil || begun != want || len(events) != want {
				t.Fatalf("after %v: %d begun, %d recorded, %v", length, begun, len(events), err)
			}
			if want > 0 {
				if _, ok := events[0].Back(); ok {
					t.Error("it is back")
				}
				if launched := !events[0].Instances[0].Launched.IsZero(); launched != (length > 8*time.Second) {
					t.Errorf("after %v: launched %v", length, launched)
				}
			}
			time.Sleep(2 * time.Second) // of the bubble: the first window, if it comes after the end
		})
	}
}

func TestAFaultThatCannotBeCarriedOutIsAnError(t *testing.T) {
	t.Parallel()
	for what, number := range map[string]int{"kill api-2": 1, "start api-1": 1, "pause redis-1": 2, "exec redis-1 flush": 3} {
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("it is broken")
			_, events, err := carried(t, &fake{fails: map[string]error{what: broken}}, time.Minute, killTwo, pause, flush)
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Number != number || !errors.Is(err, broken) || len(events) != number {
				t.Errorf("%s: got %v and %d records", what, err, len(events))
			}
		})
	}
}

// TestALateFaultIsAnError has the one before it take long to be ready.
func TestALateFaultIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, _, err := carried(t, &fake{ready: 15 * time.Second}, time.Minute, killTwo, pause)
		if err == nil || !strings.Contains(err.Error(), "fault 2 (pause redis-1) could not be carried out: it was due 20s after the load began and could begin 3.0 s later") {
			t.Errorf("got %v", err)
		}
	})
}
