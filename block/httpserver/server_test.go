package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's own: one that looks every 10 s whether its server is
		// still there, and one clock for the whole process.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}

func TestValidateNamesEveryProblem(t *testing.T) {
	t.Parallel()
	cfg := Config{Addr: "nowhere", Drain: -time.Second, MaxConns: -3}
	err := cfg.Validate()
	if err == nil {
		t.Fatal("got nil, want an error")
	}
	for _, want := range []string{
		`"nowhere"`, "no handler", "registerer", "max connections is -3", "max body bytes is 0",
		"read buffer bytes is 0", "read timeout", "write timeout", "idle timeout", "stop timeout", "drain time is -1s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to name %q", err, want)
		}
	}
	if err := testConfig().Validate(); err != nil {
		t.Errorf("defaults: got %v, want nil", err)
	}
}

func TestListenFails(t *testing.T) {
	t.Parallel()
	s, err := Listen(t.Context(), testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()

	taken := testConfig()
	taken.Addr = s.Addr().String()
	if _, err := Listen(t.Context(), taken); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("taken address: got %v, want %v", err, syscall.EADDRINUSE)
	}
}

// send sends raw bytes on a new connection and reads the answer's status, and
// whether it says close.
func send(t *testing.T, s *Server, raw string) (status int, closing bool) {
	t.Helper()
	got := answered(t, s, raw)
	return got.status, got.closing
}

// answer is a whole one.
type answer struct {
	status     int
	closing    bool
	retryAfter string
	body       string
}

// answered is send with the whole answer.
func answered(t *testing.T, s *Server, raw string) answer {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The server may answer and close before it has read everything.
	_, _ = io.WriteString(conn, raw)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatalf("read the body: %v", err)
	}
	return answer{resp.StatusCode, resp.Close, resp.Header.Get("Retry-After"), string(body)}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	const host = "Host: x\r\n"
	for name, c := range map[string]struct {
		raw  string
		want int
	}{
		"small request":        {"GET / HTTP/1.1\r\n" + host + "\r\n", 200},
		"header too large":     {"GET / HTTP/1.1\r\n" + host + "A: " + strings.Repeat("a", 9<<10) + "\r\n\r\n", 431},
		"path too long":        {"GET /" + strings.Repeat("a", 9<<10) + " HTTP/1.1\r\n" + host + "\r\n", 431},
		"body too large":       {"POST / HTTP/1.1\r\n" + host + "Content-Length: 5000\r\n\r\n" + strings.Repeat("b", 5000), 413},
		"body of a GET":        {"GET / HTTP/1.1\r\n" + host + "Content-Length: 50\r\n\r\n", 413}, // which is not waited for
		"body of a HEAD":       {"HEAD / HTTP/1.1\r\n" + host + "Content-Length: 50\r\n\r\n", 413},
		"chunks of a GET":      {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n32\r\n", 413},
		"no HTTP":              {"\x16\x03\x01 hello\r\n\r\n", 400},
		"slow request":         {"GET / HTTP/1.1\r\nHos", 408},
		"slow body":            {"POST / HTTP/1.1\r\n" + host + "Content-Length: 50\r\n\r\nb", 408},
		"two lengths":          {"POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nbb", 400},
		"negative body length": {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := testConfig()
			if cfg.ReadTimeout = time.Minute; c.want == http.StatusRequestTimeout {
				cfg.ReadTimeout = 300 * time.Millisecond
			}
			s, err := Listen(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			run(t, s)
			got, closing := send(t, s, c.raw)
			if got != c.want {
				t.Errorf("got status %d, want %d", got, c.want)
			}
			if want := c.want != http.StatusOK; closing != want {
				t.Errorf("got close %v, want %v", closing, want)
			}
		})
	}
}

func TestIdleConnectionEnds(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.IdleTimeout = 50 * time.Millisecond
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	br := bufio.NewReader(conn)
	if _, err := exchange(conn, br, false); err != nil {
		t.Fatal(err)
	}
	if _, err := br.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("idle connection: got %v, want %v", err, io.EOF)
	}
}

