package httpclient

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"loadstone/lab/load/failure"
)

// reset closes a TCP connection with RST.
func reset(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// hostile is a server that answers a request badly, and what that must count as.
type hostile struct {
	name  string
	serve func(net.Conn)
	kind  failure.Kind
	says  string
}

// answering reads one HTTP/1.1 request and writes bytes.
func answering(answer string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, answer)
		}
	}
}

func TestHostileServersOverHTTP1(t *testing.T) {
	t.Parallel()
	cases := []hostile{
		{"no answer", answering(""), failure.EOF, "closed the connection"},
		{"half a status line", answering("HTTP/1.1 2"), failure.EOF, "closed the connection"},
		{"half a header", answering("HTTP/1.1 200 OK\r\nContent-Le"), failure.EOF, "closed the connection"},
		{"short body", answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), failure.ShortBody, "before all of it"},
		{"short chunk", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"), failure.ShortBody, "before all of it"},
		{"no last chunk", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), failure.ShortBody, "before all of it"},
		{"no HTTP", answering("SSH-2.0-OpenSSH_9.2\r\n\r\n"), failure.BadHTTP, "malformed"},
		{"bad status", answering("HTTP/1.1 2x0 OK\r\n\r\n"), failure.BadHTTP, "malformed"},
		{"bad header", answering("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), failure.BadHTTP, "malformed"},
		{"two lengths", answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), failure.BadHTTP, "Content-Length"},
		{"bad chunk", answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc"), failure.BadHTTP, "chunk"},
		{"endless header", answering("HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", maxHeaderBytes)), failure.BadHTTP, "exceeded"},
		{"switches", answering("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"), failure.BadHTTP, "101"},
		{"reset", func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				reset(conn)
			}
		}, failure.Reset, "reset"},
		{"reset in the body", func(conn net.Conn) {
			answering("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")(conn)
			reset(conn)
		}, failure.Reset, "reset"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := testAuthority(t)
			server := startRaw(t, a.config(HTTP1), c.serve)
			conn := dial(t, configFor(t, "https://"+server.address, HTTP1, a))
			fails(t, conn, c)
			eventually(t, "the connection is no longer usable", func() bool { return !conn.Usable() })
		})
	}
}

// fails has one request end as the case says.
func fails(t *testing.T, conn *Conn, c hostile) {
	t.Helper()
	err := conn.Do(long(t), &Request{Method: "GET", Target: "/path"}, &Answer{})
	if err == nil {
		t.Fatal("no error")
	}
	if got := Kind(err); got != c.kind {
		t.Errorf("got %v (%v), want %v", got, err, c.kind)
	}
	if Unsent(err) {
		t.Errorf("%v: said to be unsent", err)
	}
	if got := err.Error(); !strings.Contains(got, c.says) || !strings.HasPrefix(got, "GET /path: ") {
		t.Errorf("got %q, want it to say %q and what was asked for", got, c.says)
	}
}

// after has a server of HTTP/2 do something once a request has come.
func after(do func(f frames, stream uint32)) func(net.Conn) {
	return func(conn net.Conn) {
		f := begin(conn)
		if stream := f.await(typeHeaders); stream != 0 {
			do(f, stream)
		}
		hold(conn)
	}
}

// goAway sends GOAWAY.
func (f frames) goAway(last, code uint32, debug string) {
	payload := binary.BigEndian.AppendUint32(nil, last)
	payload = binary.BigEndian.AppendUint32(payload, code)
	f.send(typeGoAway, 0, 0, append(payload, debug...)...)
}

