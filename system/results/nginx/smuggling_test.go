package nginx_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// listener is an upstream that keeps what NGINX sends to it, byte by byte.
type listener struct {
	address string
	inner   net.Listener
	serving sync.WaitGroup
	mu      sync.Mutex
	heard   []string // of each connection
}

func listen(t *testing.T) *listener {
	t.Helper()
	l := &listener{address: address()}
	var err error
	if l.inner, err = net.Listen("tcp", l.address); err != nil {
		t.Fatal(err)
	}
	l.serving.Go(func() {
		for {
			conn, err := l.inner.Accept()
			if err != nil {
				return
			}
			l.serving.Go(func() { l.serve(conn) })
		}
	})
	t.Cleanup(func() { _ = l.inner.Close(); l.serving.Wait() })
	return l
}

// serve reads one request, with whatever stands behind it, and answers.
func (l *listener) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(deadline))
	var all bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &all))
	if req, err := http.ReadRequest(r); err == nil {
		_, _ = io.Copy(io.Discard, req.Body)
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	_ = conn.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, all.String())
}

// check complains of what replicas got, once NGINX has ended. Too little would show nothing.
func (l *listener) check(t *testing.T, b *balancer, payloads, least int) {
	t.Helper()
	b.master.Stop()
	_ = l.inner.Close()
	l.serving.Wait()
	for _, heard := range l.heard {
		if what := ambiguous(heard); what != "" {
			t.Errorf("a replica got %q: %s", heard, what)
		}
	}
	t.Logf("%d payloads, of which %d requests reached a replica", payloads, len(l.heard))
	if payloads < least || len(l.heard) == 0 {
		t.Errorf("%d payloads and %d requests: too few to show anything", payloads, len(l.heard))
	}
}

var (
	requestLine = regexp.MustCompile(`^(GET|HEAD|POST) /[!-~\x80-\xff]* HTTP/1\.1$`)
	headerLine  = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\\r\\n\\x00]*$")
)

// ambiguous says what another reader could take for something else in the bytes of a connection
// that should hold one request; "" for nothing.
func ambiguous(heard string) string {
	head, body, whole := strings.Cut(heard, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	if !whole || !requestLine.MatchString(lines[0]) {
		return "its first line is " + strconv.Quote(lines[0])
	}
	lengths := 0
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		switch strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "_", "-") {
		case "transfer-encoding":
			return "it has " + strconv.Quote(line)
		case "content-length":
			lengths++
			if value != strconv.Itoa(len(body)) {
				return fmt.Sprintf("it has %q and a body of %d bytes", line, len(body))
			}
		}
		if !headerLine.MatchString(line) {
			return "it has the header " + strconv.Quote(line)
		}
	}
	if lengths > 1 || lengths == 0 && body != "" {
		return fmt.Sprintf("it has %d lengths and a body of %d bytes", lengths, len(body))
	}
	return ""
}

// encodings are ways to write "chunked" that one server may take for it and another not.
func encodings() []string {
	all := []string{
		"Transfer-Encoding: chunked, chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
		"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding:\r\n\tchunked",
		"Transfer-Encoding\r\n: chunked", "X: x\nTransfer-Encoding: chunked", "X: x\rTransfer-Encoding: chunked", "X: x\r\rTransfer-Encoding: chunked",
		"Transfer-Encoding: chunked\r\nConnection: Transfer-Encoding", "Transfer-Encoding: chunked\r\nConnection: close, Content-Length",
		"Foo: bar\r\n Transfer-Encoding: chunked", "Trailer: Content-Length\r\nTE: trailers\r\nTransfer-Encoding: chunked",
	}
	for _, name := range []string{
		"Transfer-Encoding", "transfer-encoding", "TRANSFER-ENCODING", "Transfer-Encoding ", " Transfer-Encoding", "\tTransfer-Encoding", "Transfer-Encoding\t",
		"Transfer_Encoding", "Transfer Encoding", "Transfer-Encoding\x00", "\x00Transfer-Encoding", "Transfer-\x0bEncoding", "Transfer-Encoding\xa0", "Transfer-Encodıng",
		"\"Transfer-Encoding\"", "X-Transfer-Encoding", "Transfer--Encoding", "Transfer-Encoding;", "Transfer-Encoding\r", "\x7fTransfer-Encoding",
	} {
		for _, value := range []string{"chunked", "Chunked", "xchunked", "chunked;x=1", "identity, chunked", "\x0bchunked"} {
			all = append(all, name+": "+value)
		}
	}
	return append(all,
		"Transfer-Encoding:chunked", "Transfer-Encoding: \tchunked\t", "Transfer-Encoding: chunked\x00", "Transfer-Encoding: chun\x00ked", "Transfer-Encoding: \"chunked\"",
		"Transfer-Encoding: gzip", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding:", "Transfer-Encoding: ,chunked", "Transfer-Encoding: 'chunked'", "Transfer-Encoding: chunked\xa0",
	)
}

