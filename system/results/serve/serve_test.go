package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/serve"
	"loadstone/system/results/snapshot"
	"loadstone/system/results/sqlitestore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's own, see block/httpserver.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}

const students = 500

// service is a running one.
type service struct {
	api, admin string
	logs       *logs
	switched   chan results.Meta
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
func run(t *testing.T, cfg serve.Config) *service {
	t.Helper()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	ctx, stop := context.WithCancel(context.Background())
	s := &service{logs: &logs{}, switched: make(chan results.Meta, 8), stop: stop, done: make(chan error, 1)}
	t.Cleanup(stop)
	listening := make(chan struct{})
	go func() {
		s.done <- serve.Run(ctx, cfg, slog.New(slog.NewTextHandler(s.logs, nil)), serve.Events{
			Listening: func(api, admin net.Addr) {
				s.api, s.admin = api.String(), admin.String()
				close(listening)
			},
			Switched: func(_, to results.Meta) { s.switched <- to },
		})
	}()
	select {
	case <-listening:
	case err := <-s.done:
		t.Fatalf("Run: %v", err)
	}
	return s
}

func (s *service) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
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

// stores are both kinds, filled with the same students.
func stores(t *testing.T, source results.Source) []string {
	t.Helper()
	dir := t.TempDir()
	db, snap := filepath.Join(dir, "results.db"), filepath.Join(dir, "results.snapshot")
	if err := sqlitestore.Build(t.Context(), db, source, nil); err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Build(t.Context(), snap, source, nil); err != nil {
		t.Fatal(err)
	}
	return []string{serve.StoreSQLite + ":" + db, serve.StoreSnapshot + ":" + snap}
}

// Every combination serves the same.
func TestServes(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, students)
	student := source.Student(77)
	want := string(results.NewPage(&student).Body)
	for _, store := range stores(t, source) {
		for _, cache := range []string{serve.CacheNone, serve.CacheMemory} {
			for _, access := range []httpapi.Access{httpapi.Code, httpapi.Open} {
				kind, _, _ := strings.Cut(store, ":")
				t.Run(fmt.Sprintf("%s, cache %s, access %s", kind, cache, access), func(t *testing.T) {
					t.Parallel()
					cfg := serve.DefaultConfig()
					cfg.Store, cfg.Cache, cfg.Access, cfg.Drain = store, cache, access, 0
					s := run(t, cfg)
					defer s.end(t)
					for range 2 { // the second from the cache, if there is one
						if status, body := get(t, s.api, "/student/77", "X-Access-Code: "+student.Code); status != 200 || body != want {
							t.Errorf("got status %d and %q, want 200 and %q", status, body, want)
						}
						if status, _ := get(t, s.api, fmt.Sprintf("/student/%d", students+1)); status != 404 {
							t.Errorf("unknown id: got status %d, want 404", status)
						}
					}
					if status, _ := get(t, s.api, "/student/77"); (status == 200) != (access == httpapi.Open) {
						t.Errorf("without a code: got status %d with access %s", status, access)
					}
					if err := serve.Health(t.Context(), "http://"+s.api+"/readyz"); err != nil {
						t.Errorf("Health: got %v, want nil", err)
					}
					_, metrics := get(t, s.admin, "/metrics")
					wanted := []string{`http_requests_total{status="200"}`, "http_connections_open", "process_cpu_seconds_total", "go_goroutines"}
					if cache == serve.CacheMemory {
						wanted = append(wanted, `cache_hits_total{cache="results"} 2`)
					}
					for _, name := range wanted {
						if !strings.Contains(metrics, name) {
							t.Errorf("/metrics has no %s", name)
						}
					}
				})
			}
		}
	}
}

