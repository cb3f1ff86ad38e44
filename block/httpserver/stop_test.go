package httpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
)

// crowd is a set of clients, each on a connection of its own, that ask one
// request after the other until a new connection is refused. Anything else that
// goes wrong after connecting is a lost request, unless the client itself stood still
// before it for so long that the server may have hung up.
type crowd struct {
	addr  string
	grace time.Duration // how long a connection may wait for its next request

	answered atomic.Int64
	late     atomic.Int64 // failures of clients that stood still
	mu       sync.Mutex
	lost     []string
	wg       sync.WaitGroup
}

// client says how a member of the crowd behaves.
type client struct {
	maxThink time.Duration // between an answer and the next request
	lateSend time.Duration // between connecting and the first request
	oneShot  bool          // a new connection for each request
}

func (c *crowd) add(kind client, n int) {
	for range n {
		c.wg.Go(func() {
			for c.connection(kind) {
			}
		})
	}
}

func (c *crowd) lose(format string, args ...any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = append(c.lost, fmt.Sprintf(format, args...))
	return false
}

// stamped is a connection that remembers when it was written to last.
type stamped struct {
	net.Conn
	wrote time.Time
}

func (s *stamped) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.wrote = time.Now()
	return n, err
}

// connection connects and asks until the server or the client closes. It
// reports whether to connect again.
func (c *crowd) connection(kind client) bool {
	before := time.Now() // the server takes the connection to wait from some moment after this
	conn, err := net.DialTimeout("tcp", c.addr, 10*time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return false
	}
	if err != nil {
		return c.lose("connect: %v", err)
	}
	defer func() { _ = conn.Close() }()
	think(kind.lateSend)
	to, br := &stamped{Conn: conn}, bufio.NewReader(conn)
	for n := 0; ; n++ {
		began := time.Now()
		if err := conn.SetDeadline(began.Add(20 * time.Second)); err != nil {
			return c.lose("deadline: %v", err)
		}
		closing, err := exchange(to, br, kind.oneShot)
		if err != nil && to.wrote.Sub(before) >= c.grace {
			c.late.Add(1)
			return false
		}
		if err != nil {
			return c.lose("request %d of a connection: %v", n, err)
		}
		before = began
		c.answered.Add(1)
		if closing {
			return true
		}
		think(kind.maxThink)
	}
}

func think(most time.Duration) {
	if most > 0 {
		time.Sleep(rand.N(most))
	}
}

// exchange sends a request and reads its whole answer.
func exchange(w io.Writer, br *bufio.Reader, oneShot bool) (closing bool, err error) {
	request := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	if oneShot {
		request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	}
	if _, err := io.WriteString(w, request); err != nil {
		return false, fmt.Errorf("send: %w", err)
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return false, fmt.Errorf("read answer: %w", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return false, fmt.Errorf("read body: %w", err)
	}
	if got := string(body); resp.StatusCode != http.StatusOK || got != testBody {
		return false, fmt.Errorf("got status %d and %d bytes, want 200 and %d", resp.StatusCode, len(got), len(testBody))
	}
	return resp.Close, nil
}

var testBody = strings.Repeat("result ", 60)

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Addr = "127.0.0.1:0"
	cfg.Handler = func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(testBody) }
	cfg.BadRequest = func(ctx *fasthttp.RequestCtx, status int) { ctx.SetStatusCode(status) }
	cfg.Registerer = prometheus.NewRegistry()
	cfg.Drain = 150 * time.Millisecond
	return cfg
}

// run starts s and returns what stops it and delivers Run's result.
func run(t *testing.T, s *Server) (stop context.CancelFunc, done <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	result := make(chan error, 1)
	go func() {
		err := s.Run(ctx)
		ended <- err
		result <- err
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return cancel, result
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// The promise of stop.go, under load: kept connections, thoughtful and hasty
// clients, connections for one request, and some that connect and then hesitate.
func TestStopLosesNoRequest(t *testing.T) {
	t.Parallel()
	for name, drain := range map[string]time.Duration{"with drain time": 150 * time.Millisecond, "at once": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 3 { // until all can be judged
				late := stopUnderLoad(t, drain)
				if late == 0 || t.Failed() {
					return
				}
				t.Logf("%d clients stood still for %v: their failures are not judged", late, minGrace)
			}
		})
	}
}

