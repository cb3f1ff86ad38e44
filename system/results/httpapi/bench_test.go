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

	"loadstone/block/forwarded"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
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

// BenchmarkStudent has three modes: without a code, with one in the header, and
// with that and all limits, the embargo and X-Forwarded-For. The last less the second
// is what the checks cost: the bound is 1 microsecond.
func BenchmarkStudent(b *testing.B) {
	store := memStore{123456: {Body: benchBody(), Tag: results.Tag(benchBody()), Code: []byte("0123456789AB")}}
	proxies, err := forwarded.Parse("192.0.2.1")
	if err != nil {
		b.Fatal(err)
	}
	limits := guard.DefaultConfig()
	limits.Rate, limits.Burst = 1e6, 1e6
	for _, c := range []struct {
		name string
		cfg  httpapi.Config
	}{
		{"open", httpapi.Config{Access: httpapi.Open}},
		{"code", httpapi.Config{Access: httpapi.Code}},
		{"checked", httpapi.Config{Access: httpapi.Code, Limits: &limits, Proxies: proxies}},
	} {
		c.cfg.Store, c.cfg.Ready, c.cfg.Publication = store, always, out
		c.cfg.Logger, c.cfg.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
		api, err := httpapi.New(c.cfg)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name, func(b *testing.B) { serveConn(b, api.Handle) })
	}
}

func benchBody() []byte {
	body := make([]byte, 400)
	for i := range body {
		body[i] = 'a' + byte(i%26)
	}
	return body
}

const benchRequest = "GET /student/123456 HTTP/1.1\r\nHost: results.example\r\nX-Access-Code: 0123-4567-89ab\r\nX-Forwarded-For: 203.0.113.7\r\n\r\n"

var peer = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711}

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
func (*endless) RemoteAddr() net.Addr             { return peer }
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
