package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/block/pause"
	"loadstone/system/chat"
	"loadstone/system/chat/reconcile/ledger"
)

const (
	callTimeout = 10 * time.Second // of a busy server; who waits longer asks again
	// silence is longer than the server is silent: it pings every 25 s.
	silence   = time.Minute
	lookPause = 50 * time.Millisecond
	// Who lost a connection comes back after the first pause, and after twice the last one
	// until the longest, each more or less, so that they do not come all at once.
	firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
)

// told is what the server sends, of all types.
type told struct {
	Type      string         `json:"type"`
	Epoch     string         `json:"epoch"`
	Next      uint64         `json:"next"`
	Recovered bool           `json:"recovered"`
	User      string         `json:"user"`
	Messages  []chat.Message `json:"messages"`
	Count     uint64         `json:"count"`
	ID        string         `json:"id"`
	Offset    *uint64        `json:"offset"` // of an ack; nil where several servers serve
	Code      string         `json:"code"`
	// Of the analysis.
	Labels  map[string]uint64 `json:"labels"`
	Deleted uint64            `json:"deleted"`
	Dead    uint64            `json:"dead"`
}

// member is a viewer, and perhaps a sender.
type member struct {
	r      *reconciler
	number int
	stream int64
	guest  *guest
	books  *ledger.Viewer

	user    string    // as the server says; its reader's
	left    time.Time // when the last connection was lost; its reader's
	answers chan told // to what it said, from its reader

	mu   sync.Mutex
	conn *websocket.Conn // nil while there is none
}

// view looks on until ctx ends, over as many connections as it takes.
func (m *member) view(ctx context.Context) {
	wait := firstPause
	for ctx.Err() == nil {
		if m.connect(ctx) {
			wait = firstPause
		}
		if !pause.For(ctx, wait/2+rand.N(wait)) {
			return
		}
		wait = min(2*wait, longestPause)
	}
}

// writeBuffers are shared: few viewers write at once.
var writeBuffers sync.Pool

// dial opens a connection for which the kernel keeps little: there may be thousands.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	const kept = 16 << 10
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		err = tcp.SetReadBuffer(kept)
	}
	return conn, err
}

