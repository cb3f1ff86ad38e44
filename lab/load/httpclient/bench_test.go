package httpclient

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// benchmarkServer starts net/http's server in a process of its own, so that what
// is measured is the client's CPU time alone, and returns how to reach it.
func benchmarkServer(b *testing.B, way string) Config {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVariable+"="+way)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	base, err := lines.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	u, err := url.Parse(strings.TrimSpace(base))
	if err != nil {
		b.Fatal(err)
	}
	config := Config{URL: u, Addresses: []string{u.Host}, Protocol: protocolOf(way)}
	if config.TLS, err = TLSConfig("", "", true); err != nil {
		b.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return config
}

func cpuTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// BenchmarkDo measures what a request for 400 bytes costs the client in CPU time
// (cpu-ns/op) and memory, with 64 requests under way: 64 connections over
// HTTP/1.1, one over HTTP/2.
func BenchmarkDo(b *testing.B) {
	const under = 64
	for _, way := range everyWay() {
		b.Run(way, func(b *testing.B) {
			config := benchmarkServer(b, way)
			conns := make([]*Conn, under)
			for i := range conns {
				if way != https1 && i > 0 {
					conns[i] = conns[0]
					continue
				}
				conns[i] = dial(b, config)
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuTime()
			var wait sync.WaitGroup
			for i, conn := range conns {
				n := b.N / under
				if i < b.N%under {
					n++
				}
				wait.Go(func() { doMany(b, conn, n) })
			}
			wait.Wait()
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func doMany(b *testing.B, conn *Conn, n int) {
	r := Request{
		Method: "GET", Target: "/student/123456", WantBody: true,
		Header: []Field{{"Accept", "application/json"}, {"X-Request", "1"}},
	}
	var a Answer
	for range n {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := conn.Do(ctx, &r, &a)
		cancel()
		if err != nil || len(a.Body) != 400 {
			b.Errorf("got %d bytes, %v", len(a.Body), err)
			return
		}
	}
}
