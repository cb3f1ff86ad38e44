package websocket

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// Who is never let in is due what is said, and sends nothing of what it was to.
func TestWhoIsNotLetInLosesWhatIsSaid(t *testing.T) {
	t.Parallel()
	var k atomic.Uint64
	everybody := newHub()
	everybody.says = "welcome"
	let := upgrading(everybody.handle)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if k.Add(1)%2 == 0 {
			http.Error(w, "full", http.StatusServiceUnavailable)
			return
		}
		let.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config := basic("ws"+strings.TrimPrefix(server.URL, "http"), 4)
	config.Rate, config.Deliver, config.Joined, config.Timeout = 20, load.DeliverAll, "welcome", 3*time.Second
	l := begin(t, config)
	until(t, "two to be refused", func() bool { return len(l.of(StepConnect, func(o Outcome) bool { return o.Err != nil })) >= 2 })
	until(t, "losses and drops", func() bool { return l.Stats().Lost >= 20 && l.Stats().Dropped >= 20 })
	never := l.of(StepMessage, dropped) // at the end what is due and not sent yet is dropped, whoever was to send it
	l.finish(t, 5*time.Second)
	out := map[int]bool{}
	for _, o := range l.of(StepConnect, func(o Outcome) bool { return o.Err != nil }) {
		out[o.Client] = true
	}
	lost := l.of(StepMessage, func(o Outcome) bool { return o.Failed == failure.Lost && !out[o.Client] })
	if n := uint64(len(lost)); n > l.Stats().Late { // what came when the machine had stood still
		t.Errorf("those who were let in lost %d messages, of which %d came late", n, l.Stats().Late)
	}
	for _, o := range never {
		if !out[o.Client] && o.Done-o.Intended < config.Timeout { // else the machine stood still
			t.Errorf("client %d was let in, and did not send what was due %v before", o.Client, o.Done-o.Intended)
		}
	}
}

// Who cannot log in is in its room all the same, if that is known.
func TestWhoCannotLogInLosesWhatIsSaid(t *testing.T) {
	t.Parallel()
	_, url := startTruth(t)
	config := chatting(t, url, 3, 1)
	login := *config.Login
	login.Request.Path = "/nowhere"
	config.Login = &login
	l := begin(t, config)
	until(t, "all to be due what is said", func() bool { return l.rooms.count() == 3 })
	l.finish(t, 0)
}

// A server that never says that clients have joined has closed them, once each.
func TestWhoIsNotToldIsClosed(t *testing.T) {
	t.Parallel()
	config := basic(serve(t, func(ws *websocket.Conn) {
		for {
			if _, _, err := ws.ReadMessage(); err != nil {
				return
			}
		}
	}), 3)
	config.Joined, config.Timeout = "joined", 3*time.Second // enough to connect on a busy machine
	l := begin(t, config)
	until(t, "all connections to be open", func() bool { return l.Stats().Connects == 3 })
	until(t, "all to be closed", func() bool { return l.Stats().Closed == 3 })
	l.finish(t, 0)
	if got := l.of(StepSession, failedAs(failure.Closed)); len(got) != 3 || l.Stats().Closed != 3 {
		t.Errorf("got %d closed and outcomes %v, want 3", l.Stats().Closed, got)
	}
}
