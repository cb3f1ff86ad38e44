package serve_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/serve"
	"loadstone/system/results/snapshot"
	"loadstone/system/results/stores"
)

// BenchmarkSnapshot compares the CPU time of a request to the whole service,
// from a snapshot of all students, with that of a bare fasthttp server: no
// timeouts, no metrics, no checks, an array of finished answers indexed by id.
// Both answer the same requests with the same bytes.
//
// The servers take turns, and the clients are another process, so cpu-ns and
// bare-cpu-ns are each one server's time for a request, system calls included,
// and x-bare is their ratio. One processor and many connections keep the server
// busy all the time, as at its capacity.
//
//	one student     the answer is in the processor's cache for both
//	all students    at random: both wait for memory, about as long as they work
func BenchmarkSnapshot(b *testing.B) {
	const all = 674_823
	source, err := results.NewGenerator(1, all)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "results.snapshot")
	if err := snapshot.Build(b.Context(), path, source, nil); err != nil {
		b.Fatal(err)
	}
	bare := startBare(b, path, all)
	s := startServe(b, path)
	for _, c := range []struct {
		name     string
		students int
	}{{"one student", 1}, {"all students", all}} {
		b.Run(c.name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			var bareTime, ourTime time.Duration
			const rounds = 4
			each := max(1, b.N/rounds)
			for range rounds {
				bareTime += offered(b, bare, each, c.students)
				ourTime += offered(b, s, each, c.students)
			}
			b.ReportMetric(0, "ns/op") // of both together: it says nothing
			b.ReportMetric(float64(bareTime)/float64(rounds*each), "bare-cpu-ns/op")
			b.ReportMetric(float64(ourTime)/float64(rounds*each), "cpu-ns/op")
			b.ReportMetric(float64(ourTime)/float64(bareTime), "x-bare")
		})
	}
}

func startServe(b *testing.B, path string) (addr string) {
	b.Helper()
	cfg := serve.DefaultConfig()
	cfg.Store, cfg.Access, cfg.Drain = stores.Snapshot+":"+path, httpapi.Open, 0
	s := run(b, cfg)
	b.Cleanup(func() { s.end(b) })
	return s.api
}

// startBare serves the students 1 to n of a snapshot.
func startBare(b *testing.B, path string, n int) (addr string) {
	b.Helper()
	store, err := snapshot.Follow(path, snapshot.DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	type answer struct{ body, tag []byte }
	answers := make([]answer, n+1)
	for id := 1; id <= n; id++ {
		page, err := store.Lookup(b.Context(), int64(id))
		if err != nil {
			b.Fatal(err)
		}
		answers[id] = answer{bytes.Clone(page.Body), fmt.Appendf(nil, "\"%016x\"", page.Tag)}
	}
	if err := store.Close(); err != nil {
		b.Fatal(err)
	}
	server := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(ctx *fasthttp.RequestCtx) {
		id, err := strconv.Atoi(string(ctx.Path()[len("/student/"):]))
		if err != nil {
			ctx.SetStatusCode(fasthttp.StatusBadRequest)
			return
		}
		ctx.SetContentType("application/json; charset=utf-8")
		ctx.Response.Header.SetBytesV("ETag", answers[id].tag)
		ctx.Response.Header.Set("Cache-Control", "public, max-age=60")
		ctx.SetBody(answers[id].body)
	}}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	b.Cleanup(func() {
		if err := errors.Join(server.Shutdown(), <-done); err != nil {
			b.Error(err)
		}
	})
	return ln.Addr().String()
}

// offered lets clients make n requests to addr and returns the CPU time that
// this process, which holds the servers, spent meanwhile.
func offered(b *testing.B, addr string, n, students int) time.Duration {
	b.Helper()
	client := exec.CommandContext(b.Context(), os.Args[0],
		"-bench-client", addr, "-bench-requests", strconv.Itoa(n), "-bench-students", strconv.Itoa(students))
	client.Stderr = os.Stderr
	before := cpuTime(b)
	if err := client.Run(); err != nil {
		b.Fatalf("client: %v", err)
	}
	return cpuTime(b) - before
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The client's process is this test binary with these flags.
var (
	benchClient   = flag.String("bench-client", "", "be the client of a benchmark: the server's address")
	benchRequests = flag.Int("bench-requests", 0, "how many requests the client makes")
	benchStudents = flag.Int("bench-students", 1, "about how many students it asks for")
)

// offer makes n requests over enough connections, each one after the other, to
// keep a server busy all the time.
func offer(addr string, n, students int) error {
	const connections = 64
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, connections)
	for range connections {
		go func() { errs <- ask(addr, &left, students) }()
	}
	var err error
	for range connections {
		err = errors.Join(err, <-errs)
	}
	return err
}

func ask(addr string, left *atomic.Int64, students int) error {
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	request, answer := make([]byte, 0, 128), make([]byte, 4096)
	for left.Add(-1) >= 0 {
		request = fmt.Appendf(request[:0], "GET /student/%d HTTP/1.1\r\nHost: results.example\r\n\r\n", 1+rand.IntN(students))
		if _, err := conn.Write(request); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		// An answer is one write of one small segment: it comes in one piece.
		n, err := conn.Read(answer)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200 OK\r\n")) || answer[n-1] != '}' {
			return fmt.Errorf("got %q, want a whole answer with status 200: %w", answer[:n], io.ErrUnexpectedEOF)
		}
	}
	return nil
}
