package engine

import (
	"strings"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/loadtest"
)

// tester is one virtual user on an event loop that the test turns by hand.
type tester struct {
	tb   testing.TB
	loop *loop
	user *user
	done bool
}

// released takes note that the user is free again.
func (t *tester) released(*user, failure.Kind) { t.done = true }

// newTester returns a user that makes the given request.
func newTester(tb testing.TB, url string, timeout time.Duration, request load.Request) *tester {
	tb.Helper()
	plan := load.Plan{
		Targets: []string{url}, Timeout: timeout, Threads: 1,
		Scenarios: []load.Scenario{{Name: "s", Executor: load.ConstantVUs, VUs: 1, Duration: time.Hour, Steps: []load.Step{{Request: request}}}},
	}
	r, err := newRun(tb.Context(), &plan, nil)
	if err != nil {
		tb.Fatal(err)
	}
	t := &tester{tb: tb, loop: r.loops[0]}
	t.user = newUser(0, r.executors[0].(*scenario), t.loop, t)
	t.loop.lanes = nil
	tb.Cleanup(func() {
		if err := t.loop.close(); err != nil {
			tb.Error(err)
		}
	})
	return t
}

// ended is what came of one request.
type ended struct {
	status int
	failed failure.Kind
	err    string
}

// do performs one request.
func (t *tester) do() ended {
	t.turn(0) // what has happened while nothing was under way
	t.done = false
	t.user.begin(load.Arrival{At: t.loop.clock.now()}, false, false)
	for !t.done {
		t.turn(time.Second)
	}
	return t.outcome()
}

// turn turns the loop once.
func (t *tester) turn(wait time.Duration) {
	t.loop.runPosted()
	now := t.loop.clock.now()
	next, _ := t.loop.turn(now)
	if err := t.loop.wait(min(next, now+wait)); err != nil {
		t.tb.Fatal(err)
	}
}

// outcome reads the request off the recorder, and empties it.
func (t *tester) outcome() (e ended) {
	sum := &t.loop.shard.now.measured
	for status, n := range sum.steps[0].status {
		if n > 0 {
			e.status = status
		}
	}
	for kind, f := range sum.failures {
		if f.Count > 0 {
			e.failed, e.err = failure.Kind(kind), f.Example
		}
	}
	t.loop.shard.now.clear()
	return e
}

var get = load.Request{Method: "GET", Path: "/"}

// failing is a server that makes every request fail, and how.
type failing struct {
	name   string
	handle func(*rawConn)
	want   failure.Kind
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
		{"closed without an answer", func(c *rawConn) { c.request() }, failure.EOF},
		{"closed in the status line", answer("HTTP/1.1 20"), failure.EOF},
		{"closed in a header", answer("HTTP/1.1 200 OK|Content-Le"), failure.EOF},
		{"closed in the body", answer("HTTP/1.1 200 OK|Content-Length: 10||hello"), failure.ShortBody},
		{"closed in a chunk", answer("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hel"), failure.ShortBody},
		{"closed before the last chunk", answer("HTTP/1.1 200 OK|Transfer-Encoding: chunked||5|hello|"), failure.ShortBody},
		{"closed in a trailer", answer("HTTP/1.1 200 OK|Transfer-Encoding: chunked||0|X: y|"), failure.ShortBody},
		{"closed after 100 Continue", answer("HTTP/1.1 100 Continue||"), failure.EOF},
		{"reset before an answer", func(c *rawConn) { c.request(); c.reset() }, failure.Reset},
		{"not HTTP", answer("SSH-2.0-OpenSSH_9.2|"), failure.BadHTTP},
		{"bytes after the answer", answer(okAnswer + "HTTP/1.1 200 OK|"), failure.BadHTTP},
		{"two answers at once", answer(okAnswer + okAnswer), failure.BadHTTP},
		{"a line without end", answer("HTTP/1.1 200 OK|X: " + strings.Repeat("a", 2*maxHeaderBytes)), failure.BadHTTP},
		{"no answer", func(c *rawConn) { c.request(); hang(c) }, failure.Timeout},
		{"half an answer", func(c *rawConn) { c.request(); c.send("HTTP/1.1 200 OK|Content-Length: 10||hello"); hang(c) }, failure.Timeout},
		{"an endless body", func(c *rawConn) {
			c.request()
			c.send("HTTP/1.1 200 OK||")
			for {
				if _, err := c.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, failure.Timeout},
	}
}

func TestFailuresHaveTheirKind(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Second
	for _, test := range failingServers() {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			within := timeout
			if test.want == failure.Timeout {
				within = 100 * time.Millisecond
			}
			u := newTester(t, serveRaw(t, test.handle).url, within, get)
			o := u.do()
			if o.failed != test.want || o.status != 0 || o.err == "" || u.connected() {
				t.Errorf("got %v (%v), status %d, connected %v; want %v, no status, not connected",
					o.failed, o.err, o.status, u.connected(), test.want)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		u := newTester(t, closedPort(t), timeout, get)
		if o := u.do(); o.failed != failure.Refused {
			t.Errorf("got %v (%v), want %v", o.failed, o.err, failure.Refused)
		}
	})
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		asked := make(chan struct{})
		u := newTester(t, serveRaw(t, func(c *rawConn) { c.request(); close(asked); hang(c) }).url, time.Hour, get)
		go func() {
			<-asked
			u.loop.post(u.user.cut)
		}()
		if o := u.do(); o.failed != failure.CutOff {
			t.Errorf("got %v (%v), want %v", o.failed, o.err, failure.CutOff)
		}
	})
}

