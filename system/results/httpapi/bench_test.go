package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/httpserver"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
)

// The benchmarks compare this server with the least that fasthttp can do: a
// default server whose handler knows only one answer, the same bytes. The
// promise is at most 1.3 times its CPU for each request.
//
//	conn      one connection in memory, served by the benchmark's goroutine:
//	          nothing but the server, no system calls. The strictest view.
//	loopback  TCP, with all limits on, the client being another process: what
//	          a request really costs, system calls included, as cpu-ns/op.

const benchRequest = "GET /student/123456 HTTP/1.1\r\nHost: results.example\r\nUser-Agent: bench\r\n\r\n"

func BenchmarkBare(b *testing.B) {
	page := results.Page{Body: benchBody(), Tag: results.Tag(benchBody())}
	etag := fmt.Sprintf("\"%016x\"", page.Tag)
	handler := func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("application/json; charset=utf-8")
		ctx.Response.Header.Set("ETag", etag)
		ctx.Response.Header.Set("Cache-Control", "public, max-age=60")
		ctx.SetBody(page.Body)
	}
	server := &fasthttp.Server{Handler: handler, NoDefaultServerHeader: true}
	b.Run("conn", func(b *testing.B) { benchConn(b, server) })
	b.Run("loopback", func(b *testing.B) {
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- server.Serve(ln) }()
		benchLoopback(b, ln.Addr())
		if err := server.Shutdown(); err != nil {
			b.Error(err)
		}
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkStudent(b *testing.B) {
	store := memStore{123456: {Body: benchBody(), Tag: results.Tag(benchBody()), Code: []byte("0123456789AB")}}
	reg := prometheus.NewRegistry()
	api, err := httpapi.New(httpapi.Config{
		Store: store, Access: httpapi.Open, Ready: func() bool { return true },
		Logger: slog.New(slog.DiscardHandler), Registerer: reg,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("conn", func(b *testing.B) {
		benchConn(b, &fasthttp.Server{Handler: api.Handle, NoDefaultServerHeader: true})
	})
	b.Run("loopback", func(b *testing.B) {
		cfg := httpserver.DefaultConfig()
		cfg.Addr, cfg.Drain = "127.0.0.1:0", 0
		cfg.Handler, cfg.BadRequest, cfg.Registerer = api.Handle, api.BadRequest, prometheus.NewRegistry()
		server, err := httpserver.Listen(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- server.Run(ctx) }()
		benchLoopback(b, server.Addr())
		stop()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
}

func benchBody() []byte {
	body := make([]byte, 400)
	for i := range body {
		body[i] = 'a' + byte(i%26)
	}
	return body
}

// endless is a connection on which the same request arrives n times.
type endless struct {
	net.Conn
	request []byte
	n       int
	written int
}

func (e *endless) Read(b []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	e.n--
	return copy(b, e.request), nil
}

func (e *endless) Write(b []byte) (int, error)    { e.written += len(b); return len(b), nil }
func (*endless) Close() error                     { return nil }
func (*endless) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*endless) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*endless) SetDeadline(time.Time) error      { return nil }
func (*endless) SetReadDeadline(time.Time) error  { return nil }
func (*endless) SetWriteDeadline(time.Time) error { return nil }

func benchConn(b *testing.B, server *fasthttp.Server) {
	b.Helper()
	conn := &endless{request: []byte(benchRequest), n: b.N}
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

// benchLoopback offers b.N requests to addr from a process of its own and reports
// the CPU time of this one, which then holds the server alone.
func benchLoopback(b *testing.B, addr net.Addr) {
	b.Helper()
	client := exec.CommandContext(b.Context(), os.Args[0], "-bench-client", addr.String(), "-bench-requests", strconv.Itoa(b.N))
	client.Stderr = os.Stderr
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	if err := client.Run(); err != nil {
		b.Fatalf("client: %v", err)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

var (
	benchClient   = flag.String("bench-client", "", "be the client of a benchmark: the server's address")
	benchRequests = flag.Int("bench-requests", 0, "how many requests the client makes")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *benchClient == "" {
		os.Exit(m.Run())
	}
	if err := offer(*benchClient, *benchRequests); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// offer makes n requests over enough connections, each one after the other, to
// keep the server busy all the time.
func offer(addr string, n int) error {
	const connections = 64
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, connections)
	for range connections {
		go func() { errs <- converse(addr, &left) }()
	}
	var err error
	for range connections {
		err = errors.Join(err, <-errs)
	}
	return err
}

func converse(addr string, left *atomic.Int64) error {
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var answer []byte
	for left.Add(-1) >= 0 {
		if _, err := io.WriteString(conn, benchRequest); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if answer == nil {
			n, err := answerLength(conn)
			if err != nil {
				return err
			}
			answer = make([]byte, n) // all others have the same length
			continue
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
	return nil
}

// answerLength reads an answer and checks it.
func answerLength(conn net.Conn) (int, error) {
	buf := make([]byte, 4096)
	n, err := io.ReadAtLeast(conn, buf, 400)
	if err != nil {
		return 0, fmt.Errorf("read first answer: %w", err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(buf[:n])), nil)
	if err != nil {
		return 0, fmt.Errorf("parse first answer: %w", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("read first body: %w", err)
	}
	if resp.StatusCode != http.StatusOK || len(body) != 400 {
		return 0, fmt.Errorf("got status %d and %d bytes, want 200 and 400", resp.StatusCode, len(body))
	}
	return n, resp.Body.Close()
}
