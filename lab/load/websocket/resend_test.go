package websocket

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// acking is a chat that takes each message once, by its id, and says so to its sender. It throws
// senders out, for the first messages: before it has taken one, or after it and before it says so.
type acking struct {
	logged

	heard map[string]bool
	lies  bool // it says that it has taken some that it has not
}

func (s *acking) handle(ws *websocket.Conn) { listen(ws, s.take) }

func (s *acking) take(ws *websocket.Conn, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.join(ws, text) || !s.conns[ws] {
		return
	}
	again := s.heard[text]
	s.heard[text] = true
	fate := 0
	if n := len(s.heard); !again && n <= 400 {
		fate = n % 20
	}
	taken := slices.Contains(s.log, text)
	if lie := s.lies && fate == 15; !lie && fate != 5 && !taken {
		s.log = append(s.log, text)
		for to := range s.conns {
			tell(to, s.frame(len(s.log)-1))
		}
	}
	if fate == 5 || fate == 10 {
		s.throws++
		delete(s.conns, ws)
		_ = ws.Close()
		return
	}
	tell(ws, `{"ack":`+text+`}`)
}

// What was under way when the connection broke is said again, and so neither lost nor doubled. What
// was acknowledged is not: where nobody sees it, it is lost.
func TestWhatWasNotAcknowledgedIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ resend, lies, lost, unanswered bool }{
		"again":                       {resend: true},
		"never":                       {lost: true, unanswered: true},
		"by a server that forgets it": {resend: true, lies: true, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &acking{lies: c.lies, heard: map[string]bool{}, logged: logged{conns: map[*websocket.Conn]bool{}}}
			config := basic(serve(t, s.handle), 8)
			config.Rate = 10 // what a busy machine bears, too: each is delivered eight times
			config.Hello, config.Joined, config.Deliver = "from {epoch}/{offset}", `{"joined":`, load.DeliverAll
			config.Ack, config.Resend = `{"ack":`, c.resend
			config.Recover = map[string][]string{"epoch": {`{"joined":"{value}"`}, "offset": {`"next":{value}}`, `[{"offset":{value+1},`}}
			config.Reconnect, config.ReconnectAfter, config.ReconnectMost = true, 5*time.Millisecond, 20*time.Millisecond
			if config.Timeout = 30 * time.Second; c.lost {
				config.Timeout = 10 * time.Second
			}
			l := begin(t, config)
			until(t, "all that were thrown out to have come back", func() bool {
				n := l.Stats()
				s.mu.Lock()
				defer s.mu.Unlock()
				return len(s.heard) > 600 && n.Reconnects == uint64(s.throws) && n.Joined == 8
			})
			l.finish(t, 30*time.Second)
			n := l.Stats()
			if lost := n.Lost+n.CutOff > 0; lost != c.lost || n.Duplicates > 0 {
				t.Errorf("got %+v, want some lost: %v, and none twice", n, c.lost)
			}
			unanswered := len(l.of(StepAck, failedAs(failure.Lost))) + len(l.of(StepAck, failedAs(failure.CutOff)))
			if (unanswered > 0) != c.unanswered || n.Acked+uint64(unanswered) != n.Sent {
				t.Errorf("got %d without an ack, %d with one, of %d", unanswered, n.Acked, n.Sent)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if all := fmt.Sprint(len(s.log)); c.resend && !c.lies && all != fmt.Sprint(n.Sent) {
				t.Errorf("the log has %s messages of %d", all, n.Sent)
			}
		})
	}
}
