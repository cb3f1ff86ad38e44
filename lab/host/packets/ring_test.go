package packets

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/sockets"
)

// handled is what a server says of itself.
type handled struct {
	n    atomic.Int64
	took atomic.Int64
}

func (h *handled) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	began := time.Now()
	time.Sleep(5 * time.Millisecond) // the time that has to be seen
	h.took.Add(int64(time.Since(began)))
	h.n.Add(1)
	_, _ = io.WriteString(w, "done\n")
}

// What is seen from outside is as many exchanges as the server handled, and no less time
// than it says that they took: what it cannot see is that they wait for it. Where packets are
// missed, it is no more exchanges.
func TestWhatIsSeenIsWhatAServerSaysOfItself(t *testing.T) {
	var says handled
	server := httptest.NewServer(&says)
	defer server.Close()
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	ctx, stop := context.WithCancel(t.Context())
	var slices []Slice
	var cut atomic.Int64 // when the last one ended
	watching := make(chan error, 1)
	ready := make(chan struct{}, 1)
	processes := func() map[string][]int { return map[string][]int{"self-1": {os.Getpid()}} }
	go func() {
		watching <- Watch(ctx, Config{Processes: processes}, func(s *Slice) error {
			slices = append(slices, *s)
			cut.Store(s.At.Add(time.Duration(s.Seconds * float64(time.Second))).UnixNano())
			select {
			case ready <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	wait := func() {
		t.Helper()
		select {
		case <-ready:
		case err := <-watching:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("no slice within a minute")
		}
	}
	wait()
	users(t, server.URL, 4, 50)
	for ended := time.Now(); cut.Load() <= ended.UnixNano(); {
		wait()
	}
	stop()
	if err := <-watching; err != nil {
		t.Fatal(err)
	}
	var seen Hop
	var lost uint64
	var unread time.Duration // between slices: where much else passes, glimpses are taken
	for i, s := range slices {
		if lost += s.Lost; i > 0 {
			before := slices[i-1]
			unread += s.At.Sub(before.At) - time.Duration(before.Seconds*float64(time.Second))
		}
		for _, h := range s.Hops {
			if h.Server == address && h.Client != "" && h.Client != "self-1" {
				t.Errorf("a hop of %q, want the target's", h.Client)
			}
			if h.Server == address {
				seen.add(&h)
			}
		}
	}
	if says.n.Load() != 200 || seen.Exchanges > 200 {
		t.Errorf("saw %d exchanges, the server says %d, want 200", seen.Exchanges, says.n.Load())
	}
	if lost > 0 || unread > time.Millisecond {
		t.Logf("saw %d exchanges: on a busy machine %d packets were lost, and %v not read", seen.Exchanges, lost, unread)
		return
	}
	if seen.Exchanges != 200 {
		t.Errorf("saw %d exchanges of 200, and lost nothing", seen.Exchanges)
	}
	if took := time.Duration(says.took.Load()); seen.InFlight < took {
		t.Errorf("saw %v under way, the server says %v, want no less", seen.InFlight, took)
	}
}

// A glimpse sees what passes while it lasts, and nothing is received after it.
func TestAGlimpse(t *testing.T) {
	var says handled
	server := httptest.NewServer(&says)
	defer server.Close()
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	r, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	asking, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() {
		for asking.Err() == nil {
			users(t, server.URL, 1, 1)
		}
	})
	for began := time.Now(); ; {
		var seen Hop
		read, _, err := r.glimpse(t.Context(), newTracker(nobody()), func(s *Slice) error {
			for _, h := range s.Hops {
				if h.Server == address {
					seen.add(&h)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if seen.Exchanges > 0 && read >= 2*seen.Exchanges {
			break
		}
		if time.Since(began) > time.Minute {
			t.Fatal("nothing was seen within a minute")
		}
	}
	stop()
	all.Wait()
	rests, late := time.Now().UnixNano(), 0
	users(t, server.URL, 1, 10)
	time.Sleep(settles) // until what came would be handed on
	for r.block(func(p packet) {
		if p.at > rests {
			late++
		}
	}) {
	}
	if late > 0 {
		t.Errorf("got %d packets while it rests", late)
	}
}

// What is read while the clock is set is not believed, and not kept: packets of a time that
// is to come would wait until then.
func TestAClockThatIsSet(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		r, err := open()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.close() }()
		emitted := 0
		r.clock = func() time.Time { return time.Now().Add(time.Duration(emitted) * by) } // from the first slice on
		emit := func(s *Slice) error {
			emitted++
			if s.Seconds <= 0 || s.Seconds > 1 {
				t.Errorf("a slice of %g s", s.Seconds)
			}
			return nil
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if _, _, err := r.stretch(ctx, newTracker(nobody()), emit); err != nil || emitted != 1 || ctx.Err() != nil {
			t.Errorf("set by %v: %d slices, %v, want one and then the end", by, emitted, errors.Join(err, ctx.Err()))
		}
		who := nobody()
		who.client = map[sockets.Pair]string{{}: "api-1"}
		if read, _, err := r.glimpse(ctx, newTracker(who), emit); err != nil || emitted != 1 || read != 0 || !who.read.IsZero() || who.client != nil {
			t.Errorf("set by %v: a glimpse emits %d slices of %d packets, %v; owners are known as of %v", by, emitted-1, read, err, who.read)
		}
	}
}

// In a glimpse, tables are read that tell of what is open before and after that.
func TestAGlimpseReadsTables(t *testing.T) {
	r, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	who := &owners{}
	var s Slice
	before := time.Now()
	if _, _, err := r.glimpse(t.Context(), newTracker(who), func(seen *Slice) error { s = *seen; return nil }); err != nil {
		t.Fatal(err)
	}
	if end := s.At.Add(time.Duration(s.Seconds * float64(time.Second))); who.read.Before(before) || !who.had.Before(end) {
		t.Errorf("tables were read from %v to %v, want it between %v and %v", who.read, who.had, before, end)
	}
}

// users ask a server so many times each.
func users(t *testing.T, url string, n, each int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for range each {
				resp, err := client.Get(url)
				if err != nil {
					t.Errorf("ask: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	}
	all.Wait()
}

// Who may not read packets is told so.
func TestWithoutTheRightToReadPackets(t *testing.T) {
	t.Parallel()
	got := make(chan error)
	go func() {
		runtime.LockOSThread() // it ends with this goroutine, and what it gave up with it
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0); errno != 0 {
			got <- errno
			got <- errno
			return
		}
		got <- Check()
		got <- Watch(t.Context(), Config{}, func(*Slice) error { return nil })
	}()
	for range 2 {
		if err := <-got; !errors.Is(err, ErrNotAllowed) {
			t.Errorf("got %v, want %v", err, ErrNotAllowed)
		}
	}
}

// BenchmarkWatch is what watching costs beside load of a request at a time.
func BenchmarkWatch(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	r, err := open()
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.close() }()
	if err := r.receive(); err != nil {
		b.Fatal(err)
	}
	tr := newTracker(nobody())
	tr.begin(time.Now(), time.Now().Add(time.Hour), false)
	text := make([]byte, 100)
	for b.Loop() {
		if _, err := c.Write(text); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, text); err != nil {
			b.Fatal(err)
		}
		for r.block(tr.add) {
		}
	}
	b.ReportMetric(float64(tr.packets)/float64(b.N), "packets/op")
}
