package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/lab/load"
)

// bareVariable makes the test binary a bare server that answers every request
// with the file that the variable names: see TestMain.
const bareVariable = "LOADSTONE_BENCH_BARE"

// serveBare is the least that fasthttp can do: a default server whose handler
// knows only one answer. It prints its address.
func serveBare(file string) error {
	body, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("{\"address\":%q}\n", ln.Addr())
	return fasthttp.Serve(ln, func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("application/json; charset=utf-8")
		ctx.Response.Header.Set("ETag", `"0123456789abcdef"`)
		ctx.Response.Header.Set("Cache-Control", "public, max-age=60")
		ctx.SetBody(body)
	})
}

// BenchmarkServers compares, as whole processes in the same run and taking
// turns, the CPU that one request costs the snapshot server, the SQLite server
// and a bare fasthttp server that answers with the same bytes: 64 connections
// in a closed loop, ids at random out of 674,823.
func BenchmarkServers(b *testing.B) {
	dir := b.TempDir()
	for _, args := range [][]string{
		{"results", "seed", "--store", "sqlite:results.db"},
		{"results", "publish", "--from", "sqlite:results.db", "--to", "snapshot:results.snapshot"},
	} {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	snapshot := startServer(b, dir, "snapshot:results.snapshot")
	sqlite := startServer(b, dir, "sqlite:results.db")
	bare := startBare(b, dir, snapshot.get(b, "/student/123456"))
	servers := []*benchServer{bare, snapshot, sqlite}
	for _, s := range servers {
		s.load(b, 5000) // warm
		s.cpu, s.requests = 0, 0
	}
	b.ResetTimer()
	const turn = 5000
	for n := 0; n < b.N; n += turn {
		for _, s := range servers {
			s.load(b, turn)
		}
	}
	b.StopTimer()
	for i, name := range []string{"bare", "snapshot", "sqlite"} {
		b.ReportMetric(servers[i].perRequest(), name+"-cpu-µs/req")
	}
	b.ReportMetric(snapshot.perRequest()/bare.perRequest(), "snapshot/bare")
}

// benchServer is a server process and the CPU that its requests have cost.
type benchServer struct {
	cmd      *exec.Cmd
	addr     string
	cpu      time.Duration
	requests uint64
}

func (s *benchServer) perRequest() float64 {
	return float64(s.cpu.Microseconds()) / float64(s.requests)
}

func startServer(b *testing.B, dir, store string) *benchServer {
	b.Helper()
	cmd := exec.Command(program, "results", "serve", "--store", store, "--access", "open",
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "0s")
	cmd.Dir = dir
	return startProcess(b, cmd)
}

func startBare(b *testing.B, dir string, body []byte) *benchServer {
	b.Helper()
	file := filepath.Join(dir, "body")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), bareVariable+"="+file)
	return startProcess(b, cmd)
}

// startProcess starts a server that logs JSON and waits for the line that has
// its address.
func startProcess(b *testing.B, cmd *exec.Cmd) *benchServer {
	b.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var line struct {
			Address string `json:"address"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Address != "" {
			go io.Copy(io.Discard, out)
			return &benchServer{cmd: cmd, addr: line.Address}
		}
	}
	b.Fatalf("%v ended before it said its address", cmd.Args)
	return nil
}

func (s *benchServer) get(b *testing.B, path string) []byte {
	b.Helper()
	resp, err := http.Get("http://" + s.addr + path)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("GET %s: %s, %v", path, resp.Status, err)
	}
	return body
}

// load offers about n requests and adds up what they cost.
func (s *benchServer) load(b *testing.B, n int) {
	b.Helper()
	before := s.used(b)
	r, err := load.Run(b.Context(), load.Plan{
		Targets: []string{"http://" + s.addr}, Seed: s.requests + 1, Timeout: 5 * time.Second,
		Scenarios: []load.Scenario{{
			Name: "bench", Executor: load.ConstantVUs, VUs: 64, Duration: time.Duration(n) * 40 * time.Microsecond,
			GracefulStop: 5 * time.Second, Request: load.Request{Method: "GET", Path: "/student/{id}"},
			Feed: map[string]load.Feed{"id": {Uniform: &[2]int64{1, 674_823}}},
		}},
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	if r.Failed > 0 || r.Requests == 0 {
		b.Fatalf("%d of %d requests failed: %v", r.Failed, r.Requests, r.Errors)
	}
	s.cpu += s.used(b) - before
	s.requests += r.Requests
}

// used is the CPU time of the server so far, as the scheduler counts it: the
// sum over its threads, in nanoseconds.
func (s *benchServer) used(b *testing.B) time.Duration {
	b.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	if err != nil || len(files) == 0 {
		b.Fatalf("CPU time of %v: %v", s.cmd.Args, err)
	}
	var sum time.Duration
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that has just ended
		}
		first, _, _ := strings.Cut(string(bytes.TrimSpace(text)), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}
