package engine

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/loadtest"
)

// Cases at the edges of the event loops' states, each of which went wrong once.

func TestFewerUsersThanThreads(t *testing.T) {
	t.Parallel()
	url := serveOK(t).url
	for _, executor := range []string{load.SharedIterations, load.PerVUIterations} {
		plan := loadtest.ClosedPlan(url, 1, time.Minute)
		plan.Threads = 2
		plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations = executor, 5
		if r, _ := mustRun(t, plan); r.Iterations != 5 || r.Seconds() > 30 {
			t.Errorf("%s: %d iterations in %v s, want 5 at once", executor, r.Iterations, r.Seconds())
		}
	}
	plan := loadtest.OpenPlan(url, 100, time.Second, 1)
	plan.Threads = 4
	if r, _ := mustRun(t, plan); r.Dropped > 0 {
		t.Errorf("%d of %d dropped, want none", r.Dropped, r.Offered)
	}
}

func TestScenariosSpreadOverThreads(t *testing.T) {
	t.Parallel()
	server := serveOK(t)
	plan := loadtest.ClosedPlan(server.url, 1, time.Minute)
	plan.Threads, plan.Connections = 4, 4
	one := plan.Scenarios[0]
	one.Executor, one.Iterations = load.SharedIterations, 20
	plan.Scenarios = nil
	for i := range 8 {
		one.Name = string(rune('a' + i))
		plan.Scenarios = append(plan.Scenarios, one)
	}
	r, _ := mustRun(t, plan)
	if got := server.accepted.Load(); got != 4 || r.Requests != 160 {
		t.Errorf("%d requests over %d connections, want 160 over all 4", r.Requests, got)
	}
}

func TestIterationsAndTimeInOnePlan(t *testing.T) {
	t.Parallel()
	plan := loadtest.ClosedPlan(serveOK(t).url, 1, 300*time.Millisecond)
	plan.Scenarios = append(plan.Scenarios, load.Scenario{
		Name: "few", Executor: load.SharedIterations, VUs: 1, Iterations: 3, Duration: time.Minute, Steps: []load.Step{{Request: get}},
	})
	if r, _ := mustRun(t, plan); r.Seconds() < 0.3 || r.Seconds() > 10 || r.Steps[1].Requests != 3 {
		t.Errorf("%v s, %d requests of the second; want 0.3 s and 3", r.Seconds(), r.Steps[1].Requests)
	}
}

func TestRefusedIterationsAreCountedOnce(t *testing.T) {
	t.Parallel()
	plan := loadtest.ClosedPlan(closedPort(t), 10, time.Minute)
	plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations = load.SharedIterations, 1
	if r, _ := mustRun(t, plan); r.Iterations != 1 || r.Errors[failure.Refused.String()].Count != 1 {
		t.Errorf("%d iterations, errors %v; want one, refused", r.Iterations, r.Errors)
	}
}

// TestFloodDoesNotStopTheLoop: a server that sends without end must not keep
// the loop from its timeouts and from its other connections.
func TestFloodDoesNotStopTheLoop(t *testing.T) {
	t.Parallel()
	chunks := strings.Repeat("1\r\nx\r\n", 20_000)
	var first atomic.Bool
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			if first.Swap(true) {
				c.send(okAnswer)
				continue
			}
			c.send("HTTP/1.1 200 OK|Transfer-Encoding: chunked||")
			for {
				if _, err := io.WriteString(c, chunks); err != nil {
					return
				}
			}
		}
	})
	plan := loadtest.OpenPlan(server.url, 200, 2*time.Second, 50)
	plan.Threads, plan.Timeout, plan.Scenarios[0].GracefulStop = 1, 4*time.Second, 30*time.Second
	r, _ := mustRun(t, plan)
	if r.Errors[failure.Timeout.String()].Count != 1 || r.Failed != 1 || r.Dropped > 0 {
		t.Errorf("errors %v, %d dropped; want the one request timed out", r.Errors, r.Dropped)
	}
}