func hostileHTTP2() []hostile {
	return []hostile{
		{"closed", after(func(f frames, _ uint32) { _ = f.Close() }), failure.EOF, "closed the connection"},
		{"reset", after(func(f frames, _ uint32) { reset(f.Conn) }), failure.Reset, "reset"},
		{"RST_STREAM", after(func(f frames, id uint32) {
			f.send(typeReset, 0, id, 0, 0, 0, 2)
		}), failure.Protocol, "reset the stream: INTERNAL_ERROR"},
		{"RST_STREAM, refused", after(func(f frames, id uint32) {
			f.send(typeReset, 0, id, 0, 0, 0, 7)
		}), failure.Protocol, "REFUSED_STREAM"},
		{"RST_STREAM with an unknown code", after(func(f frames, id uint32) {
			f.send(typeReset, 0, id, 0xff, 0xff, 0xff, 0xff)
		}), failure.Protocol, "error code 4294967295"},
		{"RST_STREAM in the body", after(func(f frames, id uint32) {
			f.send(typeHeaders, endHeaders, id, status200)
			f.send(typeData, 0, id, 'a', 'b')
			f.send(typeReset, 0, id, 0, 0, 0, 11)
		}), failure.Protocol, "ENHANCE_YOUR_CALM"},
		{"GOAWAY that leaves it out", after(func(f frames, _ uint32) {
			f.goAway(0, 0, "")
		}), failure.Protocol, "GOAWAY, NO_ERROR"},
		{"GOAWAY with an error", after(func(f frames, _ uint32) {
			f.goAway(0, 11, "calm down")
		}), failure.Protocol, "GOAWAY, ENHANCE_YOUR_CALM"},
		{"GOAWAY and closed", after(func(f frames, id uint32) {
			f.goAway(id, 2, "broken")
			_ = f.Close()
		}), failure.Protocol, "GOAWAY, INTERNAL_ERROR"},
		{"GOAWAY and closed in the body", after(func(f frames, id uint32) {
			f.send(typeHeaders, endHeaders, id, status200)
			f.goAway(id, 1, "")
			_ = f.Close()
		}), failure.Protocol, "GOAWAY, PROTOCOL_ERROR"},
		{"garbage", after(func(f frames, _ uint32) {
			_, _ = f.Write([]byte(strings.Repeat("garbage! ", 1000)))
		}), failure.Protocol, "not HTTP/2"},
		{"half a frame", after(func(f frames, id uint32) {
			_, _ = f.Write([]byte{0, 0, 9, typeHeaders, endHeaders, 0, 0, 0, byte(id), status200})
			_ = f.Close()
		}), failure.EOF, "closed the connection"},
		{"huge frame", after(func(f frames, id uint32) {
			_, _ = f.Write([]byte{0xff, 0xff, 0xff, typeData, 0, 0, 0, 0, byte(id)})
		}), failure.Protocol, "frame too large"},
		{"broken header block", after(func(f frames, id uint32) {
			f.send(typeHeaders, endHeaders|endStream, id, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
		}), failure.Protocol, "COMPRESSION_ERROR"},
		{"no status", after(func(f frames, id uint32) {
			f.send(typeHeaders, endHeaders|endStream, id, contentLength("0")...)
		}), failure.Protocol, "status"},
		{"push", after(func(f frames, id uint32) {
			f.send(5, endHeaders, id, 0, 0, 0, 2, status200)
		}), failure.Protocol, "PROTOCOL_ERROR"},
		{"short body", after(func(f frames, id uint32) {
			f.send(typeHeaders, endHeaders, id, append([]byte{status200}, contentLength("10")...)...)
			f.send(typeData, endStream, id, 'a', 'b')
		}), failure.ShortBody, "before all of it"},
		{"no body", after(func(f frames, id uint32) {
			f.send(typeHeaders, endHeaders|endStream, id, append([]byte{status200}, contentLength("10")...)...)
		}), failure.ShortBody, "before all of it"},
		{"long body", after(func(f frames, id uint32) {
			f.send(typeHeaders, endHeaders, id, append([]byte{status200}, contentLength("1")...)...)
			f.send(typeData, endStream, id, 'a', 'b')
		}), failure.Protocol, "more than declared"},
		{"closed in the body", after(func(f frames, id uint32) {
			f.send(typeHeaders, endHeaders, id, status200)
			f.send(typeData, 0, id, 'a', 'b')
			_ = f.Close()
		}), failure.ShortBody, "before all of it"},
	}
}

func TestHostileServersOverHTTP2(t *testing.T) {
	t.Parallel()
	for _, c := range hostileHTTP2() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			t.Run("h2c", func(t *testing.T) {
				t.Parallel()
				server := startRaw(t, nil, c.serve)
				fails(t, dial(t, configFor(t, "http://"+server.address, HTTP2, nil)), c)
			})
			if c.name == "half a frame" || strings.HasPrefix(c.name, "GOAWAY and closed") {
				return // closing under TLS says goodbye first: the same, more slowly
			}
			t.Run("h2", func(t *testing.T) {
				t.Parallel()
				a := testAuthority(t)
				server := startRaw(t, a.config(HTTP2), c.serve)
				fails(t, dial(t, configFor(t, "https://"+server.address, HTTP2, a)), c)
			})
		})
	}
}

