package websocket

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load/failure"
)

// Whatever clients and servers do, every message is in the books once: sent and
// then delivered, lost or cut off, or dropped.
func TestChurnKeepsTheBooks(t *testing.T) {
	t.Parallel()
	var k atomic.Uint64
	config := basic(serve(t, func(ws *websocket.Conn) {
		for {
			kind, message, err := ws.ReadMessage()
			if err != nil {
				return
			}
			switch n := k.Add(1); {
			case n%97 == 0:
				return // no close frame
			case n%31 == 0:
				continue
			}
			if ws.WriteMessage(kind, message) != nil {
				return
			}
		}
	}), 40)
	config.Timeout, config.Reconnect = 200*time.Millisecond, true
	config.ReconnectAfter, config.ReconnectMost = 5*time.Millisecond, 50*time.Millisecond
	l := begin(t, config)
	for i := range 60 {
		sent := l.Stats().Sent
		l.SetClients([]int{40, 3, 25, 0, 31}[i%5])
		if i%5 != 3 {
			until(t, "more messages", func() bool { return l.Stats().Sent >= sent+40 })
		}
	}
	l.finish(t, 50*time.Millisecond)
	n := l.Stats()
	if got := n.Delivered + n.Lost + n.CutOff; got != n.Sent {
		t.Errorf("got %d deliveries accounted for of %d sent: %+v", got, n.Sent, n)
	}
	if n.Closed == 0 || n.Reconnects == 0 || n.Lost == 0 {
		t.Errorf("got %+v, want some closed, reconnected and lost", n)
	}
	if n.Duplicates+n.Unexpected+n.Other != 0 {
		t.Errorf("got %+v, want nothing doubled, unexpected or unknown", n)
	}
	if got, want := uint64(len(l.of(StepMessage, all))), n.Sent+n.Dropped; got != want {
		t.Errorf("got %d outcomes of messages, want %d", got, want)
	}
	if got := uint64(len(l.of(StepConnect, failedAs(failure.None)))); got != n.Connects {
		t.Errorf("got %d outcomes of connects, want %d", got, n.Connects)
	}
}

// A context that ends cuts everything off at once.
func TestContextEndsTheRun(t *testing.T) {
	t.Parallel()
	config := basic("ws://127.0.0.1:1", 1)
	epoch := time.Now()
	o := &outcomes{}
	config.Now, config.Record = func() time.Duration { return time.Since(epoch) }, o.record
	g, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(stopped); err == nil {
		t.Error("got no error, want the context's")
	}
}

// Whatever bytes a server sends, the client ends its connection or stays, and
// can be stopped.
func FuzzServerBytes(f *testing.F) {
	ok := upgraded + "Sec-WebSocket-Accept: ACCEPT\r\n\r\n"
	f.Add([]byte(ok + "\x81\x05hello\x88\x02\x03\xe8"))
	f.Add([]byte(ok + "\x01\x01a\x89\x00\x80\x01b\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff"))
	f.Add([]byte(ok + "\x8a\x7d"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n"))
	f.Add([]byte("HTTP/1.1 100 Continue\r\n\r\n" + ok))
	f.Add([]byte{0, 0xff})
	f.Fuzz(func(t *testing.T, answer []byte) {
		url := hostile(t, func(conn net.Conn, accept string) {
			_, _ = conn.Write(bytes.ReplaceAll(answer, []byte("ACCEPT"), []byte(accept)))
			_ = conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, conn)
		})
		config := basic(url, 1)
		config.Timeout = 5 * time.Second
		l := begin(t, config)
		until(t, "the connection to end", func() bool {
			return l.Stats().Closed == 1 || len(l.of(StepConnect, func(o Outcome) bool { return o.Err != nil })) == 1
		})
		l.finish(t, 0)
	})
}