// client asks for random students over one connection at a time until a new
// connection is refused, and checks each answer with ok.
func client(addr string, ok func(id int64, body []byte) error) error {
	for {
		conn, err := net.Dial("tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		err = converse(conn, ok)
		_ = conn.Close()
		if err != nil {
			return err
		}
	}
}

func converse(conn net.Conn, ok func(id int64, body []byte) error) error {
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return fmt.Errorf("deadline: %w", err)
	}
	br := bufio.NewReader(conn)
	for {
		id := 1 + rand.Int64N(students)
		if _, err := fmt.Fprintf(conn, "GET /student/%d HTTP/1.1\r\nHost: x\r\n\r\n", id); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return fmt.Errorf("read body: %w", err)
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("id %d: status %d: %s", id, resp.StatusCode, body)
		}
		if err := ok(id, body); err != nil {
			return err
		}
		if resp.Close {
			return nil
		}
	}
}

// New snapshots are published under load, then the service is stopped under
// load. Every request is answered, each answer is whole and of one snapshot, and
// none is of an old one after the switch, although the cache keeps pages longer
// than the test lasts.
func TestSwitchesAndStopsUnderLoad(t *testing.T) {
	t.Parallel()
	for _, cache := range []string{serve.CacheNone, serve.CacheMemory} {
		t.Run("cache "+cache, func(t *testing.T) {
			t.Parallel()
			const generations = 3
			sources := make([]*results.Generator, 0, generations)
			for seed := range uint64(generations) {
				sources = append(sources, resultstest.Generator(t, 100+seed, students))
			}
			path := filepath.Join(t.TempDir(), "results.snapshot")
			if err := snapshot.Build(t.Context(), path, sources[0], nil); err != nil {
				t.Fatal(err)
			}
			cfg := serve.DefaultConfig()
			cfg.Store, cfg.Cache, cfg.Access = serve.StoreSnapshot+":"+path, cache, httpapi.Open
			cfg.CacheMaxAge, cfg.Drain = time.Hour, 200*time.Millisecond
			s := run(t, cfg)

			expected := bodies(sources)
			var oldest, answered atomic.Int64 // the oldest generation that may still be served
			ok := func(id int64, body []byte) error {
				from := oldest.Load() // of when the request was sent, or older
				answered.Add(1)
				for g := generations - 1; g >= int(from); g-- {
					if string(body) == expected[g][id] {
						return nil
					}
				}
				return fmt.Errorf("id %d: got %q, of no generation from %d on", id, body, from)
			}
			var clients sync.WaitGroup
			failures := make(chan error, 8)
			for range cap(failures) {
				clients.Go(func() {
					if err := client(s.api, ok); err != nil {
						failures <- err
					}
				})
			}
			load := func(n int64) {
				t.Helper()
				until := answered.Load() + n
				for deadline := time.Now().Add(30 * time.Second); answered.Load() < until; time.Sleep(time.Millisecond) {
					if len(failures) > 0 || time.Now().After(deadline) {
						t.Fatalf("got %d answers and %d failures, want %d answers", answered.Load(), len(failures), until)
					}
				}
			}
			load(500)
			for g := 1; g < generations; g++ {
				if err := snapshot.Build(t.Context(), path, sources[g], nil); err != nil {
					t.Fatal(err)
				}
				if to := <-s.switched; to != sources[g].Meta() {
					t.Errorf("switched to %+v, want %+v", to, sources[g].Meta())
				}
				load(100) // answers that were under way at the switch
				oldest.Store(int64(g))
				load(500)
			}
			s.end(t)
			clients.Wait()
			close(failures)
			for err := range failures {
				t.Errorf("client: %v", err)
			}
			if got := s.logs.String(); strings.Count(got, "new snapshot served") != generations-1 || strings.Contains(got, "level=ERROR") {
				t.Errorf("got log:\n%s\nwant %d switches and no error", got, generations-1)
			}
		})
	}
}

// bodies are the expected answers of each source by id.
func bodies(sources []*results.Generator) []map[int64]string {
	all := make([]map[int64]string, 0, len(sources))
	for _, source := range sources {
		of := map[int64]string{}
		for id := int64(1); id <= students; id++ {
			student := source.Student(id)
			of[id] = string(results.NewPage(&student).Body)
		}
		all = append(all, of)
	}
	return all
}

