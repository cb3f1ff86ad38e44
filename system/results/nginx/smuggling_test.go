package nginx_test

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/block/smuggling"
)

// Whatever comes in, what a replica gets is one request that can be read in one way.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	program(t)
	upstream := smuggling.Listen(t, address())
	b := run(t, []string{upstream.Address}, settings{})
	payloads := smuggling.Payloads("POST /", "GET /", "POST /student/1")
	smuggling.Send(t, b.http, payloads)
	b.master.Stop()
	upstream.Check(t, len(payloads), 145*3)
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
	upstream := smuggling.Listen(t, address())
	b := run(t, []string{upstream.Address}, settings{})
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
	b.master.Stop()
	upstream.Check(t, len(cases), 36)
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
