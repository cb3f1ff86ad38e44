package load

import (
	"strings"
	"testing"
	"time"
)

// newTestUser returns a virtual user with all that looks after one. The plan
// has one closed scenario with the given request.
func newTestUser(tb testing.TB, url string, timeout time.Duration, request Request) (*user, *fleet) {
	tb.Helper()
	r, err := newRun(&Plan{
		Targets: []string{url}, Timeout: timeout,
		Scenarios: []Scenario{{Name: "s", Executor: ConstantVUs, VUs: 1, Duration: time.Hour, Steps: []Step{{Request: request}}}},
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.clock.epoch = time.Now()
	f := r.executors[0].(*closed).fleet
	u := f.enlist()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		f.patrol(stop)
	}()
	tb.Cleanup(func() {
		close(stop)
		<-stopped
		f.disband()
	})
	return u, f
}

var get = Request{Method: "GET", Path: "/"}

// do performs one request.
func do(u *user, f *fleet) outcome {
	var o outcome
	u.perform(f.goOn, 0, &o)
	return o
}

// failing is a server that makes every request fail, and how.
type failing struct {
	name   string
	handle func(*rawConn)
	want   failure
}

// hang waits for the client to go away.
func hang(c *rawConn) { _, _ = c.Read(make([]byte, 1)) }

func failingServers() []failing {
	answer := func(text string) func(*rawConn) {
		return func(c *rawConn) {
			c.request()
			c.send(text)
		}
	}
	return []failing{
		{"closed without an answer", func(c *rawConn) { c.request() }, failEOF},
		{"closed in the status line", answer("HTTP/1.1 20"), failEOF},
		{"closed in a header", answer("HTTP/1.1 200 OK|Content-Le"), failEOF},
		{"closed in the body", answer("HTTP/1.1 200 OK|Content-Length: 10||hello"), failEOF},
		{"closed in a chunk", answer("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hel"), failEOF},
		{"closed before the last chunk", answer("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|"), failEOF},
		{"closed in a trailer", answer("HTTP/1.1 200 OK|Transfer-Encoding: chunked||0|X: y|"), failEOF},
		{"closed after 100 Continue", answer("HTTP/1.1 100 Continue||"), failEOF},
		{"reset before an answer", func(c *rawConn) { c.request(); c.reset() }, failReset},
		{"not HTTP", answer("SSH-2.0-OpenSSH_9.2|"), failBadHTTP},
		{"bytes after the answer", answer(okAnswer + "HTTP/1.1 200 OK|"), failBadHTTP},
		{"two answers at once", answer(okAnswer + okAnswer), failBadHTTP},
		{"a line without end", answer("HTTP/1.1 200 OK|X: " + strings.Repeat("a", 2*maxHeaderBytes)), failBadHTTP},
		{"no answer", func(c *rawConn) { c.request(); hang(c) }, failTimeout},
		{"half an answer", func(c *rawConn) { c.request(); c.send("HTTP/1.1 200 OK|Content-Length: 10||hello"); hang(c) }, failTimeout},
		{"an endless body", func(c *rawConn) {
			c.request()
			c.send("HTTP/1.1 200 OK||")
			for {
				if _, err := c.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, failTimeout},
	}
}

func TestFailuresHaveTheirKind(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Second
	for _, test := range failingServers() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			within := timeout
			if test.want == failTimeout {
				within = 100 * time.Millisecond
			}
			u, f := newTestUser(t, serveRaw(t, test.handle).url, within, get)
			o := do(u, f)
			if o.failed != test.want || o.status != 0 || o.err == nil || u.conn.socket != nil {
				t.Errorf("got %v (%v), status %d, connected %v; want %v, no status, not connected",
					o.failed, o.err, o.status, u.conn.socket != nil, test.want)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		u, f := newTestUser(t, closedPort(t), timeout, get)
		if o := do(u, f); o.failed != failRefused {
			t.Errorf("got %v (%v), want %v", o.failed, o.err, failRefused)
		}
	})
	t.Run("a name that does not exist", func(t *testing.T) {
		t.Parallel()
		u, f := newTestUser(t, "http://no-such-host.invalid", timeout, get)
		if o := do(u, f); o.failed != failDial && o.failed != failTimeout {
			t.Errorf("got %v (%v), want %v", o.failed, o.err, failDial)
		}
	})
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		asked := make(chan struct{})
		u, f := newTestUser(t, serveRaw(t, func(c *rawConn) { c.request(); close(asked); hang(c) }).url, time.Hour, get)
		go func() {
			<-asked
			f.bringForward(0)
		}()
		if o := do(u, f); o.failed != failCutOff {
			t.Errorf("got %v (%v), want %v", o.failed, o.err, failCutOff)
		}
		if o := do(u, f); o.failed != failCutOff {
			t.Errorf("connecting after the cut: got %v (%v), want %v", o.failed, o.err, failCutOff)
		}
	})
}

