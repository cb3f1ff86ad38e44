package engine

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
)

// serveSockets is a WebSocket server that hands each message to whom deliver
// names, of all that are connected.
func serveSockets(tb testing.TB, deliver func(from *websocket.Conn, all map[*websocket.Conn]bool) []*websocket.Conn) string {
	tb.Helper()
	var mu sync.Mutex
	all := map[*websocket.Conn]bool{}
	var upgrader websocket.Upgrader
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		mu.Lock()
		all[conn] = true
		mu.Unlock()
		for {
			kind, data, err := conn.ReadMessage()
			mu.Lock()
			if err != nil {
				delete(all, conn)
				mu.Unlock()
				return
			}
			for _, to := range deliver(conn, all) {
				_ = to.WriteMessage(kind, data)
			}
			mu.Unlock()
		}
	}))
	tb.Cleanup(s.Close)
	return s.URL
}

func socketPlan(url, to string) load.Plan {
	return load.Plan{
		Targets: []string{url}, Seed: 1, Timeout: 10 * time.Second,
		Scenarios: []load.Scenario{{
			Name: "chat", Executor: load.ConstantVUs, VUs: 10, Duration: 3 * time.Second, GracefulStop: 10 * time.Second, Arrivals: load.Uniform,
			WebSocket: &load.WebSocket{Path: "/room", Message: `{"m": "{id}"}`, Rate: 5, Senders: 4, Deliver: to, ConnectRate: 1000},
		}},
	}
}

// atFive is how many messages so many senders can have said in a time at 5/s each.
func atFive(senders uint64, in time.Duration) uint64 {
	return senders * (uint64(5*in.Seconds()) + 1)
}

func TestSocketsMeasureEachDelivery(t *testing.T) {
	t.Parallel()
	echo := func(from *websocket.Conn, _ map[*websocket.Conn]bool) []*websocket.Conn {
		return []*websocket.Conn{from}
	}
	everybody := func(_ *websocket.Conn, all map[*websocket.Conn]bool) (out []*websocket.Conn) {
		for c := range all {
			out = append(out, c)
		}
		return out
	}
	for name, test := range map[string]struct {
		deliver func(*websocket.Conn, map[*websocket.Conn]bool) []*websocket.Conn
		to      string
		each    uint64
	}{
		"echo":    {echo, load.DeliverEcho, 1},
		"fan-out": {everybody, load.DeliverAll, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			var last atomic.Int64
			plan := socketPlan(serveSockets(t, func(from *websocket.Conn, all map[*websocket.Conn]bool) []*websocket.Conn {
				last.Store(int64(time.Since(begin)))
				return test.deliver(from, all)
			}), test.to)
			r, windows := mustRun(t, plan)
			w := r.WebSocket
			if w == nil || w.Connects != 10 || w.Lost > 0 || w.Duplicates > 0 || r.Failed > 0 {
				t.Fatalf("%+v, errors %v; want 10 connects, nothing lost or twice", w, r.Errors)
			}
			// 4 senders at 5/s for 3 s, or fewer where the machine stands still, or more where the
			// end comes late. In a fan-out a client counts half a second after it joined, so the
			// first messages have fewer deliveries; of an echo each has one.
			most := atFive(4, time.Duration(last.Load()))
			if w.Sent == 0 || w.Sent > most || w.Delivered > w.Sent*test.each || w.Delivered < w.Sent {
				t.Errorf("%d sent, %d delivered; want up to %d, and up to %d of each", w.Sent, w.Delivered, most, test.each)
			}
			if r.Steps[0].Name != "connect" || r.Steps[0].Requests != 10 || r.Steps[1].Requests != w.Delivered {
				t.Errorf("steps %+v, want 10 of connect and %d of message", r.Steps, w.Delivered)
			}
			if r.Generator.Working == 0 {
				t.Error("the threads that read the connections were at work for no time")
			}
			var seconds float64
			for _, w := range windows {
				if !w.Drain {
					seconds += w.Seconds
				}
			}
			if r.Sent == 0 || r.Received == 0 || seconds < 3 {
				t.Errorf("%d bytes sent, %d received in windows of %v s, want 3", r.Sent, r.Received, seconds)
			}
		})
	}
}

// TestSocketsLoseNothingSilently: a server that swallows messages shows.
func TestSocketsLoseNothingSilently(t *testing.T) {
	t.Parallel()
	plan := socketPlan(serveSockets(t, func(*websocket.Conn, map[*websocket.Conn]bool) []*websocket.Conn { return nil }), load.DeliverEcho)
	plan.Timeout, plan.Scenarios[0].GracefulStop = 2*time.Second, 3*time.Second
	r, _ := mustRun(t, plan)
	if n := r.Errors["lost"].Count + r.Errors["cut_off"].Count; n == 0 || n != r.WebSocket.Sent {
		t.Errorf("%d sent, errors %v; want all lost", r.WebSocket.Sent, r.Errors)
	}
}

// TestStalledEchoCannotHide: messages that are due while the server stalls are
// timed from when they were due.
func TestStalledEchoCannotHide(t *testing.T) {
	t.Parallel()
	var begin time.Time // when the first message came
	plan := socketPlan(serveSockets(t, func(from *websocket.Conn, _ map[*websocket.Conn]bool) []*websocket.Conn {
		if begin.IsZero() {
			begin = time.Now()
		}
		if at := time.Since(begin); at > time.Second && at < 3*time.Second {
			time.Sleep(3*time.Second - at) // the planted stall
		}
		return []*websocket.Conn{from}
	}), load.DeliverEcho)
	plan.Scenarios[0].Duration, plan.Scenarios[0].WebSocket.Rate = 5*time.Second, 25
	r, _ := mustRun(t, plan)
	if p := r.Steps[1].Response.P99; p < 1900 {
		t.Errorf("response time p99 of messages is %.0f ms after a stall of 2 s, want at least 1900", p)
	}
}
