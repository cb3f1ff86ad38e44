package engine

import (
	"net/http"
	"net/http/httptest"
	"sync"
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
		Targets: []string{url}, Seed: 1, Timeout: 2 * time.Second,
		Scenarios: []load.Scenario{{
			Name: "chat", Executor: load.ConstantVUs, VUs: 10, Duration: 3 * time.Second, GracefulStop: time.Second, Arrivals: load.Uniform,
			WebSocket: &load.WebSocket{Path: "/room", Message: `{"m": "{id}"}`, Rate: 5, Senders: 4, Deliver: to, ConnectRate: 1000},
		}},
	}
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
			plan := socketPlan(serveSockets(t, test.deliver), test.to)
			r, windows := mustRun(t, plan)
			w := r.WebSocket
			if w == nil || w.Connects != 10 || w.Lost > 0 || w.Duplicates > 0 || r.Failed > 0 {
				t.Fatalf("%+v, errors %v; want 10 connects, nothing lost or twice", w, r.Errors)
			}
			// 4 senders at 5/s for 3 s, or fewer where the machine stands still. In a fan-out a client
			// counts half a second after it joined, so the first messages have fewer deliveries;
			// of an echo each has one.
			if w.Sent == 0 || w.Sent > 60 || w.Delivered > w.Sent*test.each || w.Delivered < w.Sent {
				t.Errorf("%d sent, %d delivered; want up to 60, and up to %d of each", w.Sent, w.Delivered, test.each)
			}
			if r.Steps[0].Name != "connect" || r.Steps[0].Requests != 10 || r.Steps[1].Requests != w.Delivered {
				t.Errorf("steps %+v, want 10 of connect and %d of message", r.Steps, w.Delivered)
			}
			if r.Generator.Working == 0 {
				t.Error("the threads that read the connections were at work for no time")
			}
			if r.Sent == 0 || r.Received == 0 || len(windows) < 3 {
				t.Errorf("%d bytes sent, %d received in %d windows", r.Sent, r.Received, len(windows))
			}
		})
	}
}

// TestSocketsLoseNothingSilently: a server that swallows messages shows.
func TestSocketsLoseNothingSilently(t *testing.T) {
	t.Parallel()
	plan := socketPlan(serveSockets(t, func(*websocket.Conn, map[*websocket.Conn]bool) []*websocket.Conn { return nil }), load.DeliverEcho)
	plan.Timeout = 300 * time.Millisecond
	plan.Scenarios[0].Duration = time.Second
	r, _ := mustRun(t, plan)
	if n := r.Errors["lost"].Count + r.Errors["cut_off"].Count; n == 0 || n != r.WebSocket.Sent {
		t.Errorf("%d sent, errors %v; want all lost", r.WebSocket.Sent, r.Errors)
	}
}

// TestStalledEchoCannotHide: messages that are due while the server stalls are
// timed from when they were due.
func TestStalledEchoCannotHide(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	plan := socketPlan(serveSockets(t, func(from *websocket.Conn, _ map[*websocket.Conn]bool) []*websocket.Conn {
		if at := time.Since(begin); at > time.Second && at < 3*time.Second {
			time.Sleep(3*time.Second - at) // the planted stall
		}
		return []*websocket.Conn{from}
	}), load.DeliverEcho)
	plan.Timeout = 10 * time.Second
	plan.Scenarios[0].Duration, plan.Scenarios[0].WebSocket.Rate = 5*time.Second, 25
	r, _ := mustRun(t, plan)
	if p := r.Steps[1].Response.P99; p < 1900 {
		t.Errorf("response time p99 of messages is %.0f ms after a stall of 2 s, want at least 1900", p)
	}
}
