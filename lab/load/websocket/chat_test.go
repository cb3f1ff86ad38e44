package websocket

import (
	"fmt"
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
	"loadstone/lab/load/feed"
)

// truth is a chat that knows what it did: guests, rooms, acks, and what it left out.
type truth struct {
	mu     sync.Mutex
	guests map[string]bool // tokens
	rooms  map[string]map[*websocket.Conn]bool
	hellos []string
	joins  int
	acks   int
	// Of the messages of the room, so many in a row of each ten are left out for all but
	// their sender, and announced.
	skip     int
	refuse   int // each so-manieth message is refused; 0 for none
	said     int
	left     int // deliveries that were left out and announced
	messages map[string]int
}

func startTruth(t *testing.T) (*truth, string) {
	t.Helper()
	s := &truth{guests: map[string]bool{}, rooms: map[string]map[*websocket.Conn]bool{}, messages: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /guest", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		token := fmt.Sprintf("tok/en &%d", len(s.guests))
		s.guests[token] = true
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"token":%q}`, token)
	})
	mux.HandleFunc("POST /strange", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(700) })
	mux.HandleFunc("GET /ws", s.serve)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return s, "ws" + strings.TrimPrefix(server.URL, "http")
}

func (s *truth) serve(w http.ResponseWriter, r *http.Request) {
	room, token := r.URL.Query().Get("room"), r.URL.Query().Get("token")
	s.mu.Lock()
	known := s.guests[token]
	s.mu.Unlock()
	if !known || r.Header.Get("X-Room") != room {
		http.Error(w, "who?", http.StatusUnauthorized)
		return
	}
	var up websocket.Upgrader
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer ws.Close()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.rooms[room], ws)
	}()
	for {
		_, text, err := ws.ReadMessage()
		if err != nil {
			return
		}
		s.take(ws, room, string(text))
	}
}

// take deals with one message.
func (s *truth) take(ws *websocket.Conn, room, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tell := func(to *websocket.Conn, what string) { _ = to.WriteMessage(websocket.TextMessage, []byte(what)) }
	if strings.HasPrefix(text, "hello") {
		s.hellos = append(s.hellos, text)
		if s.rooms[room] == nil {
			s.rooms[room] = map[*websocket.Conn]bool{}
		}
		s.rooms[room][ws] = true
		s.joins++
		tell(ws, "joined "+room)
		return
	}
	s.said++
	if s.refuse > 0 && s.said%s.refuse == 0 {
		tell(ws, "no "+text)
		return
	}
	s.messages[room]++
	s.acks++
	tell(ws, "ack "+text)
	out := s.skip > 0 && s.said%10 < s.skip
	for to := range s.rooms[room] {
		if out && to != ws {
			s.left++
			tell(to, "left out 1 of them")
			continue
		}
		tell(to, "[\"other\","+fmt.Sprintf("%q", text)+"]")
	}
}

// chatting is a load of it.
func chatting(t *testing.T, url string, clients, rooms int) Config {
	t.Helper()
	feeds, err := feed.Open(1, "chat", map[string]feed.Feed{"room": {Sequential: &[2]int64{1, int64(rooms)}}})
	if err != nil {
		t.Fatal(err)
	}
	config := basic(url, clients)
	config.WebSocket = load.WebSocket{
		Login: &load.Login{Request: load.Request{Method: "POST", Path: "/guest", Body: "{}"}, Extract: map[string]load.Extract{"token": {JSON: "token"}}},
		Path:  "/ws?room={room}&token={token}", Header: map[string]string{"X-Room": "{room}"},
		Room: "{room}", Hello: "hello {room}", Joined: "joined ",
		Message: "{id} in {room}", Ack: "ack ", Refused: "no ", Skipped: "left out {count} of",
		Rate: 20, Senders: clients, Deliver: load.DeliverAll, ConnectRate: 1000, Ping: 50 * time.Millisecond,
	}
	config.Feeds = feeds
	return config
}

// afterwards waits until each of the clients has an outcome of a step that was sent from now on.
func (l *running) afterwards(t *testing.T, step, clients int) {
	t.Helper()
	from := l.config.Now()
	until(t, "something of each that was sent later", func() bool {
		had := map[int]bool{}
		for _, o := range l.of(step, failedAs(failure.None)) {
			had[o.Client] = had[o.Client] || o.Sent > from
		}
		for client := range clients {
			if !had[client] {
				return false
			}
		}
		return true
	})
}

func TestEachRoomHasItsOwn(t *testing.T) {
	t.Parallel()
	const clients, rooms = 12, 3
	s, url := startTruth(t)
	config := chatting(t, url, clients, rooms)
	config.Rate, config.Ping, config.Timeout = 5, 200*time.Millisecond, 30*time.Second // what a busy machine bears, too
	l := begin(t, config)
	until(t, "all to have joined", func() bool { return l.rooms.count() == clients && l.Stats().Joined == clients })
	until(t, "messages and pings", func() bool {
		return l.Stats().Delivered >= 400 && len(l.of(StepPing, all)) >= 2*clients
	})
	l.finish(t, 30*time.Second)
	n := l.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Lost+n.CutOff+n.Duplicates+n.Skipped+n.Refused != 0 || n.Acked != uint64(s.acks) || n.Acked != n.Sent {
		t.Errorf("got %+v, want nothing lost and %d acks", n, s.acks)
	}
	if len(s.guests) != clients || len(s.hellos) != clients || s.joins != clients {
		t.Errorf("got %d guests and %d hellos, want %d", len(s.guests), len(s.hellos), clients)
	}
	if len(s.rooms) != rooms || len(s.messages) != rooms {
		t.Errorf("got rooms %v, want %d", s.messages, rooms)
	}
	if got := len(l.of(StepLogin, failedAs(failure.None))); got != clients {
		t.Errorf("got %d logins, want %d", got, clients)
	}
	if got := uint64(len(l.of(StepAck, failedAs(failure.None)))); got != n.Acked {
		t.Errorf("got %d outcomes of acks, want %d", got, n.Acked)
	}
	if got := len(l.of(StepPing, func(o Outcome) bool { return o.Failed != failure.None })); got != 0 {
		t.Errorf("%d pings were lost", got)
	}
	if n.Closed != 0 || len(l.of(StepSession, all)) != 0 {
		t.Errorf("got %d closed, want none", n.Closed)
	}
}

func TestWhatIsAnnouncedIsNotLost(t *testing.T) {
	t.Parallel()
	s, url := startTruth(t)
	config := chatting(t, url, 4, 1)
	config.Senders, config.Timeout = 1, 5*time.Second
	l := begin(t, config)
	until(t, "all to have joined", func() bool { return l.rooms.count() == 4 })
	l.afterwards(t, StepAck, 1) // what was said before is not due everywhere
	s.mu.Lock()
	s.skip = 3
	s.mu.Unlock()
	until(t, "skipped deliveries", func() bool { return l.Stats().Skipped >= 9 })
	l.finish(t, 10*time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := l.Stats(); n.Lost+n.CutOff != 0 || n.Skipped != uint64(s.left) {
		t.Errorf("got %+v, want nothing lost and %d skipped", n, s.left)
	}
}

// A notice covers as many as it says, and nothing that was sent after it.
func TestANoticeCoversNoMore(t *testing.T) {
	t.Parallel()
	g := &Group{notices: make([]notice, 1)}
	g.announce(0, 2, 100)
	for i, c := range []struct {
		sent time.Duration
		want bool
	}{{101, false}, {50, true}, {60, true}, {70, false}} {
		if got := g.skipped(0, c.sent); got != c.want {
			t.Errorf("%d, sent at %d: got %v", i, c.sent, got)
		}
	}
}

func TestRefusedMessagesAreOutcomes(t *testing.T) {
	t.Parallel()
	s, url := startTruth(t)
	s.refuse = 4
	config := chatting(t, url, 2, 1)
	l := begin(t, config)
	until(t, "both to have joined", func() bool { return l.rooms.count() == 2 })
	// What was said before is done with when who was a member has had it, and comes late to who was
	// not. It has come when the server has taken it, and something that was said later has come.
	l.afterwards(t, StepAck, 2)
	l.afterwards(t, StepMessage, 2)
	late, refused := l.Stats().Late, l.Stats().Refused
	until(t, "refusals", func() bool { return l.Stats().Refused >= refused+5 })
	l.finish(t, 10*time.Second)
	n := l.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Refused != uint64(s.said/4) || n.Acked != uint64(s.acks) || n.Acked+n.Refused != n.Sent {
		t.Errorf("got %+v, want %d refused and %d acked", n, s.said/4, s.acks)
	}
	if got := uint64(len(l.of(StepRefused, failedAs(failure.NotAccepted)))); got != n.Refused {
		t.Errorf("got %d outcomes, want %d", got, n.Refused)
	}
	if got := uint64(len(l.of(StepAck, all))); got != n.Acked {
		t.Errorf("got %d outcomes of acks, want the %d messages that were accepted", got, n.Acked)
	}
	// What was not accepted is due nowhere, and so is not lost.
	if n.Lost+n.CutOff != 0 || n.Late != late {
		t.Errorf("got %+v, want nothing lost, and %d late", n, late)
	}
}

func TestALifetimeIsNoLoss(t *testing.T) {
	t.Parallel()
	s, url := startTruth(t)
	config := chatting(t, url, 6, 2)
	config.Rate = 10 // what a busy machine bears, too
	config.Lifetime = [2]time.Duration{100 * time.Millisecond, 300 * time.Millisecond}
	l := begin(t, config)
	until(t, "many stays", func() bool { return l.Stats().Connects >= 24 })
	l.finish(t, 10*time.Second)
	n := l.Stats()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Closed+n.Reconnects+n.Lost+n.CutOff+n.Duplicates != 0 || len(l.of(StepSession, all)) != 0 {
		t.Errorf("got %+v, want nothing closed, reconnected or lost", n)
	}
	if uint64(s.joins) > n.Connects || len(s.guests) != 6 {
		t.Errorf("got %d joins of %d connects and %d guests, want each once and 6", s.joins, n.Connects, len(s.guests))
	}
}

func TestALoginThatFailsConnectsNobody(t *testing.T) {
	t.Parallel()
	_, url := startTruth(t)
	for name, test := range map[string]struct {
		change func(*load.Login)
		want   failure.Kind
		status int
	}{
		"refused":  {func(l *load.Login) { l.Request.Path = "/nowhere" }, failure.None, 404},
		"strange":  {func(l *load.Login) { l.Request.Path = "/strange" }, failure.BadHTTP, 0},
		"no value": {func(l *load.Login) { l.Extract["token"] = load.Extract{JSON: "user.token"} }, failure.NoValue, 201},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := chatting(t, url, 1, 1)
			config.Login = &load.Login{Request: config.Login.Request, Extract: map[string]load.Extract{"token": {JSON: "token"}}}
			test.change(config.Login)
			l := begin(t, config)
			until(t, "an outcome", func() bool { return len(l.of(StepLogin, all)) == 1 })
			l.finish(t, 0)
			got := l.of(StepLogin, all)[0]
			if got.Failed != test.want || got.Status != test.status || got.Err == nil {
				t.Errorf("got %v with %d (%v), want %v with %d", got.Failed, got.Status, got.Err, test.want, test.status)
			}
			if n := l.Stats(); n.Connects != 0 || len(l.of(StepConnect, all)) != 0 {
				t.Errorf("got %+v, want nobody connected", n)
			}
		})
	}
}

// One frame may answer several messages, some with an ack and some with a refusal.
func TestAFrameAnswersSeveral(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after, refused string }{
		"what it is before the id": {"ack ", "", "no "},
		"and after it":             {"", " ack ", " no "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const frames = 20
			var k atomic.Uint64
			config := basic(serve(t, func(ws *websocket.Conn) {
				for answer, n := "", 0; ; n++ {
					_, text, err := ws.ReadMessage()
					if err != nil {
						return
					}
					before, after := c.before, c.after
					if n%5 == 4 && before != "" {
						before = c.refused
					} else if n%5 == 4 {
						after = c.refused
					}
					if answer += before + string(text) + after; n%5 == 4 {
						if k.Add(1) <= frames { // so that all answers have come when the load ends
							tell(ws, answer)
						}
						answer = ""
					}
				}
			}), 2)
			config.Ack, config.Refused, config.Deliver = "ack ", "no ", load.DeliverNone
			config.Timeout = time.Minute
			l := begin(t, config)
			until(t, "answers", func() bool { return l.Stats().Acked+l.Stats().Refused >= 5*frames })
			l.finish(t, 0)
			if n := l.Stats(); n.Acked != 4*frames || n.Refused != frames {
				t.Errorf("got %d acknowledged and %d refused, want four of five", n.Acked, n.Refused)
			}
		})
	}
}