// lengths are ways to write a length that two servers may read differently. %d is the true one.
var lengths = []string{
	"Content-Length: %d", "Content-Length: 0\r\nContent-Length: %d", "Content-Length: %d\r\nContent-Length: 0", "Content-Length: %[1]d\r\nContent-Length: %[1]d",
	"Content-Length: %[1]d, %[1]d", "Content-Length: 0, %d", "Content-Length: +%d", "Content-Length: -%d", "Content-Length: 0x%x", "Content-Length: 0%d", "Content-Length: %d.0",
	"Content-Length: %de0", "Content-Length : %d", "Content-Length\t: %d", " Content-Length: %d", "Content_Length: %d", "Content-Length:\r\n %d", "Content-Length: %d\x00", "Content-Length: %d\xa0",
	"Content-Length: \"%d\"", "Content-Length: 18446744073709551616%d", "Content-Length: 0\nX: %d", "X: %d\nContent-Length: 0", "Content-Length: ", "Content-Length: %d 0",
}

// Whatever comes in, what a replica gets is one request that can be read in one way.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	program(t)
	upstream := listen(t)
	b := run(t, []string{upstream.address}, settings{})
	const body = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	length := fmt.Sprintf("Content-Length: %d", len(body))
	var payloads []string
	for _, encoding := range encodings() {
		for _, headers := range []string{encoding + "\r\n" + length, length + "\r\n" + encoding} {
			payloads = append(payloads, "POST / HTTP/1.1\r\nHost: x\r\n"+headers+"\r\n\r\n"+body)
		}
		payloads = append(payloads, "POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n"+encoding+"\r\n"+length+"\r\n\r\n"+body)
	}
	for _, l := range lengths {
		text := l
		if strings.Contains(l, "%") {
			text = fmt.Sprintf(l, len(body))
		}
		for _, method := range []string{"POST / HTTP/1.1", "GET / HTTP/1.1", "POST /student/1 HTTP/1.1"} {
			payloads = append(payloads, method+"\r\nHost: x\r\n"+text+"\r\n\r\n"+body)
		}
	}
	var sending sync.WaitGroup
	places := make(chan struct{}, 16)
	for _, payload := range payloads {
		places <- struct{}{}
		sending.Go(func() {
			_, _ = raw(t, b.http, payload)
			<-places
		})
	}
	sending.Wait()
	upstream.check(t, b, len(payloads), 145*3)
}

// frame is one of HTTP/2, on stream 1 or, for settings, on 0.
func frame(kind, flags byte, payload string) string {
	head := make([]byte, 9)
	binary.BigEndian.PutUint32(head, uint32(len(payload))<<8|uint32(kind))
	head[4] = flags
	if kind != 4 {
		head[8] = 1
	}
	return string(head) + payload
}

// literal is a header field as it is, in HPACK.
func literal(name, value string) string {
	return "\x00" + string(rune(len(name))) + name + string(rune(len(value))) + value
}

