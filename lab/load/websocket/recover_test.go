package websocket

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
)

// logged is a chat that keeps a log, and throws all who only listen out now and then. Who comes
// back and says what it has seen gets the rest.
type logged struct {
	mu     sync.Mutex
	log    []string
	conns  map[*websocket.Conn]bool
	talks  map[*websocket.Conn]bool
	hellos []string
	throws int
	last   int // messages when it last threw
}

func (s *logged) handle(ws *websocket.Conn) { listen(ws, s.take) }

// listen has each message taken, to the end.
func listen(ws *websocket.Conn, take func(*websocket.Conn, string)) {
	for {
		_, text, err := ws.ReadMessage()
		if err != nil {
			take(ws, "")
			return
		}
		take(ws, string(text))
	}
}

// join deals with the first and the last of a connection, "from EPOCH/OFFSET" and nothing, and
// reports whether a message was that. It is locked.
func (s *logged) join(ws *websocket.Conn, text string) bool {
	place, joins := strings.CutPrefix(text, "from ")
	switch {
	case text == "":
		delete(s.conns, ws)
		delete(s.talks, ws)
		return true
	case !joins:
		return false
	}
	s.hellos = append(s.hellos, place)
	s.conns[ws] = true
	offset, recovered := strings.CutPrefix(place, "e-1/")
	from, err := strconv.Atoi(offset)
	if !recovered || err != nil {
		from = max(0, cmp.Or(s.last, len(s.log))-3) // some history, all of which who was thrown out has seen
	}
	tell(ws, fmt.Sprintf(`{"joined":"e-1","next":%d}`, from))
	for ; from < len(s.log); from++ {
		tell(ws, s.frame(from))
	}
	return true
}

// take deals with one message: who joins, or what somebody says.
func (s *logged) take(ws *websocket.Conn, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.join(ws, text) {
		return
	}
	s.log, s.talks[ws] = append(s.log, text), true
	throw := len(s.log) >= s.last+40 && s.throws < 5 && len(s.talks) == 2 && len(s.conns) == 8 // each time all six
	for to := range s.conns {
		tell(to, s.frame(len(s.log)-1))
		if throw && !s.talks[to] {
			_ = to.Close()
			delete(s.conns, to)
		}
	}
	if throw {
		s.throws++
		s.last = len(s.log)
	}
}

func (s *logged) frame(offset int) string {
	return fmt.Sprintf(`[{"offset":%d,"text":%q}]`, offset, s.log[offset])
}

func tell(to *websocket.Conn, what string) {
	_ = to.WriteMessage(websocket.TextMessage, []byte(what))
}

// Who comes back where it was misses nothing and gets nothing twice; who does not say where it
// was gets what it has seen again.
func TestWhoComesBackGoesOn(t *testing.T) {
	t.Parallel()
	for name, recovers := range map[string]bool{"with recover": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &logged{conns: map[*websocket.Conn]bool{}, talks: map[*websocket.Conn]bool{}}
			config := basic(serve(t, s.handle), 8)
			config.Hello, config.Joined, config.Deliver = "from none/", `{"joined":`, load.DeliverAll
			config.Senders, config.Timeout = 2, 10*time.Second
			config.Reconnect, config.ReconnectAfter, config.ReconnectMost = true, 5*time.Millisecond, 20*time.Millisecond
			if recovers {
				config.Timeout = 30 * time.Second
				config.Hello = "from {epoch}/{offset}"
				config.Recover = map[string][]string{"epoch": {`{"joined":"{value}"`}, "offset": {`"next":{value}}`, `[{"offset":{value+1},`}}
			}
			l := begin(t, config)
			until(t, "some to have been thrown out and come back", func() bool { return l.Stats().Reconnects >= 24 && l.Stats().Delivered > 1000 })
			l.finish(t, 30*time.Second)
			n := l.Stats()
			s.mu.Lock()
			defer s.mu.Unlock()
			switch {
			case recovers && n.Duplicates+n.Lost+n.CutOff > 0:
				t.Errorf("got %+v, want nothing lost, and nothing twice", n)
			case !recovers && n.Duplicates+n.Late == 0: // late is what was done with long before
				t.Errorf("got %+v, want history twice", n)
			}
			if recovers && s.hellos[0] != "/" {
				t.Errorf("who had seen nothing said %q", s.hellos[0])
			}
		})
	}
}

func TestTheLastValueIsRecovered(t *testing.T) {
	t.Parallel()
	r := newRecovery(map[string][]string{"at": {`"next":{value},`, `{"offset":{value+1},`}, "epoch": {`"epoch":"{value}"`}})
	for _, c := range []struct {
		received  []string
		at, epoch string
	}{
		{nil, "", ""},
		{[]string{`{"type":"joined","epoch":"0a","next":17,"recovered":true}`}, "17", "0a"},
		{[]string{`"next":17,`, `[{"offset":17,"id":1},{"offset":18,"id":2}]`}, "19", ""},
		{[]string{`{"offset":5,{"next":7}"next":3,`}, "3", ""},
		{[]string{`{"offset":5,`, `{"offset":x,`, `{"offset":`, `{"offset":6`, `{"offset":18446744073709551615,`}, "6", ""},
		{[]string{`"epoch":"` + strings.Repeat("x", 300) + `"`}, "", ""},
		{[]string{`"epoch":"a"`, `"epoch":"b"`}, "", "b"},
	} {
		seen := make([][]byte, 2)
		for _, text := range c.received {
			r.see(seen, []byte(text))
		}
		if got := [2]string{string(seen[r.index("at")]), string(seen[r.index("epoch")])}; got != [2]string{c.at, c.epoch} {
			t.Errorf("%q: got %q, want %q and %q", c.received, got, c.at, c.epoch)
		}
	}
}
