package httpapi_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/results"
	"loadstone/system/results/httpapi"
)

// The benchmarks compare this handler with the least that fasthttp can do: one
// that knows a single answer, the same bytes. One connection in memory is served
// by the benchmark's own goroutine, so there is nothing but the handler and
// fasthttp's own work: no system calls, no timeouts. What a request costs with
// those, in the whole service, is measured in package serve.

func BenchmarkBare(b *testing.B) {
	page := results.Page{Body: benchBody(), Tag: results.Tag(benchBody())}
	etag := fmt.Sprintf("\"%016x\"", page.Tag)
	serveConn(b, func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("application/json; charset=utf-8")
		ctx.Response.Header.Set("ETag", etag)
		ctx.Response.Header.Set("Cache-Control", "public, max-age=60")
		ctx.SetBody(page.Body)
	})
}

// BenchmarkStudent has two modes: without a code, and with one in the header.
func BenchmarkStudent(b *testing.B) {
	store := memStore{123456: {Body: benchBody(), Tag: results.Tag(benchBody()), Code: []byte("0123456789AB")}}
	for _, access := range []httpapi.Access{httpapi.Open, httpapi.Code} {
		api, err := httpapi.New(httpapi.Config{
			Store: store, Access: access, Ready: always,
			Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(string(access), func(b *testing.B) { serveConn(b, api.Handle) })
	}
}

func benchBody() []byte {
	body := make([]byte, 400)
	for i := range body {
		body[i] = 'a' + byte(i%26)
	}
	return body
}

const benchRequest = "GET /student/123456 HTTP/1.1\r\nHost: results.example\r\nX-Access-Code: 0123-4567-89ab\r\n\r\n"

// endless is a connection on which the same request arrives n times.
type endless struct {
	net.Conn
	n       int
	written int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	e.n--
	return copy(b, benchRequest), nil
}

func (e *endless) Write(b []byte) (int, error) {
	e.written += len(b)
	return len(b), nil
}

func (*endless) Close() error                     { return nil }
func (*endless) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*endless) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*endless) SetDeadline(time.Time) error      { return nil }
func (*endless) SetReadDeadline(time.Time) error  { return nil }
func (*endless) SetWriteDeadline(time.Time) error { return nil }

func serveConn(b *testing.B, handler fasthttp.RequestHandler) {
	b.Helper()
	server := &fasthttp.Server{Handler: handler, NoDefaultServerHeader: true}
	conn := &endless{n: b.N}
	b.ReportAllocs()
	b.ResetTimer()
	if err := server.ServeConn(conn); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if conn.written < 400*b.N {
		b.Fatalf("got %d bytes for %d requests, want at least 400 each", conn.written, b.N)
	}
}