// TestAnswerBeforeTheRequest: what a server says as it accepts, or in the
// middle of an upload, is its answer.
func TestAnswerBeforeTheRequest(t *testing.T) {
	t.Parallel()
	busy := serveRaw(t, func(c *rawConn) {
		c.send("HTTP/1.1 503 Busy|Content-Length: 0|Connection: close||")
		c.request()
	})
	r, _ := mustRun(t, loadtest.OpenPlan(busy.url, 200, time.Second, 50))
	if n := r.Errors[failure.Timeout.String()].Count; n > 0 {
		t.Errorf("%d timed out, statuses %v", n, r.Status)
	}
	full := serveRaw(t, func(c *rawConn) {
		_, _ = c.in.Peek(1)
		c.send("HTTP/1.1 413 Too Large|Content-Length: 0|Connection: close||")
		_, _ = io.CopyN(io.Discard, c.in, 4<<20) // else a reset would overtake the answer
	})
	plan := countedPlan(full.url, 2, 3)
	plan.Scenarios[0].Steps[0].Request = load.Request{Method: "POST", Path: "/", Body: strings.Repeat("b", 4<<20)}
	r, _ = mustRun(t, plan)
	if r.Status[413] != 6 || r.Status[413] != r.Requests {
		t.Errorf("statuses %v, errors %v; want 413 throughout", r.Status, r.Errors)
	}
}

func TestEarlyHintsKeepWhatIsToBeKept(t *testing.T) {
	t.Parallel()
	var last atomic.Value
	server := serveRaw(t, func(c *rawConn) {
		for r := c.request(); r != nil; r = c.request() {
			last.Store(r.URL.Path)
			c.send("HTTP/1.1 103 Early Hints|X-Token: early||HTTP/1.1 200 OK|X-Token: late|Content-Length: 2||ok")
		}
	})
	plan := loadtest.ClosedPlan(server.url, 1, time.Minute)
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations = load.SharedIterations, 1
	s.Steps = []load.Step{
		{Name: "a", Request: get, Extract: map[string]load.Extract{"token": {Header: "x-token"}}, Checks: []load.Check{{Name: "body", Contains: "ok"}}},
		{Name: "b", Request: load.Request{Method: "GET", Path: "/{token}"}, Checks: []load.Check{{Name: "b", Status: []int{200}}}},
	}
	r, _ := mustRun(t, plan)
	if r.Failed > 0 || r.Checks[0].Passes != 1 || last.Load() != "/late" {
		t.Errorf("errors %v, checks %v; want /late, the answer's own token, extracted and the check held", r.Errors, r.Checks)
	}
}

func TestOddStatusOverTLSIsBadHTTP(t *testing.T) {
	t.Parallel()
	certificates := httptest.NewTLSServer(nil)
	defer certificates.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates.TLS.Certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				request := make([]byte, 4096)
				for {
					if _, err := conn.Read(request); err != nil {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 999 Nope\r\nContent-Length: 2\r\n\r\nok")
				}
			}()
		}
	}()
	plan := countedPlan("https://"+listener.Addr().String(), 1, 3)
	plan.TLS.InsecureSkipVerify = true
	r, _ := mustRun(t, plan)
	if n := r.Errors[failure.BadHTTP.String()].Count; n != 3 || n != r.Requests {
		t.Errorf("%d requests, errors %v; want all bad_http", r.Requests, r.Errors)
	}
	_ = listener.Close()
	<-served
}

// TestGoodbyeOfASharedConnection: a server may end an HTTP/2 connection in
// order at any time. Nobody's request fails for it.
func TestGoodbyeOfASharedConnection(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%50 == 0 {
			w.Header().Set("Connection", "close") // to Go's server: GOAWAY, in order
		}
		time.Sleep(20 * time.Millisecond)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	plan := loadtest.ClosedPlan(s.URL, 20, time.Minute) // at most
	plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations = load.PerVUIterations, 10
	plan.Protocol, plan.Connections = load.HTTP2, 1
	if r, _ := mustRun(t, plan); r.Failed > 0 || r.Requests != 200 {
		t.Errorf("%d of %d failed: %v", r.Failed, r.Requests, r.Errors)
	}
}