// stopUnderLoad reports how many clients stood still for so long that their failures
// are none of the server's.
func stopUnderLoad(t *testing.T, drain time.Duration) (late int64) {
	t.Helper()
	cfg := testConfig()
	cfg.Drain = drain
	answer := cfg.Handler
	cfg.Handler = func(ctx *fasthttp.RequestCtx) {
		if rand.N(10) == 0 {
			time.Sleep(rand.N(5 * time.Millisecond))
		}
		answer(ctx)
	}
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := run(t, s)

	c := crowd{addr: s.Addr().String(), grace: minGrace}
	c.add(client{}, 12)
	c.add(client{maxThink: 20 * time.Millisecond}, 12)
	c.add(client{maxThink: 150 * time.Millisecond}, 6)
	c.add(client{oneShot: true}, 6)
	c.add(client{oneShot: true, lateSend: 100 * time.Millisecond}, 6)
	eventually(t, "the load is on", func() bool { return c.answered.Load() > 500 })
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	c.wg.Wait()
	if len(c.lost) != 0 {
		t.Errorf("lost %d requests of %d, the first: %s", len(c.lost), c.answered.Load(), c.lost[0])
	}
	return c.late.Load()
}

// The judge of the test above must be able to see a loss.
func TestCrowdSeesLoss(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := crowd{addr: ln.Addr().String(), grace: time.Hour}
	c.add(client{}, 1)
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	// Takes the request, answers half of it, and goes.
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 420\r\n\r\nresult"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(), ln.Close()); err != nil {
		t.Fatal(err)
	}
	c.wg.Wait()
	if len(c.lost) != 1 || c.answered.Load() != 0 {
		t.Errorf("got %d lost and %d answered, want 1 and 0", len(c.lost), c.answered.Load())
	}
}

// slowAccept accepts nothing before it is released, as a process that gets no
// CPU time. The kernel completes connections meanwhile.
type slowAccept struct {
	*net.TCPListener
	release chan struct{}
}

func (l slowAccept) Accept() (net.Conn, error) {
	<-l.release
	return l.TCPListener.Accept()
}

// Step "no more": what the kernel has completed is served, what comes later is
// refused at connect, and does not wait until the listener closes.
func TestStopServesTheBacklog(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Drain = 0
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	inner, err := lc.Listen(t.Context(), "tcp", cfg.Addr)
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	s := newServer(cfg, slowAccept{inner.(*net.TCPListener), release})
	early, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Close() }()

	stop, done := run(t, s)
	stop()
	eventually(t, "the server drains", s.Draining)
	refused := make(chan error, 1)
	go func() {
		for {
			late, err := net.DialTimeout("tcp", s.Addr().String(), 30*time.Second)
			if err != nil {
				refused <- err
				return
			}
			// Before the gate was shut: served like the early one.
			defer func() { _ = late.Close() }()
		}
	}()
	select {
	case err := <-done:
		t.Fatalf("Run returned %v with a connection in the queue", err)
	case err := <-refused:
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("late connection: got %v, want connection refused", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("late connection: it still waits for an answer, want it refused while the queue is served")
	}
	select {
	case err := <-done:
		t.Fatalf("Run returned %v with a connection in the queue", err)
	case <-time.After(2 * handshake):
	}
	close(release)
	closing, err := exchange(early, bufio.NewReader(early), false)
	if err != nil || !closing {
		t.Errorf("queued connection: got closing %v and %v, want an answer that says close", closing, err)
	}
	if err := <-done; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}

// Step "finish": an idle connection is hung up on, and its client reads a clean
// end of stream.
func TestStopHangsUpOnIdleConnections(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.ReadTimeout = time.Minute // who says nothing is not told before
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := run(t, s)
	used, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = used.Close() }()
	silent, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	if closing, err := exchange(used, bufio.NewReader(used), false); err != nil || closing {
		t.Fatalf("before the stop: got closing %v and %v, want false and nil", closing, err)
	}
	eventually(t, "both are accepted", func() bool { return s.listener.count() == 2 })
	stop()
	for name, conn := range map[string]net.Conn{"used": used, "silent": silent} {
		if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s connection: got %d bytes and %v, want 0 and EOF", name, n, err)
		}
	}
	if err := <-done; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}

// What "finish" relies on in the kernel: hanging up keeps what has arrived.
func TestHangUpKeepsReceivedBytes(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	inner, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inner.Close() }()
	if _, err := io.WriteString(peer, "request"); err != nil {
		t.Fatal(err)
	}
	if err := (&conn{Conn: inner}).hangUp(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(inner); string(got) != "request" || err != nil {
		t.Errorf("after hanging up: got %q and %v, want %q and the end", got, err, "request")
	}
}

// Step "deadline": a handler that does not end is not waited for, and Run says so.
func TestStopCutsAtTheDeadline(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Drain, cfg.StopTimeout = 0, 50*time.Millisecond
	entered, release := make(chan struct{}), make(chan struct{})
	cfg.Handler = func(*fasthttp.RequestCtx) {
		close(entered)
		<-release
	}
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := run(t, s)
	peer, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	if _, err := io.WriteString(peer, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	stop()
	err = <-done
	close(release)
	if !errors.Is(err, errCut) || !strings.HasPrefix(err.Error(), "1 ") {
		t.Errorf("Run: got %v, want 1 connection cut", err)
	}
}
