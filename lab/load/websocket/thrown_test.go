package websocket

import (
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// Viewers that a server throws out are outcomes, and what is sent meanwhile is due at them and lost:
// else a server that throws out four of five would lose nothing.
func TestWhoIsThrownOutLosesWhatIsSentMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHub()
	const clients, kicked = 10, 8
	config := basic(serve(t, h.handle), clients)
	config.Senders, config.Rate, config.Deliver = 1, 50, load.DeliverAll
	config.Timeout = 3 * time.Second // enough to connect on a busy machine
	var mu sync.Mutex
	first := map[*websocket.Conn]bool{} // the sender's
	l := begin(t, config)
	until(t, "all to be members", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.conns) == clients && l.rooms.count() == clients
	})
	until(t, "deliveries", func() bool { return l.Stats().Delivered >= 10 })
	h.mu.Lock()
	mu.Lock()
	for ws := range h.conns {
		if len(first) == kicked {
			break
		}
		first[ws] = true
		_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.ClosePolicyViolation, "out"), time.Now().Add(time.Second))
		_ = ws.Close()
	}
	mu.Unlock()
	h.mu.Unlock()
	until(t, "the ends to be seen", func() bool { return l.Stats().Closed == kicked })
	sent := l.Stats().Sent
	if l.talker(0) == nil {
		t.Fatal("nobody sends")
	}
	until(t, "more to be lost, or dropped with the sender", func() bool {
		n := l.Stats()
		return n.Sent >= sent+10 && n.Lost >= 10*kicked || n.Dropped >= 5
	})
	l.finish(t, 10*time.Second)
	ends := l.of(StepSession, all)
	if len(ends) != kicked {
		t.Errorf("got %d outcomes of sessions, want %d", len(ends), kicked)
	}
	for _, o := range ends {
		if o.Failed != failure.Closed || o.Err == nil {
			t.Errorf("got %v (%v), want ws_closed and why", o.Failed, o.Err)
		}
	}
	n := l.Stats()
	if got := uint64(len(l.of(StepMessage, failedAs(failure.Lost)))); got != n.Lost || n.Skipped != 0 {
		t.Errorf("got %d lost outcomes and %+v, want as many as counted", got, n)
	}
}

// Who is never told that it has joined is a member after the timeout: a server that lets nobody in
// loses what is said.
func TestWhoNeverJoinsLosesWhatIsSaid(t *testing.T) {
	t.Parallel()
	const clients = 3
	config := basic(serve(t, func(ws *websocket.Conn) {
		for {
			if _, _, err := ws.ReadMessage(); err != nil {
				return
			}
		}
	}), clients)
	config.Senders, config.Deliver, config.Joined = 1, load.DeliverAll, "joined"
	config.Timeout = 3 * time.Second // enough to connect on a busy machine
	l := begin(t, config)
	until(t, "all to be members", func() bool { return l.rooms.count() == clients })
	until(t, "messages to be lost", func() bool { return l.Stats().Lost >= 5*clients })
	if n := l.Stats(); n.Open != clients || n.Joined != 0 {
		t.Errorf("got %d connections of which %d have joined, want %d and 0", n.Open, n.Joined, clients)
	}
	l.finish(t, 10*time.Second)
}
