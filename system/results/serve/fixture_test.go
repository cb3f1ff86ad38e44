package serve_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/results/serve"
)

// adminToken is every service's, and authorized the header with it.
const (
	adminToken = "0123456789abcdef"
	authorized = "Authorization: Bearer " + adminToken
)

// running is a service of the test.
type running struct {
	api, admin string
	logs       *logs
	switched   chan dataset.Meta
	stop       context.CancelFunc
	done       chan error
}

type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// run starts a service and waits until it listens. The caller stops it and
// receives from done.
func run(tb testing.TB, cfg serve.Config) *running {
	tb.Helper()
	cfg.Listen, cfg.AdminListen, cfg.AdminToken = "127.0.0.1:0", "127.0.0.1:0", adminToken
	ctx, stop := context.WithCancel(context.Background())
	s := &running{logs: &logs{}, switched: make(chan dataset.Meta, 8), stop: stop, done: make(chan error, 1)}
	tb.Cleanup(stop)
	listening := make(chan struct{})
	cfg.Listening = func(api, admin net.Addr) {
		s.api, s.admin = api.String(), admin.String()
		close(listening)
	}
	go func() {
		s.done <- serve.Run(ctx, cfg, slog.New(slog.NewTextHandler(s.logs, nil)), func(_, to dataset.Meta) { s.switched <- to })
	}()
	select {
	case <-listening:
	case err := <-s.done:
		tb.Fatalf("Run: %v", err)
	}
	return s
}

func (s *running) end(tb testing.TB) {
	tb.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		tb.Errorf("Run: got %v, want nil", err)
	}
}

// answered asks until there is an answer other than 503, which is what a service says whose
// database is too slow for it, on a machine that is busy.
func answered(t *testing.T, addr, target string, headers ...string) (status int, body string) {
	t.Helper()
	until(t, func() bool {
		status, body = get(t, addr, target, headers...)
		return status != http.StatusServiceUnavailable
	})
	return status, body
}

// get asks over a connection of its own.
func get(t *testing.T, addr, target string, headers ...string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}