// connect has one connection, and reports whether it joined with it.
func (m *member) connect(ctx context.Context) (joined bool) {
	token, err := m.guest.get(ctx)
	if err != nil {
		return false
	}
	query := url.Values{"stream": {strconv.FormatInt(m.stream, 10)}, "token": {token}}
	if next, known := m.books.Place(); known {
		query.Set("epoch", m.r.books.Epoch())
		query.Set("offset", strconv.FormatUint(next, 10))
	}
	const buffer = 1 << 10
	dialer := websocket.Dialer{NetDialContext: dial, HandshakeTimeout: callTimeout, ReadBufferSize: buffer, WriteBufferSize: buffer, WriteBufferPool: &writeBuffers}
	conn, response, err := dialer.DialContext(ctx, "ws"+strings.TrimPrefix(m.r.cfg.URL, "http")+"/ws?"+query.Encode(), nil)
	if response != nil {
		_ = response.Body.Close()
	}
	if err != nil {
		if response != nil && response.StatusCode == http.StatusUnauthorized {
			m.guest.renew(token)
		}
		return false
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // it ends the reading
	defer func() {
		stop()
		m.hold(nil)
		_ = conn.Close() // it is over either way
	}()
	return m.read(conn, token)
}

func (m *member) hold(conn *websocket.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conn = conn
}

// read reads until the connection ends.
func (m *member) read(conn *websocket.Conn, token string) (joined bool) {
	heard := func() { _ = conn.SetReadDeadline(time.Now().Add(silence)) }
	ping := conn.PingHandler()
	conn.SetPingHandler(func(data string) error { heard(); return ping(data) })
	defer func() {
		if joined {
			m.r.here.Add(-1)
			m.left = time.Now()
		}
	}()
	for {
		heard()
		_, text, err := conn.ReadMessage()
		if err != nil {
			const expired = 3000
			if websocket.IsCloseError(err, expired) {
				m.guest.renew(token)
			}
			return joined
		}
		var t told
		if err := json.Unmarshal(text, &t); err != nil {
			m.r.books.Unreadable(fmt.Sprintf("viewer %d of stream %d was sent %q", m.number+1, m.stream, text))
			return joined
		}
		if t.Type == "joined" {
			joined = true
			m.user = t.User
			m.came()
			m.hold(conn)
		}
		m.take(&t)
	}
}

// came counts a viewer that has joined.
func (m *member) came() {
	m.r.here.Add(1)
	if m.left.IsZero() {
		return
	}
	m.r.returns.Add(1)
	away := int64(time.Since(m.left))
	for old := m.r.away.Load(); away > old && !m.r.away.CompareAndSwap(old, away); old = m.r.away.Load() {
	}
}

// take writes into the books what the server says.
func (m *member) take(t *told) {
	switch t.Type {
	case "joined":
		m.books.Joined(t.Epoch, t.Next, t.Recovered)
	case "messages":
		for i := range t.Messages {
			m.books.Saw(&t.Messages[i])
		}
	case "skipped":
		m.books.Skipped(t.Count)
	case "ack":
		said := chat.Message{Sender: m.user, ID: t.ID, Text: m.text(t.ID)}
		if t.Offset == nil {
			m.r.books.Accepted(m.stream, &said)
		} else {
			said.Offset = *t.Offset
			m.r.books.Acked(m.stream, &said)
		}
		m.answer(t)
	case "error":
		m.answer(t)
	case "totals":
		totals := ledger.Totals{Next: t.Next, Deleted: t.Deleted, Dead: t.Dead}
		for _, n := range t.Labels {
			totals.Analysed += n
		}
		m.r.books.Analysed(m.stream, totals)
	}
}

// answer gives the sender an answer. One that nobody took was to what has been sent again since.
func (m *member) answer(t *told) {
	select {
	case m.answers <- *t:
	default:
	}
}

// talk says one thing after the other until talking is over, and waits for the last answer until settled is.
func (m *member) talk(talking, settled context.Context) {
	every := time.Duration(float64(time.Second) * float64(m.r.cfg.Senders) / m.r.cfg.Rate)
	next := time.Now().Add(rand.N(every))
	for i := 0; pause.For(talking, time.Until(next)); i++ {
		if !m.say(settled, fmt.Sprintf("%s-%d", m.r.run, i)) {
			m.r.unanswered.Add(1)
			return
		}
		next = next.Add(every)
	}
}

// text is what the member says under an id.
func (m *member) text(id string) string {
	return fmt.Sprintf("message %s of viewer %d", id, m.number+1)
}

// say says something until it has an answer, and reports whether it has.
func (m *member) say(ctx context.Context, id string) bool {
	request := fmt.Appendf(nil, `{"type":"send","id":%q,"text":%q}`, id, m.text(id))
	for {
		m.mu.Lock()
		conn := m.conn
		m.mu.Unlock()
		if conn != nil {
			_ = conn.SetWriteDeadline(time.Now().Add(callTimeout))
			if conn.WriteMessage(websocket.TextMessage, request) == nil && m.answered(ctx, conn, id) {
				return true
			}
			m.r.repeated.Add(1)
		}
		if !pause.For(ctx, firstPause+rand.N(firstPause)) {
			return false
		}
	}
}

// answered waits for the answer on a connection. It reports false if the message is to be
// sent again.
func (m *member) answered(ctx context.Context, conn *websocket.Conn, id string) bool {
	late := time.NewTimer(callTimeout)
	defer late.Stop()
	lost := time.NewTicker(lookPause)
	defer lost.Stop()
	for {
		select {
		case t := <-m.answers:
			switch {
			case t.ID != id: // to what was sent twice
			case t.Type == "ack":
				return true
			case t.Code == chat.ErrTooMany.Code || t.Code == chat.ErrOverloaded.Code || t.Code == chat.ErrUnavailable.Code:
				return false
			default:
				m.r.refused.Add(1)
				return true
			}
		case <-lost.C:
			m.mu.Lock()
			gone := m.conn != conn
			m.mu.Unlock()
			if gone {
				return false
			}
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
