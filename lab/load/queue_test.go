package load

import (
	"testing"
	"time"
)

// newTestQueue returns a queue of the given scenario whose clock starts now.
func newTestQueue(tb testing.TB, s *Scenario, timeout time.Duration) *queue {
	tb.Helper()
	alarm, err := newAlarm()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := alarm.close(); err != nil {
			tb.Error(err)
		}
	})
	return &queue{
		clock: &clock{epoch: time.Now()}, alarm: alarm, timeout: timeout, limit: time.Duration(never),
		schedule: newArrivals(s, 1), add: func() {}, drop: func(arrival) {},
	}
}

func waitingUser() *user { return &user{turn: make(chan struct{}, 1)} }

func TestQueueNeverHandsOutEarly(t *testing.T) {
	t.Parallel()
	q := newTestQueue(t, constantRate(200, 200*time.Millisecond, Poisson), time.Hour)
	u := waitingUser()
	for n := 0; ; n++ {
		a, waited, ok := q.next(u, 0)
		if !ok {
			if want := len(walk(constantRate(200, 200*time.Millisecond, Poisson), 1)); n != want {
				t.Errorf("got %d arrivals, want %d", n, want)
			}
			return
		}
		if now := q.clock.now(); now < a.at || waited {
			t.Fatalf("arrival %d at %v handed out at %v, waited %v; want it then or later, to a user that was free", n, a.at, now, waited)
		}
	}
}

// TestQueueTellsWhoWasLate: an arrival that found every user busy waited; one
// whose user was free is the generator's to answer for, however late it is.
func TestQueueTellsWhoWasLate(t *testing.T) {
	t.Parallel()
	q := newTestQueue(t, constantRate(100, time.Second, Uniform), time.Hour)
	q.clock.epoch = q.clock.epoch.Add(-500 * time.Millisecond) // fifty arrivals are overdue
	u := waitingUser()
	if a, waited, _ := q.next(u, 0); waited {
		t.Errorf("%+v waited for a user that was free from the start", a)
	}
	if a, waited, _ := q.next(u, 14*time.Millisecond); waited {
		t.Errorf("%+v waited for a user that was free before", a)
	}
	if a, waited, _ := q.next(u, 400*time.Millisecond); !waited {
		t.Errorf("%+v did not wait, but its user was busy until 400ms", a)
	}
	if q.busy != 1 {
		t.Errorf("%d users are busy, want 1", q.busy)
	}
}

// TestQueueIsFirstInFirstOut: users are served in the order in which they came
// free, without which "who was late" could not be told.
func TestQueueIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	q := newTestQueue(t, constantRate(100, time.Hour, Uniform), time.Hour)
	const n = 5
	q.clock.epoch = q.clock.epoch.Add(time.Second) // the first arrival is a second away
	got := make(chan [2]int, n)                    // a user and the arrival it was given
	for i := range n {
		u := waitingUser()
		go func() {
			if a, _, ok := q.next(u, 0); ok {
				got <- [2]int{i, int(a.number)}
			}
		}()
		// The next comes when this one stands in line.
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			q.mu.Lock()
			stands := q.led && (i == 0 || q.last == u)
			q.mu.Unlock()
			if stands {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("a user does not get into the line")
			}
		}
	}
	for range n {
		if g := <-got; g[0] != g[1] {
			t.Errorf("user %d was given arrival %d", g[0], g[1])
		}
	}
}

func TestQueueStop(t *testing.T) {
	t.Parallel()
	q := newTestQueue(t, constantRate(1, time.Hour, Uniform), time.Hour)
	dropped := 0
	q.drop = func(arrival) { dropped++ }
	q.clock.epoch = q.clock.epoch.Add(-2 * time.Second) // two arrivals are overdue
	if _, err := q.stop(); err != nil {
		t.Fatal(err)
	}
	if a, _, ok := q.next(waitingUser(), 0); ok || dropped != 2 {
		t.Errorf("got %+v, %v, and %d dropped; want no arrival and the two overdue dropped", a, ok, dropped)
	}
	// A leader that is asleep wakes up.
	q = newTestQueue(t, constantRate(0.001, time.Hour, Uniform), time.Hour)
	ended := make(chan bool)
	go func() {
		_, _, ok := q.next(waitingUser(), 0)
		ended <- ok
	}()
	if _, err := q.stop(); err != nil {
		t.Fatal(err)
	}
	if <-ended {
		t.Error("got an arrival after the end")
	}
}

func TestQueueExpiresWhatWaitsTooLong(t *testing.T) {
	t.Parallel()
	q := newTestQueue(t, constantRate(100, time.Second, Uniform), 300*time.Millisecond)
	dropped := 0
	q.drop = func(arrival) { dropped++ }
	q.expire(600 * time.Millisecond) // those due by 300 ms: at 5, 15, … 295
	if dropped != 30 || q.led {
		t.Errorf("%d dropped, led %v; want 30, and the lead given back", dropped, q.led)
	}
}

func TestQueueAsksForUsers(t *testing.T) {
	t.Parallel()
	q := newTestQueue(t, constantRate(1000, time.Hour, Uniform), time.Hour)
	added := 0
	q.add = func() { added++ }
	q.users, q.most = 1, 13
	q.clock.epoch = q.clock.epoch.Add(-time.Second)
	u := waitingUser()
	q.next(u, 0)
	if added != 1 {
		t.Errorf("%d users added when the only one left, want 1", added)
	}
	q.next(u, time.Second)
	if added != 1+growBehind {
		t.Errorf("%d users added when arrivals wait, want %d", added, 1+growBehind)
	}
	for range 10 {
		q.next(u, time.Second)
	}
	if added != 12 {
		t.Errorf("%d users added, want the 12 that the limit allows", added)
	}
}

func TestAlarm(t *testing.T) {
	t.Parallel()
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []time.Duration{0, time.Microsecond, 300 * time.Microsecond, 20 * time.Millisecond} {
		before := time.Now()
		if err := a.sleep(d); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(before); got < d {
			t.Errorf("slept %v, want %v at least", got, d)
		}
	}
	woken := make(chan error)
	go func() { woken <- a.sleep(time.Hour) }()
	if err := a.ring(); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	if err := a.sleep(time.Hour); err != nil { // once rung, it stays rung
		t.Fatal(err)
	}
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	if err := a.sleep(time.Hour); err == nil {
		t.Error("a closed alarm sleeps")
	}
}

func TestAlarmAllocatesNothing(t *testing.T) {
	q := newTestQueue(t, constantRate(1, time.Second, Uniform), time.Hour)
	n := testing.AllocsPerRun(100, func() {
		if err := q.alarm.sleep(time.Microsecond); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("got %v allocations for a sleep, want 0", n)
	}
}
