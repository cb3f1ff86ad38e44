package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/httpserver"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
)

// idleChild makes the test binary the server of TestIdleConnections: it needs
// the file descriptors of a process of its own.
const idleChild = "HTTPAPI_IDLE_CHILD"

// Ten thousand clients that connect and send nothing, or half a request, neither
// keep a student out nor take more memory than their buffers.
func TestIdleConnections(t *testing.T) {
	if os.Getenv(idleChild) != "" {
		serveIdle(t)
		return
	}
	// All but a few of what the server accepts. The race detector allows 8128
	// goroutines.
	idle := httpserver.DefaultConfig().MaxConns - 100
	if raceEnabled {
		idle = 4000
	}
	addr, pid := startIdleChild(t)
	before := residentKiB(t, pid)
	for i := range idle {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i+1, err)
		}
		defer func() { _ = conn.Close() }()
		if i%2 == 0 {
			_, _ = io.WriteString(conn, "GET /student/123456 HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		}
	}
	f := fixture{addr: addr}
	for range 20 {
		if got := parse(t, "GET", f.ask(t, "GET", "/student/123456", rightCode)); got.status != 200 {
			t.Errorf("with %d idle connections: got status %d, want 200", idle, got.status)
		}
	}
	// 25 KiB each: two buffers, a stack and what fasthttp keeps for a request.
	// The race detector multiplies that.
	grown := residentKiB(t, pid) - before
	t.Logf("%d idle connections took %d MiB", idle, grown>>10)
	if most := 25 * idle; grown > most && !raceEnabled {
		t.Errorf("%d idle connections took %d KiB, want at most %d", idle, grown, most)
	}
}

func startIdleChild(t *testing.T) (addr string, pid int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(program, "-test.run=^TestIdleConnections$")
	child.Env = append(child.Environ(), idleChild+"=1")
	in, inErr := child.StdinPipe()
	out, outErr := child.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // the child ends with its input
		_ = child.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), child.Process.Pid
}

// serveIdle serves until its input ends.
func serveIdle(t *testing.T) {
	t.Helper()
	limits := guard.DefaultConfig()
	api, err := httpapi.New(httpapi.Config{
		Store: students, Access: httpapi.Code, Ready: always, Publication: out, Limits: &limits,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := httpserver.DefaultConfig()
	cfg.Addr, cfg.Drain, cfg.StopTimeout, cfg.ReadTimeout = "127.0.0.1:0", 0, time.Second, time.Minute
	cfg.Handler, cfg.BadRequest, cfg.Registerer = api.Handle, api.BadRequest, prometheus.NewRegistry()
	server, err := httpserver.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(server.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_ = server.Run(t.Context())
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("memory is read from /proc: %v", err)
	}
	kib, err := strconv.Atoi(string(resident.FindSubmatch(status)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