// connected says whether the user has a connection.
func (t *tester) connected() bool { return t.user.link.(*connection).fd != noSocket }

func TestUnknownHostIsAnError(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), loadtest.ClosedPlan("http://no-such-host.invalid", 1, time.Second), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "no-such-host.invalid") {
		t.Errorf("got %v, want an error about the host", err)
	}
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
			u := newTester(t, server.url, 5*time.Second, request)
			for range 3 {
				if o := u.do(); o.status != test.want.status || o.failed != failure.None {
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
	u := newTester(t, server.url, 10*time.Second, load.Request{Method: "POST", Path: "/", Body: strings.Repeat("b", size)})
	for range 2 {
		if o := u.do(); o.status != 200 {
			t.Fatalf("got status %d, %v (%v), want 200", o.status, o.failed, o.err)
		}
		if got := <-lengths; got != size {
			t.Errorf("the server read %d bytes, want %d", got, size)
		}
	}
	if got := server.accepted.Load(); got != 1 {
		t.Errorf("got %d connections, want 1", got)
	}
	if n := cap(u.user.link.(*connection).rest); n > 2*maxHeaderBytes {
		t.Errorf("the buffer for the beginnings of lines grew to %d bytes, want at most %d", n, 2*maxHeaderBytes)
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
			defer close(goOn)
			u := newTester(t, server.url, 5*time.Second, get)
			for range 3 {
				if o := u.do(); o.status != 200 {
					t.Fatalf("got status %d, %v (%v), want 200", o.status, o.failed, o.err)
				}
				goOn <- struct{}{}
				<-closed
				for u.connected() { // until the loop has been told
					u.turn(10 * time.Millisecond)
				}
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
	u := newTester(t, server.url, 5*time.Second, get)
	if o := u.do(); o.status != 200 {
		t.Fatalf("got status %d, %v (%v), want 200", o.status, o.failed, o.err)
	}
	if o := u.do(); o.failed != failure.EOF {
		t.Errorf("got status %d, %v (%v), want %v", o.status, o.failed, o.err, failure.EOF)
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
	u := newTester(t, server.url+"/base/", 5*time.Second, load.Request{Method: "GET", Path: "/a?b=c"})
	if o := u.do(); o.status != 200 {
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
	u := newTester(t, server.url, 5*time.Second, get)
	if o := u.do(); o.status != 200 {
		t.Fatalf("got %+v, want status 200", o)
	}
	n := testing.AllocsPerRun(2000, func() {
		u.done = false
		u.user.begin(load.Arrival{At: u.loop.clock.now()}, false, false)
		for !u.done {
			u.turn(time.Second)
		}
	})
	if o := u.outcome(); o.status != 200 {
		t.Fatalf("got %+v, want status 200", o)
	}
	if n > 0.1 {
		t.Errorf("got %v allocations for a request, want 0", n)
	}
}
