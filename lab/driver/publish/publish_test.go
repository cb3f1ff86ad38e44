package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// open runs a port until the test ends.
func open(t *testing.T, targets ...string) *Port {
	t.Helper()
	p, err := Open(t.Context(), anyPort)
	if err != nil {
		t.Fatal(err)
	}
	run(t, p, targets)
	return p
}

func run(t *testing.T, p *Port, targets []string) {
	t.Helper()
	p.Forward(targets)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if n := p.open.Load(); n != 0 {
			t.Errorf("%d connections are open after the end", n)
		}
	})
}

// instance listens and has serve answer each connection.
func instance(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c.(*net.TCPConn))
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// named answers with its name.
func named(t *testing.T, name string) string {
	return instance(t, func(c *net.TCPConn) { _, _ = c.Write([]byte(name)) })
}

func dial(t *testing.T, p *Port) *net.TCPConn {
	t.Helper()
	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// wantRefused connects and wants a reset, which may come before the connection
// is of any use.
func wantRefused(t *testing.T, p *Port) {
	t.Helper()
	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", p.Address().String())
	if err != nil {
		return
	}
	if text, err := io.ReadAll(c); err == nil {
		t.Errorf("got %q, want a reset", text)
	}
	_ = c.Close()
}

func answer(t *testing.T, p *Port) string {
	t.Helper()
	text, err := io.ReadAll(dial(t, p))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReplicasTakeTurnsAndTheDeadArePassedOver(t *testing.T) {
	t.Parallel()
	dead := "127.0.0.1:1" // reserved, and nobody listens there
	p, err := Open(t.Context(), anyPort)
	if err != nil {
		t.Fatal(err)
	}
	p.patience = time.Minute // one who is slow must not be taken for dead
	run(t, p, []string{named(t, "a"), dead, named(t, "b")})
	got := map[string]int{}
	for range 30 {
		got[answer(t, p)]++
	}
	if got["a"] != 10 || got["b"] != 20 {
		t.Errorf("got %v, want 10 for a and 20 for b, which stands in for the dead one", got)
	}
}

// Each side may end its own way first and still get all of the other's.
func TestHalfCloseKeepsTheOtherWay(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	request := bytes.Repeat([]byte("request!"), size/8)
	p := open(t, instance(t, func(c *net.TCPConn) {
		n, err := io.Copy(io.Discard, c) // until the client has ended its way
		_, _ = fmt.Fprintf(c, "%d %v ", n, err)
		_, _ = c.Write(request)
	}))
	c := dial(t, p)
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if want := fmt.Sprintf("%d <nil> ", size); err != nil || !strings.HasPrefix(string(got), want) || len(got) != len(want)+size {
		t.Errorf("got %d bytes, %v, want %d that begin with %q", len(got), err, len(want)+size, want)
	}
}

// A reset must not look like the orderly end of a shorter answer.
func TestAResetIsPassedOnAsAReset(t *testing.T) {
	t.Parallel()
	p := open(t, instance(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_ = c.SetLinger(0)
	}))
	c := dial(t, p)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(c); err == nil {
		t.Errorf("got %q and an orderly end, want an error", text)
	}
}

func TestOneConnectionTooManyIsRefused(t *testing.T) {
	t.Parallel()
	p, err := Open(t.Context(), anyPort)
	if err != nil {
		t.Fatal(err)
	}
	p.most = 1
	run(t, p, []string{instance(t, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("hello"))
		_, _ = io.Copy(io.Discard, c)
	})})
	first := dial(t, p)
	if _, err := io.ReadFull(first, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, p)
	if got := p.open.Load(); got != 1 {
		t.Errorf("got %d open, want one", got)
	}
	if err := first.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); p.open.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first connection's place was not given back")
		}
	}
	second := dial(t, p)
	if _, err := io.ReadFull(second, make([]byte, 5)); err != nil {
		t.Errorf("after the first has gone: %v", err)
	}
}

func TestNothingIsForwardedBeforeItIsSaidWhereTo(t *testing.T) {
	t.Parallel()
	p := open(t)
	wantRefused(t, p)
	p.Forward([]string{named(t, "now")})
	if got := answer(t, p); got != "now" {
		t.Errorf("got %q, want now", got)
	}
}

func TestTheEndClosesConnectionsUnderWay(t *testing.T) {
	t.Parallel()
	p, err := Open(t.Context(), anyPort)
	if err != nil {
		t.Fatal(err)
	}
	p.Forward([]string{instance(t, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("hello"))
		_, _ = io.Copy(io.Discard, c)
	})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	c := dial(t, p)
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("got %v, want no error", err)
	}
	if _, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open")
	}
}

func TestATakenPortNamesItsHolder(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		first, err := Open(t.Context(), netip.MustParseAddrPort(at))
		if err != nil {
			if strings.HasPrefix(at, "[") {
				continue // no IPv6 here
			}
			t.Fatal(err)
		}
		again := netip.AddrPortFrom(anyPort.Addr(), first.Address().Port())
		_, err = Open(t.Context(), again)
		taken, ok := errors.AsType[*TakenError](err)
		if !ok || taken.Holder == nil || taken.Holder.PID != os.Getpid() {
			t.Errorf("%s: got %v, want that this process (%d) holds it", at, err, os.Getpid())
		} else if text := err.Error(); !strings.Contains(text, fmt.Sprintf("port %d of 127.0.0.1 is taken by publish.test (pid %d)", again.Port(), os.Getpid())) {
			t.Errorf("%s: got %q", at, text)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestATakenPortOfSomebodyUnknown(t *testing.T) {
	t.Parallel()
	if err := (&TakenError{Address: anyPort}); !strings.Contains(err.Error(), "another user") {
		t.Errorf("got %v", err)
	}
}

func TestHostsWithoutTheWildcard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ip   string
		all  bool
		want string // of the first
		more bool   // may have others
	}{
		{"", false, "127.0.0.1", false}, {"", true, "127.0.0.1", true}, {"0.0.0.0", false, "127.0.0.1", true},
		{"127.0.0.2", true, "127.0.0.2", false}, {"::1", false, "::1", false},
	} {
		got, err := Hosts(c.ip, c.all)
		if err != nil || len(got) == 0 || got[0].String() != c.want || len(got) > 1 && !c.more {
			t.Errorf("%q, %v: got %v, %v, want %s first", c.ip, c.all, got, err, c.want)
		}
		for _, a := range got {
			if a.IsUnspecified() {
				t.Errorf("%q, %v: got the wildcard in %v", c.ip, c.all, got)
			}
		}
	}
	if _, err := Hosts("localhost", false); err == nil {
		t.Error("a name is no address, but there was no error")
	}
}

func TestWhoDescendsFromWhom(t *testing.T) {
	t.Parallel()
	self := &Holder{PID: os.Getpid()}
	if !self.DescendsFrom(os.Getpid()) || !self.DescendsFrom(os.Getppid()) {
		t.Error("this process does not descend from itself and its parent")
	}
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if self.DescendsFrom(child.Process.Pid) || !(&Holder{PID: child.Process.Pid}).DescendsFrom(os.Getpid()) {
		t.Error("this process and its child are taken for each other")
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
}
