package websocket

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

// acceptKey answers a handshake's key (RFC 6455, 4.2.2).
func acceptKey(head []byte) string {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil {
		return ""
	}
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

const upgraded = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"

func listening(url string, clients int) Config {
	config := basic(url, clients)
	config.Rate, config.Senders, config.Message = 0, 0, ""
	return config
}

func TestFailedHandshakesAreToldApart(t *testing.T) {
	t.Parallel()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "full", http.StatusServiceUnavailable)
	}))
	t.Cleanup(busy.Close)
	answer := func(text string) string {
		return hostile(t, func(conn net.Conn, accept string) {
			_, _ = io.WriteString(conn, strings.ReplaceAll(text, "ACCEPT", accept))
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	for name, test := range map[string]struct {
		url    string
		want   failure.Kind
		status int
	}{
		"nobody listens":         {"ws://127.0.0.1:1", failure.Refused, 0}, // a port that nobody is given
		"503":                    {"ws" + strings.TrimPrefix(busy.URL, "http"), failure.BadHTTP, 503},
		"wrong accept":           {answer(upgraded + "Sec-WebSocket-Accept: AAAA\r\n\r\n"), failure.Protocol, 101},
		"no accept":              {answer(upgraded + "\r\n"), failure.Protocol, 101},
		"extension not offered":  {answer(upgraded + "Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; client_no_context_takeover\r\n\r\n"), failure.Protocol, 101},
		"subprotocol not asked":  {answer(upgraded + "Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: other\r\n\r\n"), failure.Protocol, 101},
		"no HTTP":                {answer("SSH-2.0-OpenSSH\r\n\r\n"), failure.BadHTTP, 0},
		"head without end":       {answer("HTTP/1.1 101 OK\r\nX: " + strings.Repeat("x", 1<<20)), failure.BadHTTP, 0},
		"status 700":             {answer("HTTP/1.1 700 Strange\r\n\r\n"), failure.BadHTTP, 0},
		"status 99":              {answer("HTTP/1.1 099 Strange\r\n\r\n"), failure.BadHTTP, 0},
		"no answer":              {answer(""), failure.Timeout, 0},
		"closed without answer":  {hostile(t, func(net.Conn, string) {}), failure.EOF, 0},
		"reset without answer":   {hostile(t, func(c net.Conn, _ string) { _ = c.(*net.TCPConn).SetLinger(0) }), failure.Reset, 0},
		"closed within the head": {hostile(t, func(c net.Conn, _ string) { _, _ = io.WriteString(c, upgraded) }), failure.EOF, 0},
		"wss to a ws server":     {"wss" + strings.TrimPrefix(busy.URL, "http"), failure.TLS, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := listening(test.url, 1)
			if test.want == failure.Timeout {
				config.Timeout = 300 * time.Millisecond
			}
			l := begin(t, config)
			until(t, "an outcome", func() bool { return len(l.of(StepConnect, all)) == 1 })
			l.finish(t, 0)
			got := l.of(StepConnect, all)[0]
			if got.Failed != test.want || got.Status != test.status || got.Err == nil {
				t.Errorf("got %v with status %d (%v), want %v with %d and an example", got.Failed, got.Status, got.Err, test.want, test.status)
			}
			if n := l.Stats(); n.Connects != 0 {
				t.Errorf("got %d connects, want none", n.Connects)
			}
		})
	}
}

func TestEveryEndIsCounted(t *testing.T) {
	t.Parallel()
	after := func(then func(net.Conn)) string {
		return hostile(t, func(conn net.Conn, accept string) {
			_, _ = io.WriteString(conn, upgraded+"Sec-WebSocket-Accept: "+accept+"\r\n\r\n")
			then(conn)
		})
	}
	frames := func(b ...byte) string {
		return after(func(conn net.Conn) {
			_, _ = conn.Write(b)
			_, _ = io.Copy(io.Discard, conn)
		})
	}
	for name, url := range map[string]string{
		"close 1000":            frames(0x88, 2, 0x03, 0xe8),
		"close without code":    frames(0x88, 0),
		"close 1013":            frames(0x88, 2, 0x03, 0xf5),
		"bad close code":        frames(0x88, 2, 0x03, 0xee),
		"reserved bit":          frames(0xc1, 1, 'x'),
		"reserved opcode":       frames(0x83, 0),
		"masked frame":          frames(0x81, 0x81, 1, 2, 3, 4, 'x'),
		"fragmented ping":       frames(0x09, 0),
		"long ping":             frames(0x89, 126, 0, 200),
		"continuation of none":  frames(0x80, 1, 'x'),
		"too large":             frames(0x82, 127, 0, 0, 0, 0, 0, 0x10, 0, 1),
		"too large by far":      frames(0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"end":                   after(func(net.Conn) {}),
		"end within a message":  after(func(c net.Conn) { _, _ = c.Write([]byte{0x81, 10, 'x'}) }),
		"reset":                 after(func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }),
		"pings, then a close":   frames(0x89, 2, 'h', 'i', 0x8a, 0, 0x88, 2, 0x03, 0xe9),
		"fragments, then close": frames(0x01, 1, 'a', 0x89, 0, 0x00, 1, 'b', 0x80, 1, 'c', 0x88, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := begin(t, listening(url, 1))
			until(t, "the end", func() bool { return l.Stats().Closed == 1 && l.Stats().Open == 0 })
			l.finish(t, 0)
			if n := l.Stats(); n.Connects != 1 || n.Reconnects != 0 {
				t.Errorf("got %d connects and %d reconnects, want 1 and 0", n.Connects, n.Reconnects)
			}
		})
	}
}