// TestMessagesAreNotRequestsInFlight: the deliveries of a WebSocket scenario
// must not hide the backlog of an HTTP scenario beside it.
func TestMessagesAreNotRequestsInFlight(t *testing.T) {
	t.Parallel()
	var upgrader websocket.Upgrader
	both := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			time.Sleep(500 * time.Millisecond)
			return
		}
		conn, err := upgrader.Upgrade(w, r, nil)
		for err == nil {
			var kind int
			var data []byte
			if kind, data, err = conn.ReadMessage(); err == nil {
				err = conn.WriteMessage(kind, data)
			}
		}
	}))
	t.Cleanup(both.Close)
	const length = 4 * time.Second // of some windows, also where the machine stands still
	plan := loadtest.OpenPlan(both.URL, 50, length, 100)
	plan.Scenarios[0].Steps[0].Request.Path = "/slow"
	chat := socketPlan(both.URL, load.DeliverEcho).Scenarios[0]
	chat.Duration, chat.WebSocket.Rate = length, 50
	plan.Scenarios = append(plan.Scenarios, chat)
	_, windows, err := collect(t, plan)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, w := range windows {
		most = max(most, w.InFlight)
	}
	if most < 10 {
		t.Errorf("at most %d in flight, want the 25 that 50/s of half a second are", most)
	}
}

func collect(tb testing.TB, plan load.Plan) (r load.Result, windows []load.Window, err error) {
	tb.Helper()
	r, err = Run(tb.Context(), plan, func(w load.Window) string {
		windows = append(windows, w)
		return ""
	}, nil)
	return r, windows, err
}

// TestWaitForAConnectionIsNoServiceTime: what never had a connection has a
// response time and no service time.
func TestWaitForAConnectionIsNoServiceTime(t *testing.T) {
	t.Parallel()
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			time.Sleep(50 * time.Millisecond)
			c.send(okAnswer)
		}
	})
	plan := loadtest.OpenPlan(server.url, 200, time.Second, 500)
	plan.Connections, plan.Timeout, plan.Scenarios[0].GracefulStop = 1, 2*time.Second, 5*time.Second
	r, _, err := collect(t, plan)
	if err != nil {
		t.Fatal(err)
	}
	if r.Errors[failure.Timeout.String()].Count == 0 || r.Service.P50 < 45 {
		t.Errorf("service time p50 %v ms, errors %v; want 50 ms of those that were sent", r.Service.P50, r.Errors)
	}
	if got := server.accepted.Load(); got > 2 {
		t.Errorf("%d connections with a cap of one", got)
	}
}

func TestCutKeepsToTheCap(t *testing.T) {
	t.Parallel()
	server := serveRaw(t, func(c *rawConn) {
		c.request()
		hang(c)
	})
	plan := loadtest.OpenPlan(server.url, 200, 500*time.Millisecond, 500)
	plan.Connections, plan.Scenarios[0].GracefulStop = 4, 100*time.Millisecond
	r, _, err := collect(t, plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := server.accepted.Load(); got > 4 || r.Errors[failure.CutOff.String()].Count < 50 {
		t.Errorf("%d connections with a cap of 4, errors %v", got, r.Errors)
	}
}

// TestLateThinkersAreSeen: a step after a pause is due when the pause is over,
// not when the loop got round to it.
func TestLateThinkersAreSeen(t *testing.T) {
	t.Parallel()
	plan := loadtest.ClosedPlan(serveOK(t).url, 1, time.Minute)
	s := &plan.Scenarios[0]
	s.Executor, s.Iterations = load.SharedIterations, 1
	const thought = 3 * time.Second
	pause := [2]time.Duration{thought, thought}
	s.Steps = []load.Step{{Name: "a", Request: get, Think: pause}, {Name: "b", Request: get}}
	r, err := newRun(t.Context(), &plan, func(load.Window) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	var holding sync.WaitGroup
	over := make(chan struct{})
	holding.Go(func() {
		for answered(r.loops[0]) == 0 {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
		}
		r.loops[0].post(func() { time.Sleep(thought + 300*time.Millisecond) }) // the loop is held up
	})
	failed := r.perform(t.Context(), nil)
	close(over)
	holding.Wait()
	if err := errors.Join(failed, r.closeLoops()); err != nil {
		t.Fatal(err)
	}
	got, err := r.result()
	if err != nil {
		t.Fatal(err)
	}
	if b := got.Steps[1]; b.Response.Max-b.Service.Max < 200 {
		t.Errorf("response time %v ms, service time %v; want the delay in the first alone", b.Response.Max, b.Service.Max)
	}
}

// answered is how many requests of the measured part a loop has had answers to.
func answered(l *loop) uint64 {
	l.shard.mu.Lock()
	defer l.shard.mu.Unlock()
	return l.shard.completed
}