func TestReadinessWhileDraining(t *testing.T) {
	t.Parallel()
	cfg := serve.DefaultConfig()
	cfg.Store, cfg.Drain = stores(t, resultstest.Generator(t, 3, students))[0], 500*time.Millisecond
	s := run(t, cfg)
	if status, _ := get(t, s.api, "/readyz"); status != 200 {
		t.Errorf("before the stop: got status %d, want 200", status)
	}
	s.stop()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		status, body := get(t, s.api, "/readyz")
		if status == 503 && strings.Contains(body, "draining") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("while draining: got status %d and %q, want 503 and draining", status, body)
		}
	}
	err := serve.Health(t.Context(), "http://"+s.api+"/readyz")
	if err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("Health while draining: got %v, want an error with status 503", err)
	}
	if err := <-s.done; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	if err := serve.Health(t.Context(), "http://"+s.api+"/readyz"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Health after the stop: got %v, want connection refused", err)
	}
}

func TestRunFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	good := stores(t, resultstest.Generator(t, 3, students))[1]
	for name, c := range map[string]struct {
		change func(*serve.Config)
		want   error
		text   string
	}{
		"no such snapshot": {func(c *serve.Config) { c.Store = "snapshot:" + t.TempDir() + "/none" }, results.ErrMissing, "none"},
		"no such database": {func(c *serve.Config) { c.Store = "sqlite:" + t.TempDir() + "/none" }, results.ErrMissing, "none"},
		"address taken":    {func(c *serve.Config) { c.Listen = taken.Addr().String() }, syscall.EADDRINUSE, "listen"},
		"admin taken":      {func(c *serve.Config) { c.AdminListen = taken.Addr().String() }, syscall.EADDRINUSE, "admin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := serve.DefaultConfig()
			cfg.Store, cfg.Cache, cfg.Listen, cfg.AdminListen = good, serve.CacheMemory, "127.0.0.1:0", "127.0.0.1:0"
			c.change(&cfg)
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second) // if it runs after all
			defer stop()
			err := serve.Run(ctx, cfg, slog.New(slog.DiscardHandler), serve.Events{})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v and %q", err, c.want, c.text)
			}
		})
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	t.Parallel()
	if err := serve.DefaultConfig().Validate(); err != nil {
		t.Errorf("defaults: got %v, want nil", err)
	}
	cfg := serve.Config{
		Listen: "8080", AdminListen: "x", Store: "redis:x", Cache: "disk",
		CacheBytes: 5, CacheMaxAge: -1, Access: "all", Drain: -2, StopTimeout: 0,
	}
	err := cfg.Validate()
	for _, want := range []string{
		`listen address is "8080"`, `admin address is "x"`, `store is "redis:x", must be sqlite:PATH or snapshot:PATH`,
		`cache is "disk"`, "cache bytes is 5", "cache max age is -1ns", `access is "all"`, "drain time is -2ns", "stop timeout is 0s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
	if got := serve.Run(t.Context(), cfg, slog.New(slog.DiscardHandler), serve.Events{}); got == nil || got.Error() != err.Error() {
		t.Errorf("Run: got %v, want the same problems", got)
	}
}

func TestParseStore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"sqlite:a.db":    {"sqlite", "a.db"},
		"snapshot:/a:b":  {"snapshot", "/a:b"},
		"sqlite:":        {},
		"sqlite":         {},
		"":               {},
		"SQLITE:a":       {},
		"postgres://x/y": {},
	} {
		kind, path, err := serve.ParseStore(text)
		if kind != want[0] || path != want[1] || (err == nil) != (want[0] != "") {
			t.Errorf("%q: got %q, %q and %v, want %q", text, kind, path, err, want)
		}
	}
}

func TestHealthOfNothing(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:8080/readyz", "ftp://127.0.0.1/", "http://", "::"} {
		if err := serve.Health(t.Context(), address); err == nil || !strings.Contains(err.Error(), "must be like") {
			t.Errorf("%q: got %v, want an error that says what an address is like", address, err)
		}
	}
}
