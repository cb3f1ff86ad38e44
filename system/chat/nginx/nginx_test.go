package nginx_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/servertest"
)

// deadline bounds every wait.
const deadline = 60 * time.Second

var listens = regexp.MustCompile(`listen \d+`)

// start starts NGINX in front of servers, and returns its address.
func start(t *testing.T, servers ...string) string {
	t.Helper()
	host, dir := servertest.Host(), t.TempDir()
	address := host + ":8097"
	for from, to := range map[string][2]string{"nginx.conf": {"nginx.conf", host + ":8081"}, "templates/chat.conf.template": {"conf.d/chat.conf", address}} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		rendered := servertest.NGINXServers(string(text), "chat:8097", servers...)
		rendered = strings.Replace(rendered, "accounts:8097", servers[0], 1)
		rendered = servertest.NGINXHere(dir).Replace(listens.ReplaceAllString(rendered, "listen "+to[1]))
		path := filepath.Join(dir, "etc", to[0])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(rendered), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	servertest.NGINX(t, dir)
	return address
}

// server answers all requests with 503 while it turns, and keeps what it has else.
type server struct {
	address string
	turns   atomic.Bool
	viewers atomic.Int64
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	end := make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: deadline, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.turns.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.viewers.Add(1)
		if r.URL.Path == "/ws" {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
		} else {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		<-end
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	t.Cleanup(func() {
		close(end)
		_ = server.Close()
		<-served
	})
	return s
}

// open asks for what stays open, and returns the status.
func open(t *testing.T, address, path string) int {
	t.Helper()
	dialer := net.Dialer{Timeout: deadline}
	conn, err := dialer.DialContext(context.WithoutCancel(t.Context()), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(deadline))
	head := "GET " + path + " HTTP/1.1\r\nHost: chat\r\n"
	if path == "/ws" {
		head += "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	}
	if _, err := fmt.Fprint(conn, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // it stays open until the connection is closed
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode
}

// All servers have turned viewers away, as they do when Redis has another primary. As soon as they let them in, all come in.
func TestAllComeBackAtOnce(t *testing.T) {
	t.Parallel()
	for path, in := range map[string]int{"/ws": http.StatusSwitchingProtocols, "/api/viewers": http.StatusOK} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			a, b := startServer(t), startServer(t)
			address := start(t, a.address, b.address)
			a.turns.Store(true)
			b.turns.Store(true)
			for range 10 {
				if status := open(t, address, path); status < http.StatusInternalServerError {
					t.Fatalf("got %d while no server lets anybody in", status)
				}
			}
			a.turns.Store(false)
			b.turns.Store(false)
			const viewers = 20
			for i := range viewers {
				if status := open(t, address, path); status != in {
					t.Fatalf("viewer %d got %d after servers let them in again, want %d", i+1, status, in)
				}
			}
			if a.viewers.Load()+b.viewers.Load() != viewers || a.viewers.Load() == 0 || b.viewers.Load() == 0 {
				t.Errorf("one server has %d viewers and the other %d, want %d together, at both", a.viewers.Load(), b.viewers.Load(), viewers)
			}
		})
	}
}

// Nobody notices servers that are away: who is sent to one is sent on.
func TestServersThatAreAway(t *testing.T) {
	t.Parallel()
	there := startServer(t)
	address := start(t, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", there.address)
	const viewers = 20
	for i := range viewers {
		if status := open(t, address, "/ws"); status != http.StatusSwitchingProtocols {
			t.Fatalf("viewer %d got %d", i+1, status)
		}
	}
	if n := there.viewers.Load(); n != viewers {
		t.Errorf("%d viewers came in, want %d", n, viewers)
	}
}