func TestResetStreamLeavesTheConnection(t *testing.T) {
	t.Parallel()
	for code, usable := range map[byte]bool{2: true, 1: false} {
		server := startRaw(t, nil, func(conn net.Conn) {
			f := begin(conn)
			f.send(typeReset, 0, f.await(typeHeaders), 0, 0, 0, code)
			if id := f.await(typeHeaders); id != 0 {
				f.send(typeHeaders, endHeaders|endStream, id, status200)
			}
			hold(conn)
		})
		conn := dial(t, configFor(t, "http://"+server.address, HTTP2, nil))
		if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{}); Kind(err) != failure.Protocol {
			t.Errorf("code %d: got %v", code, err)
		}
		if got := conn.Usable(); got != usable {
			t.Errorf("code %d: usable: got %v, want %v", code, got, usable)
		}
		err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &Answer{})
		if got := err == nil; got != usable {
			t.Errorf("code %d: the next request: got %v", code, err)
		}
	}
}

func TestNotModifiedMayNameALength(t *testing.T) {
	t.Parallel()
	server := startRaw(t, nil, after(func(f frames, id uint32) {
		f.send(typeHeaders, endHeaders|endStream, id, append([]byte{status304}, contentLength("10")...)...)
	}))
	conn := dial(t, configFor(t, "http://"+server.address, HTTP2, nil))
	var a Answer
	if err := conn.Do(long(t), &Request{Method: "GET", Target: "/"}, &a); err != nil || a.Status != http.StatusNotModified {
		t.Errorf("got %+v, %v", a, err)
	}
}

// A request is never sent twice, whatever makes net/http's pool try again: the
// server reads it whole and closes, on a connection that was used before.
func TestRequestIsNeverSentTwice(t *testing.T) {
	t.Parallel()
	a := testAuthority(t)
	var requests atomic.Int64
	http1 := func(conn net.Conn) {
		r := bufio.NewReader(conn)
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			if requests.Add(1)%2 == 0 {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}
	http2 := func(conn net.Conn) {
		f := begin(conn)
		for {
			id := f.await(typeHeaders)
			if id == 0 {
				return
			}
			if requests.Add(1)%2 == 0 {
				f.goAway(0, 0, "") // says: not processed, try again
				return
			}
			f.send(typeHeaders, endHeaders|endStream, id, status200)
		}
	}
	for _, c := range []struct {
		way   string
		base  string
		tls   *tls.Config
		serve func(net.Conn)
	}{
		{https1, "https://", a.config(HTTP1), http1},
		{https2, "https://", a.config(HTTP2), http2},
		{h2c, "http://", nil, http2},
	} {
		for _, method := range []string{"GET", "POST"} {
			server := startRaw(t, c.tls, c.serve)
			config := configFor(t, c.base+server.address, protocolOf(c.way), a)
			r := Request{Method: method, Target: "/"}
			connections := 0
			conn := kept(t, config, dial(t, config), func(conn *Conn) {
				requests.Store(0)
				connections++
				if err := conn.Do(long(t), &r, &Answer{}); err != nil {
					t.Fatalf("%s %s: %v", c.way, method, err)
				}
			})
			err := conn.Do(long(t), &r, &Answer{})
			if err == nil || Unsent(err) {
				t.Errorf("%s %s: got %v, unsent %v", c.way, method, err, Unsent(err))
			}
			if got := requests.Load(); got != 2 || server.accepted() != connections {
				t.Errorf("%s %s: %d requests on %d connections, want 2 on %d", c.way, method, got, server.accepted(), connections)
			}
		}
	}
}

// The server answers before it has the body, and never takes the rest; the
// body's memory is the caller's again.
func TestAnswerBeforeTheBody(t *testing.T) {
	t.Parallel()
	server := startRaw(t, nil, func(conn net.Conn) {
		f := begin(conn)
		for {
			id := f.await(typeHeaders)
			if id == 0 {
				return
			}
			f.send(typeHeaders, endHeaders|endStream, id, status200)
		}
	})
	conn := dial(t, configFor(t, "http://"+server.address, HTTP2, nil))
	body := make([]byte, 1<<20)
	for range 20 {
		var a Answer
		if err := conn.Do(long(t), &Request{Method: "POST", Target: "/", Body: body}, &a); err != nil {
			t.Fatal(err)
		}
		clear(body) // a race if anyone still reads it
	}
}

// A server that stops reading must not hold up requests beyond their deadlines.
func TestServerThatStopsReading(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	server := startRaw(t, nil, func(conn net.Conn) {
		begin(conn, 0, 4, 0x7f, 0xff, 0xff, 0xff) // INITIAL_WINDOW_SIZE as large as can be
		f := frames{conn}
		f.send(8, 0, 0, 0x7f, 0, 0, 0) // WINDOW_UPDATE for the connection
		<-stop
	})
	defer close(stop)
	conn := dial(t, configFor(t, "http://"+server.address, HTTP2, nil))
	body := make([]byte, 64<<20)
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			err := conn.Do(short(t), &Request{Method: "POST", Target: "/", Body: body}, &Answer{})
			if got, want := Kind(err), failure.Timeout; got != want {
				t.Errorf("got %v (%v), want %v", got, err, want)
			}
		})
	}
	wait.Wait()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