func TestPingsAreAnswered(t *testing.T) {
	t.Parallel()
	var pongs atomic.Uint64
	l := begin(t, listening(serve(t, func(ws *websocket.Conn) {
		ws.SetPongHandler(func(data string) error {
			if data == "you there" {
				pongs.Add(1)
			}
			return nil
		})
		for range 3 {
			_ = ws.WriteControl(websocket.PingMessage, []byte("you there"), time.Now().Add(time.Minute))
		}
		echo(ws)
	}), 2))
	until(t, "6 pongs", func() bool { return pongs.Load() == 6 })
	l.finish(t, 0)
}

func TestConnectsArePaced(t *testing.T) {
	t.Parallel()
	config := listening(serve(t, echo), 21)
	config.ConnectRate = 100
	l := begin(t, config)
	until(t, "21 connects", func() bool { return l.Stats().Connects == 21 })
	l.finish(t, 0)
	var intended []time.Duration
	for _, o := range l.of(StepConnect, all) {
		intended = append(intended, o.Intended)
		if o.Sent < o.Intended || o.Done < o.Sent {
			t.Errorf("got intended %v, sent %v, done %v, want them in order", o.Intended, o.Sent, o.Done)
		}
	}
	slices.Sort(intended)
	for i := 1; i < len(intended); i++ {
		if gap := intended[i] - intended[i-1]; gap != 10*time.Millisecond {
			t.Errorf("got a gap of %v, want 10ms", gap)
		}
	}
}

func TestReconnects(t *testing.T) {
	t.Parallel()
	var k atomic.Uint64
	config := basic(serve(t, func(ws *websocket.Conn) {
		if k.Add(1) <= 6 {
			frame := websocket.FormatCloseMessage(websocket.CloseTryAgainLater, "later")
			_ = ws.WriteControl(websocket.CloseMessage, frame, time.Now().Add(time.Minute))
			return
		}
		echo(ws)
	}), 2)
	config.Reconnect = true
	config.ReconnectAfter, config.ReconnectMost = 20*time.Millisecond, 100*time.Millisecond
	l := begin(t, config)
	until(t, "deliveries after reconnects", func() bool { return l.Stats().Delivered >= 50 && l.Stats().Connects == 8 })
	l.finish(t, 10*time.Second)
	n := l.Stats()
	if n.Connects != 8 || n.Reconnects != 6 || n.Closed != 6 {
		t.Errorf("got %d connects, %d reconnects, %d closed, want 8, 6, 6", n.Connects, n.Reconnects, n.Closed)
	}
	if waited := l.of(StepMessage, func(o Outcome) bool { return o.Waited }); len(waited) == 0 {
		t.Error("got no message that waited for a connection, want some")
	}
}

func TestPausesDouble(t *testing.T) {
	t.Parallel()
	c := &client{group: &Group{config: Config{WebSocket: load.WebSocket{ReconnectAfter: time.Second, ReconnectMost: 10 * time.Second}, Seed: 1}}}
	for i := range 100 {
		most := min(10*time.Second, time.Second<<min(i, 10))
		if got := c.pause(); got < most/2 || got > most {
			t.Fatalf("pause %d: got %v, want %v to %v", i, got, most/2, most)
		}
	}
}

// What a slow client has not read fills the server's buffers: it must see the
// server's writes block, while its other client gets everything.
func TestSlowClientsReadSlowly(t *testing.T) {
	t.Parallel()
	const rate = 2000
	var wrote [2]atomic.Uint64 // by connection: which is the slow client's, the server does not know
	var k, read atomic.Uint64
	config := listening(serve(t, func(ws *websocket.Conn) {
		got := &wrote[k.Add(1)-1]
		ws.SetPongHandler(func(string) error {
			read.Add(1)
			return nil
		})
		_ = ws.SetWriteDeadline(time.Now().Add(2 * time.Minute))
		line := bytes.Repeat([]byte("x"), 32<<10)
		for range 256 { // 8 MiB
			if ws.WriteMessage(websocket.TextMessage, line) != nil {
				return
			}
			got.Add(1)
		}
		_ = ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Minute)) // answered by who has read all that
		echo(ws)
	}), 2)
	config.ConnectRate = 5 // one after the other
	config.SlowClients, config.SlowRate = 1, rate
	l := begin(t, config)
	until(t, "the fast one to have it all", func() bool { return read.Load() == 1 && k.Load() == 2 })
	began, before := time.Now(), l.Stats().ReceivedBytes
	until(t, "the slow one to have read on", func() bool { return l.Stats().ReceivedBytes >= before+rate })
	if got, seconds := float64(l.Stats().ReceivedBytes-before), time.Since(began).Seconds(); got > rate*seconds+rate/2 {
		t.Errorf("got %v bytes in %.2f s, want at most %v a second", got, seconds, rate)
	}
	fast, slow := max(wrote[0].Load(), wrote[1].Load()), min(wrote[0].Load(), wrote[1].Load())
	if fast != 256 || slow >= 256 {
		t.Errorf("the server wrote %d messages to the fast and %d to the slow client, want 256 and fewer", fast, slow)
	}
	l.finish(t, 0)
}

// Who has no descriptor left for a connection that the server has accepted is the generator.
func TestDescriptorsAreTheGenerators(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE} {
		if got := classifyConnect(t.Context(), stageHandshake, http.StatusSwitchingProtocols, fmt.Errorf("duplicate: %w", err)); got != failure.PortExhausted {
			t.Errorf("%v: got %v, want %v", err, got, failure.PortExhausted)
		}
	}
}
