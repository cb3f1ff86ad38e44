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
	"loadstone/lab/threshold"
)

// throwing is a WebSocket server that sends everything to all, and throws so many out when so many messages have
// been said.
type throwing struct {
	mu    sync.Mutex
	conns map[*websocket.Conn]bool
	said  int
	after int
	out   int // to be thrown out
	done  int
}

func (s *throwing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var up websocket.Upgrader
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	s.mu.Lock()
	s.conns[conn] = true
	s.mu.Unlock()
	for {
		_, text, err := conn.ReadMessage()
		s.mu.Lock()
		if err != nil {
			delete(s.conns, conn)
			s.mu.Unlock()
			return
		}
		s.said++
		for to := range s.conns {
			if s.said > s.after && s.done < s.out && to != conn {
				s.done++
				delete(s.conns, to)
				_ = to.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "out"), time.Now().Add(time.Second))
				_ = to.Close()
				continue
			}
			_ = to.WriteMessage(websocket.TextMessage, text)
		}
		s.mu.Unlock()
	}
}

// A server that throws most of its viewers out misses the objectives, and each is counted.
func TestWhoThrowsViewersOutMissesTheObjectives(t *testing.T) {
	t.Parallel()
	const clients = 50
	for name, test := range map[string]struct {
		out int
		met bool
	}{"nobody": {0, true}, "40 of 50": {40, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &throwing{conns: map[*websocket.Conn]bool{}, after: 10, out: test.out}
			s := httptest.NewServer(server)
			t.Cleanup(s.Close)
			plan := socketPlan(s.URL, load.DeliverAll)
			sc := &plan.Scenarios[0]
			sc.VUs, sc.Duration, sc.GracefulStop = clients, 6*time.Second, 5*time.Second
			sc.WebSocket.Senders, sc.WebSocket.Rate = 1, 20
			plan.Timeout, plan.Warmup = 5*time.Second, 3*time.Second
			r, _ := mustRun(t, plan)
			var thresholds []threshold.Threshold
			for metric, expression := range map[string]string{threshold.WSClosed: "rate<0.01", threshold.WSMsgsLost: "rate<0.01", threshold.HTTPReqFailed: "rate<0.01"} {
				parsed, err := threshold.Parse(metric, expression)
				if err != nil {
					t.Fatal(err)
				}
				thresholds = append(thresholds, parsed)
			}
			outcomes, err := threshold.NewWatch(thresholds).Outcomes(&r)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range outcomes {
				if o.Met != test.met {
					t.Errorf("%s %s: met %v with %v, want %v", o.Metric, o.Threshold, o.Met, o.Observed, test.met)
				}
				if want := float64(test.out) / clients; o.Metric == threshold.WSClosed && o.Observed != want {
					t.Errorf("got a share of %v thrown out, want %v", o.Observed, want)
				}
			}
			w := r.WebSocket
			if int(w.Closed) != test.out || int(r.Errors["ws_closed"].Count) != test.out {
				t.Errorf("got %d closed and errors %v, want %d", w.Closed, r.Errors, test.out)
			}
			if w.Clients != clients || w.LeastOpen > clients-test.out || test.met && w.LeastOpen != clients {
				t.Errorf("got %d of %d connected at the fewest, want %d", w.LeastOpen, w.Clients, clients-test.out)
			}
		})
	}
}

// The warm-up is there to connect: connections are counted, messages of it are not.
func TestTheWarmUpOfSocketsConnects(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	var last atomic.Int64
	plan := socketPlan(serveSockets(t, func(from *websocket.Conn, _ map[*websocket.Conn]bool) []*websocket.Conn {
		last.Store(int64(time.Since(begin)))
		return []*websocket.Conn{from}
	}), load.DeliverEcho)
	plan.Warmup, plan.Scenarios[0].Duration = 3*time.Second, 5*time.Second
	r, _ := mustRun(t, plan)
	w := r.WebSocket
	if w.Connects != 10 || r.Steps[0].Requests != 10 || w.LeastOpen != 10 {
		t.Errorf("got %+v and steps %+v, want 10 connects", w, r.Steps)
	}
	// 4 senders at 5/s for two seconds, or for longer where the end comes late.
	most := atFive(4, time.Duration(last.Load())-plan.Warmup)
	if w.Sent > most || w.Sent+r.Dropped < 4*3 || w.Delivered != w.Sent || r.Steps[1].Requests != w.Delivered {
		t.Errorf("got %d sent, %d dropped and %d delivered, want about 40 and at most %d", w.Sent, r.Dropped, w.Delivered, most)
	}
}