func TestKindOfOtherErrors(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]failure.Kind{
		nil:                      failure.None,
		context.Canceled:         failure.CutOff,
		context.DeadlineExceeded: failure.Timeout,
		errors.New("other"):      failure.Dial,
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}: failure.PortExhausted,
		&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}:         failure.PortExhausted,
	} {
		if got := Kind(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
}

// Frames are followed however the bytes are cut.
func FuzzFrameWatch(f *testing.F) {
	away := []byte{0, 0, 8, typeGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 11}
	f.Add(slices.Concat([]byte{0, 0, 0, typeSettings, 0, 0, 0, 0, 0}, away), 1)
	f.Add(slices.Concat([]byte{0, 0, 3, typeData, 0, 0, 0, 0, 1, 'a', 'b', 'c'}, away), 5)
	f.Add([]byte{0, 0, 2, typeGoAway, 0, 0, 0, 0, 0, 0, 0}, 3)
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), 2)
	f.Add(bytesOf(200), 7)
	f.Fuzz(func(t *testing.T, p []byte, size int) {
		whole, cut := &frameWatch{}, &frameWatch{}
		whole.read(p)
		for piece := range slices.Chunk(p, max(1, size)) {
			cut.read(piece)
		}
		if whole.goAway.Load() != cut.goAway.Load() || whole.goAwayCode.Load() != cut.goAwayCode.Load() ||
			whole.skip != cut.skip || whole.have != cut.have || whole.looksHTTP1() != cut.looksHTTP1() {
			t.Errorf("%x in pieces of %d is seen otherwise than whole", p, size)
		}
	})
}

func bytesOf(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i)
	}
	return p
}

func TestFrameWatchSeesGoAway(t *testing.T) {
	t.Parallel()
	w := &frameWatch{}
	w.read([]byte{0, 0, 3, typeData, 0, 0, 0, 0, 1, typeGoAway, typeGoAway, typeGoAway})
	if w.goAway.Load() {
		t.Error("seen in the payload of another frame")
	}
	w.read([]byte{0, 0, 9, typeGoAway, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 11, 'x'})
	if !w.goAway.Load() || w.goAwayCode.Load() != 11 {
		t.Errorf("GOAWAY seen: %v, code %d, want 11", w.goAway.Load(), w.goAwayCode.Load())
	}
}