// TestSmugglingOverHTTP2 is the same for what HTTP/2 can carry and HTTP/1 cannot.
func TestSmugglingOverHTTP2(t *testing.T) {
	t.Parallel()
	program(t)
	upstream := listen(t)
	b := run(t, []string{upstream.address}, settings{})
	usual := [][2]string{{":method", "POST"}, {":path", "/"}, {":scheme", "https"}, {":authority", "x"}}
	const evil = "x\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
	cases := [][][2]string{usual}
	for _, extra := range [][2]string{
		{"transfer-encoding", "chunked"}, {"transfer-encoding", "xchunked"}, {"Transfer-Encoding", "chunked"}, {"transfer-encoding ", "chunked"}, {"transfer-encoding: chunked\r\nx", "1"},
		{"content-length", "0"}, {"content-length", "3"}, {"content-length", "1000"}, {"content-length", "-1"}, {"content-length", "+42"}, {"content-length", "42, 42"}, {"content-length", "42\r\ntransfer-encoding: chunked"},
		{"x", evil}, {"x", "a\nb: c"}, {"x", "a\rb: c"}, {"x", "a\x00b"}, {"x\r\ny", "1"}, {"x y", "1"}, {"x:y", "1"}, {"X", "1"}, {"", "1"}, {evil, "1"},
		{"connection", "keep-alive, transfer-encoding"}, {"te", "trailers, chunked"}, {"upgrade", "h2c"}, {"host", "y"}, {"host", evil}, {":path", "/smuggled"}, {":unknown", "1"}, {"proxy-connection", "keep-alive"},
	} {
		cases = append(cases, append(slices.Clip(usual), extra))
	}
	for i, value := range map[int]string{0: "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\nPOST", 1: "/ HTTP/1.1\r\nHost: x\r\n\r\nGET /smuggled", 2: "https\r\nx: y", 3: evil} {
		changed := append([][2]string{}, usual...)
		changed[i][1] = value
		cases = append(cases, changed)
	}
	cases = append(cases, [][2]string{{":method", "GET /smuggled HTTP/1.1"}, {":path", "/"}, {":scheme", "https"}, {":authority", "x"}},
		[][2]string{{":method", "POST"}, {":path", "/ HTTP/1.1\tx"}, {":scheme", "https"}, {":authority", "x"}})
	for _, headers := range cases {
		conn, err := tls.Dial("tcp", b.https, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(deadline))
		var block strings.Builder
		for _, h := range headers {
			block.WriteString(literal(h[0], h[1]))
		}
		_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(4, 0, "")+frame(1, 4, block.String())+
			frame(0, 1, "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"))
		if err := answered(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: not answered in %v", headers, deadline)
		}
		_ = conn.Close()
	}
	upstream.check(t, b, len(cases), 36)
}

// answered reads frames until the stream or the connection has ended.
func answered(r io.Reader) error {
	const data, headers, reset, goAway, endStream = 0, 1, 3, 7, 1
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, r, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
			return err
		}
		kind, ended := head[3], head[4]&endStream != 0
		if kind == reset || kind == goAway || ended && (kind == data || kind == headers) {
			return nil
		}
	}
}

// The judge itself must be able to fail.
func TestAmbiguous(t *testing.T) {
	t.Parallel()
	const start = "POST / HTTP/1.1\r\nHost: x\r\n"
	for heard, want := range map[string]bool{
		start + "\r\n": false, start + "Content-Length: 2\r\n\r\nab": false,
		start + "Content-Length: 2\r\n\r\nabc": true, start + "\r\nabc": true, start + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n": true,
		start + "Transfer_Encoding : x\r\n\r\n": true, start + "X: a\nb: c\r\n\r\n": true, start + "X : a\r\n\r\n": true, "BREW / HTTP/1.1\r\n\r\n": true, start: true,
		start + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab": true,
	} {
		if got := ambiguous(heard); (got != "") != want {
			t.Errorf("%q: got %q, want a complaint: %t", heard, got, want)
		}
	}
}