// The time for reading counts from a request's first byte also on a connection
// that may be idle for much longer.
func TestSlowSecondRequest(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.ReadTimeout, cfg.IdleTimeout = 200*time.Millisecond, time.Hour
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	var conn net.Conn
	var br *bufio.Reader
	eventually(t, "the first request is in time", func() bool { // on a busy machine not always
		if conn, err = net.Dial("tcp", s.Addr().String()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		br = bufio.NewReader(conn)
		_, err = exchange(conn, br, false)
		return err == nil
	})
	if _, err := io.WriteString(conn, "GET / HT"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if line, err := br.ReadString('\n'); err != nil || !strings.Contains(line, " 408 ") {
		t.Errorf("got %q and %v, want status 408", line, err)
	}
}

// A client that does not read its answers costs a connection for WriteTimeout.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.WriteTimeout = 100 * time.Millisecond
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	body := make([]byte, 32<<20) // more than the sockets' buffers hold
	cfg.Handler = func(ctx *fasthttp.RequestCtx) { ctx.Response.SetBodyRaw(body) }
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the write has failed", func() bool { return value(t, reg, "http_connection_errors_total") == 1 })
	eventually(t, "the connection is closed", func() bool { return s.listener.count() == 0 })
}

func TestOneConnectionTooMany(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.MaxConns = 1
	cfg.BadRequest = func(ctx *fasthttp.RequestCtx, status int) {
		ctx.SetStatusCode(status)
		ctx.SetBodyString(fmt.Sprint("bad ", status))
	}
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	first, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if _, err := exchange(first, bufio.NewReader(first), false); err != nil {
		t.Fatal(err)
	}
	// The answer is ours, and says when to come again, also to one who says nothing.
	for _, raw := range []string{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ""} {
		if got, want := answered(t, s, raw), (answer{http.StatusServiceUnavailable, true, "1", "bad 503"}); got != want {
			t.Errorf("second connection: got %+v, want %+v", got, want)
		}
	}
	if got := value(t, reg, "http_connections_refused_total"); got != 2 {
		t.Errorf("refused: got %v, want 2", got)
	}
	eventually(t, "one connection is counted", func() bool { return value(t, reg, "http_connections_open") == 1 })

	// There is room as soon as the first has ended.
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody is connected", func() bool { return value(t, reg, "http_connections_open") == 0 })
	if got, _ := send(t, s, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != http.StatusOK {
		t.Errorf("after that: got status %d, want 200", got)
	}
}

// One client cannot take all connections, whatever it does with them. A balancer is not
// one client.
func TestOneClientTooManyConnections(t *testing.T) {
	t.Parallel()
	balancer := netip.MustParseAddr("127.0.0.9")
	cfg := testConfig()
	cfg.PerClient = &PerClient{MaxConns: 3, Client: func(peer netip.Addr) (uint64, bool) {
		b := peer.As4()
		return uint64(b[3]), peer == balancer
	}}
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	// ask connects from 127.0.0.from and asks.
	ask := func(from byte) (net.Conn, int) {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return conn, resp.StatusCode
	}
	var first net.Conn
	for i, c := range []struct {
		from byte
		want int
	}{{1, 200}, {1, 200}, {1, 200}, {1, 503}, {1, 503}, {2, 200}, {9, 200}, {9, 200}, {9, 200}, {9, 200}} {
		conn, got := ask(c.from)
		if got != c.want {
			t.Errorf("connection %d, from client %d: got status %d, want %d", i, c.from, got, c.want)
		}
		if i == 0 {
			first = conn
		}
	}
	if got := value(t, reg, "http_connections_refused_total"); got != 2 {
		t.Errorf("refused: got %v, want 2", got)
	}
	_ = first.Close()
	eventually(t, "a client has room again", func() bool { return value(t, reg, "http_connections_open") == 7 })
	if _, got := ask(1); got != 200 {
		t.Errorf("with room again: got status %d, want 200", got)
	}
}

// The time for a request is one for all of it: a byte now and then does not
// lengthen it.
func TestTrickledRequests(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.ReadTimeout = 400 * time.Millisecond
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, s)
	for _, start := range []string{"", "GET / HTTP/1.1\r\nX: ", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;"} {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, start)
		cut := make(chan struct{})
		go func() { defer close(cut); _, _ = io.Copy(io.Discard, conn) }()
		ticker := time.NewTicker(cfg.ReadTimeout / 8)
		for sent := 0; ; sent++ {
			select {
			case <-cut:
			case <-ticker.C:
				_, _ = io.WriteString(conn, "x")
				if sent < 1000 {
					continue
				}
				t.Errorf("%q: %d bytes were waited for", start, sent)
			}
			break
		}
		ticker.Stop()
		_ = conn.Close()
		<-cut
	}
}

// value reads one unlabelled metric.
func value(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// exhausted is a listener in a process without free file descriptors.
type exhausted struct {
	*net.TCPListener
	left atomic.Int32
}

func (l *exhausted) Accept() (net.Conn, error) {
	if l.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.TCPListener.Accept()
}

func TestAcceptOutlastsLackOfDescriptors(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &exhausted{TCPListener: inner.(*net.TCPListener)}
	l.left.Store(3)
	cfg := testConfig()
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	s := newServer(cfg, l)
	run(t, s)
	if got, _ := send(t, s, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); got != http.StatusOK {
		t.Errorf("got status %d, want 200", got)
	}
	if got := value(t, reg, "http_accept_retries_total"); got != 3 {
		t.Errorf("retries: got %v, want 3", got)
	}
}

// When the listener breaks, requests under way are still answered and Run fails.
func TestRunFailsWithItsListener(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.Drain = 0
	entered, release := make(chan struct{}), make(chan struct{})
	cfg.Handler = func(ctx *fasthttp.RequestCtx) {
		close(entered)
		<-release
		ctx.SetBodyString(testBody)
	}
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, done := run(t, s)
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	answered := make(chan error, 1)
	go func() {
		_, err := exchange(conn, bufio.NewReader(conn), false)
		answered <- err
	}()
	<-entered
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server drains", s.Draining)
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("request under way: got %v, want a whole answer", err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run: got %v, want %v", err, net.ErrClosed)
	}
}

// More than can be heard at a time are refused as well, and a server that stops does
// not leave them behind.
func TestManyConnectionsTooMany(t *testing.T) {
	t.Parallel()
	cfg := testConfig()
	cfg.MaxConns, cfg.Drain = 1, 0
	cfg.ReadTimeout = time.Minute // else the one ends for saying nothing, and another takes its place
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	s, err := Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := run(t, s)
	const more = heard + 20
	for range 1 + more {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	eventually(t, "all but one are refused", func() bool { return value(t, reg, "http_connections_refused_total") == more })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if left := len(s.listener.crowd.places); left > 0 {
		t.Errorf("%d are still being heard", left)
	}
}
