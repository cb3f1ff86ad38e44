package epoll

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *Poller {
	t.Helper()
	p, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// pair returns two ends of a socket that do not block.
func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0], fds[1]
}

// waits are the ways to wait.
var waits = map[string]func(*Poller, time.Duration) ([]Event, error){"Wait": (*Poller).Wait, "Park": (*Poller).Park}

// both has a test do the same for both ways to wait.
func both(t *testing.T, do func(t *testing.T, p *Poller, wait func(time.Duration) ([]Event, error))) {
	t.Helper()
	t.Parallel()
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			do(t, p, func(d time.Duration) ([]Event, error) { return wait(p, d) })
		})
	}
}

// long is more than any of these waits takes unless it is stuck.
const long = time.Minute

// next waits for events, after d at the latest. A signal to the thread ends a wait early.
func next(wait func(time.Duration) ([]Event, error), d time.Duration) ([]Event, error) {
	for end := time.Now().Add(d); ; {
		events, err := wait(time.Until(end))
		if err != nil || len(events) > 0 || !time.Now().Before(end) {
			return events, err
		}
	}
}

func TestAnEventHasItsTag(t *testing.T) {
	both(t, func(t *testing.T, p *Poller, wait func(time.Duration) ([]Event, error)) {
		a, b := pair(t)
		if err := p.Watch(a, 7); err != nil {
			t.Fatal(err)
		}
		if events, err := next(wait, long); err != nil || len(events) != 1 || events[0].Events&unix.EPOLLOUT == 0 {
			t.Fatalf("a new socket can be written: got %v, %v", events, err)
		}
		if _, err := unix.Write(b, []byte("x")); err != nil {
			t.Fatal(err)
		}
		events, err := next(wait, long)
		if err != nil || len(events) != 1 || int(events[0].Fd) != a || events[0].Pad != 7 || events[0].Events&unix.EPOLLIN == 0 {
			t.Errorf("got %v, %v, want something to read on %d with tag 7", events, err, a)
		}
		if events, err := wait(0); err != nil || len(events) > 0 {
			t.Errorf("the same again: got %v, %v, want nothing", events, err)
		}
	})
}

func TestAWakeBeforeTheWaitEndsIt(t *testing.T) {
	both(t, func(t *testing.T, p *Poller, wait func(time.Duration) ([]Event, error)) {
		p.Wake()
		if events, err := wait(long); err != nil || len(events) > 0 {
			t.Errorf("got %v, %v", events, err)
		}
	})
}

// Whoever wakes has done so for good: no wake is lost, whenever it comes.
func TestNoWakeIsLost(t *testing.T) {
	both(t, func(t *testing.T, p *Poller, wait func(time.Duration) ([]Event, error)) {
		const rounds = 1000
		var asked, seen atomic.Int64
		go func() {
			for i := range int64(rounds) {
				asked.Store(i + 1)
				p.Wake()
				for seen.Load() <= i && !t.Failed() { // no later wake stands in for a lost one
					runtime.Gosched()
				}
			}
		}()
		for seen.Load() < rounds {
			began := time.Now()
			if _, err := wait(long); err != nil {
				t.Fatal(err)
			}
			seen.Store(asked.Load())
			if time.Since(began) >= long {
				t.Fatalf("nobody woke it, %d of %d were asked for", seen.Load(), rounds)
			}
		}
	})
}

func TestAWaitEnds(t *testing.T) {
	both(t, func(t *testing.T, _ *Poller, wait func(time.Duration) ([]Event, error)) {
		const d = 3 * time.Millisecond
		var took time.Duration
		for range 10 { // a signal to the thread may end one early, but not each
			began := time.Now()
			if events, err := wait(d); err != nil || len(events) > 0 {
				t.Errorf("got %v, %v", events, err)
			}
			if took = time.Since(began); took >= d-time.Millisecond { // before Linux 5.11 it ends up to a millisecond early
				return
			}
		}
		t.Errorf("it ended after %v, want %v", took, d)
	})
}