func TestAnswersInPiecesArrive(t *testing.T) {
	t.Parallel()
	for _, test := range goodAnswers {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := serveRaw(t, func(c *rawConn) {
				for c.request() != nil {
					data := wire(test.data)
					// One piece, then pieces that cut every line somewhere.
					for len(data) > 0 {
						n := min(len(data), 7)
						_, _ = c.Write([]byte(data[:n]))
						data = data[n:]
					}
					if !test.want.keep {
						return
					}
				}
			})
			request := get
			if test.head {
				request.Method = "HEAD"
			}
			u, f := newTestUser(t, server.url, 5*time.Second, request)
			for range 3 {
				if o := do(u, f); o.status != test.want.status || o.failed != succeeded {
					t.Fatalf("got status %d, %v (%v), want status %d", o.status, o.failed, o.err, test.want.status)
				}
			}
			if got, want := server.accepted.Load(), int64(1); test.want.keep && got != want {
				t.Errorf("got %d connections for three requests, want %d", got, want)
			} else if want = 3; !test.want.keep && got != want {
				t.Errorf("got %d connections for three requests, want %d: the server closes them", got, want)
			}
		})
	}
}

func TestLargeBodiesBothWays(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	lengths := make(chan int64, 2)
	server := serveRaw(t, func(c *rawConn) {
		for r := c.request(); r != nil; r = c.request() {
			lengths <- r.ContentLength
			c.send("HTTP/1.1 200 OK|Content-Length: 5242880||")
			_, _ = c.Write(make([]byte, size))
		}
	})
	u, f := newTestUser(t, server.url, 10*time.Second, Request{Method: "POST", Path: "/", Body: strings.Repeat("b", size)})
	for range 2 {
		if o := do(u, f); o.status != 200 {
			t.Fatalf("got status %d, %v (%v), want 200", o.status, o.failed, o.err)
		}
		if got := <-lengths; got != size {
			t.Errorf("the server read %d bytes, want %d", got, size)
		}
	}
	if got := server.accepted.Load(); got != 1 {
		t.Errorf("got %d connections, want 1", got)
	}
	if len(u.conn.in) > mostBuffer {
		t.Errorf("the read buffer grew to %d bytes, want at most %d", len(u.conn.in), mostBuffer)
	}
}

// TestClosedWhileIdle: a server may close a connection that is not in use. The
// next request goes over a new one, sent once, and does not fail.
func TestClosedWhileIdle(t *testing.T) {
	t.Parallel()
	for name, parting := range map[string]string{"silently": "", "with a last word": "HTTP/1.1 408 Request Timeout|Content-Length: 0||"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests, closed := make(chan struct{}, 10), make(chan struct{}, 10)
			goOn := make(chan struct{}, 10)
			server := serveRaw(t, func(c *rawConn) {
				c.request()
				requests <- struct{}{}
				c.send(okAnswer)
				<-goOn // else the parting could be taken for a part of the answer
				c.send(parting)
				_ = c.Close()
				closed <- struct{}{}
			})
			u, f := newTestUser(t, server.url, 5*time.Second, get)
			for range 3 {
				if o := do(u, f); o.status != 200 {
					t.Fatalf("got status %d, %v (%v), want 200", o.status, o.failed, o.err)
				}
				goOn <- struct{}{}
				<-closed
				u.usedAt -= 2 * idleCheck // as if it had been idle for that long
			}
			if got, want := server.accepted.Load(), int64(3); got != want || len(requests) != 3 {
				t.Errorf("got %d connections and %d requests, want %d of each", got, len(requests), want)
			}
		})
	}
}

// TestNothingIsSentTwice: once a request has gone out over a kept connection,
// a close is a failure, whatever the method. A retry would hide it.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	requests := make(chan struct{}, 10)
	server := serveRaw(t, func(c *rawConn) {
		c.request()
		requests <- struct{}{}
		c.send(okAnswer)
		if c.request() != nil {
			requests <- struct{}{}
		}
	})
	u, f := newTestUser(t, server.url, 5*time.Second, get)
	if o := do(u, f); o.status != 200 {
		t.Fatalf("got status %d, %v (%v), want 200", o.status, o.failed, o.err)
	}
	if o := do(u, f); o.failed != failEOF {
		t.Errorf("got status %d, %v (%v), want %v", o.status, o.failed, o.err, failEOF)
	}
	if got := len(requests); got != 2 {
		t.Errorf("the server got %d requests, want 2", got)
	}
}

func TestHostAndTargetOfRequests(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	server := serveRaw(t, func(c *rawConn) {
		for r := c.request(); r != nil; r = c.request() {
			got <- r.Method + " " + r.Host + " " + r.RequestURI
			c.send(okAnswer)
		}
	})
	u, f := newTestUser(t, server.url+"/base/", 5*time.Second, Request{Method: "GET", Path: "/a?b=c"})
	if o := do(u, f); o.status != 200 {
		t.Fatalf("got status %d, %v (%v), want 200", o.status, o.failed, o.err)
	}
	if got, want := <-got, "GET "+strings.TrimPrefix(server.url, "http://")+" /base/a?b=c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRequestAllocatesNothing(t *testing.T) {
	server := serveRaw(t, func(c *rawConn) {
		request, answer := make([]byte, 4096), []byte(wire(okAnswer))
		for {
			if _, err := c.Read(request); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil {
				return
			}
		}
	})
	u, f := newTestUser(t, server.url, 5*time.Second, get)
	if err := u.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	var o outcome
	n := testing.AllocsPerRun(2000, func() {
		u.perform(f.goOn, 0, &o)
		if o.status != 200 {
			t.Fatalf("got status %d, %v (%v), want 200", o.status, o.failed, o.err)
		}
	})
	// The patrol beside it may allocate now and then.
	if n > 0.1 {
		t.Errorf("got %v allocations for a request, want 0", n)
	}
}
