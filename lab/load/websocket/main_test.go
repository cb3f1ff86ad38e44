package websocket

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"go.uber.org/goleak"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		if err := serveHub(); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// outcomes is what a Group recorded.
type outcomes struct {
	mu  sync.Mutex
	all []Outcome
}

func (o *outcomes) record(out Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, out)
}

// of returns the outcomes of one step that keep the predicate.
func (o *outcomes) of(step int, keep func(Outcome) bool) []Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	var some []Outcome
	for _, out := range o.all {
		if out.Step == step && keep(out) {
			some = append(some, out)
		}
	}
	return some
}

func all(Outcome) bool { return true }

func failedAs(kind failure.Kind) func(Outcome) bool {
	return func(o Outcome) bool { return o.Failed == kind && !o.Dropped }
}

func dropped(o Outcome) bool { return o.Dropped }

// basic is a configuration for echo: clients that all send.
func basic(url string, clients int) Config {
	return Config{
		WebSocket: load.WebSocket{
			Path: "/ws", Message: `{"id":"{id}"}`,
			Rate: 50, Senders: clients, Deliver: load.DeliverEcho, ConnectRate: 1000,
		},
		URLs:    []string{url},
		Clients: clients, Arrivals: load.Poisson, Seed: 7, Timeout: 10 * time.Second,
	}
}

// running is a running Group and what it records.
type running struct {
	*Group
	*outcomes

	ended chan error
}

// begin runs a Group with all its clients.
func begin(t *testing.T, config Config) *running {
	t.Helper()
	l := &running{outcomes: &outcomes{}, ended: make(chan error, 1)}
	epoch := time.Now()
	config.Now = func() time.Duration { return time.Since(epoch) }
	config.Record = l.record
	g, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	l.Group = g
	g.SetClients(config.Clients)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { l.ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if l.ended != nil {
			<-l.ended
		}
	})
	return l
}

// finish stops the load and waits for its end.
func (l *running) finish(t *testing.T, graceful time.Duration) {
	t.Helper()
	l.Stop(graceful)
	err := <-l.ended
	l.ended = nil
	if err != nil {
		t.Fatal(err)
	}
	if n := l.Stats(); n.Open != 0 || n.InFlight != 0 {
		t.Errorf("after the end: got %d open and %d in flight, want none", n.Open, n.InFlight)
	}
}

// until waits for something to hold.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// serve runs a WebSocket server whose connections are handled by handle, and
// returns its ws:// URL.
func serve(t *testing.T, handle func(*websocket.Conn)) string {
	t.Helper()
	server := httptest.NewServer(upgrading(handle))
	t.Cleanup(server.Close)
	return "ws" + strings.TrimPrefix(server.URL, "http")
}

func upgrading(handle func(*websocket.Conn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		up := websocket.Upgrader{Subprotocols: []string{"chat.v1"}}
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		handle(ws)
	})
}

// echo sends everything back.
func echo(ws *websocket.Conn) {
	for {
		kind, message, err := ws.ReadMessage()
		if err != nil {
			return
		}
		if ws.WriteMessage(kind, message) != nil {
			return
		}
	}
}

// hub sends everything to everybody, one frame for each message.
type hub struct {
	mu    sync.Mutex
	conns map[*websocket.Conn]bool
	says  string // to who has joined; nothing if it is empty
}

func newHub() *hub { return &hub{conns: map[*websocket.Conn]bool{}} }

func (h *hub) handle(ws *websocket.Conn) {
	h.mu.Lock()
	h.conns[ws] = true
	if h.says != "" {
		tell(ws, h.says)
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.conns, ws)
		h.mu.Unlock()
	}()
	for {
		_, message, err := ws.ReadMessage()
		if err != nil {
			return
		}
		h.send(message)
	}
}

func (h *hub) send(message []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ws := range h.conns {
		_ = ws.SetWriteDeadline(time.Now().Add(time.Minute))
		_ = ws.WriteMessage(websocket.BinaryMessage, message)
	}
}

// hostile accepts TCP connections, reads the handshake, and lets handle do with
// them what it likes. accept is the right Sec-WebSocket-Accept.
func hostile(t *testing.T, handle func(conn net.Conn, accept string)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
				handle(conn, acceptKey(readHead(conn)))
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return "ws://" + listener.Addr().String()
}

// readHead reads an HTTP request's head, byte by byte so as to read no more.
func readHead(conn net.Conn) []byte {
	var head []byte
	var one [1]byte
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		if _, err := conn.Read(one[:]); err != nil {
			return nil
		}
		head = append(head, one[0])
	}
	return head
}
