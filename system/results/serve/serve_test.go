package serve_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/block/forwarded"
	"loadstone/block/service"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/serve"
	"loadstone/system/results/snapshot"
	"loadstone/system/results/sqlitestore"
	"loadstone/system/results/stores"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *benchClient != "" {
		if err := offer(*benchClient, *benchRequests, *benchStudents); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m,
		// fasthttp's own, see block/httpserver.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
	)
}

const students = 500

// filled are stores of both kinds, with the same students.
func filled(t *testing.T, source dataset.Source[results.Student]) []string {
	t.Helper()
	dir := t.TempDir()
	db, snap := filepath.Join(dir, "results.db"), filepath.Join(dir, "results.snapshot")
	if err := sqlitestore.Build(t.Context(), db, source, nil); err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Build(t.Context(), snap, source, nil); err != nil {
		t.Fatal(err)
	}
	return []string{stores.SQLite + ":" + db, stores.Snapshot + ":" + snap}
}

// Every combination serves the same.
func TestServes(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, students)
	student := source.Student(77)
	want := string(results.NewPage(&student).Body)
	for _, store := range filled(t, source) {
		for _, cache := range []string{pagecache.None, pagecache.Memory} {
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
						if status, _ := get(t, s.api, fmt.Sprintf("/student/%d?code=x", students+1)); status != 404 {
							t.Errorf("unknown id: got status %d, want 404", status)
						}
					}
					if status, _ := get(t, s.api, "/student/77"); (status == 200) != (access == httpapi.Open) {
						t.Errorf("without a code: got status %d with access %s", status, access)
					}
					until(t, func() bool { return service.Health(t.Context(), "http://"+s.api+"/readyz") == nil })
					_, metrics := get(t, s.admin, "/metrics")
					wanted := []string{`http_requests_total{status="200"}`, "http_connections_open", "process_cpu_seconds_total", "go_goroutines"}
					if hits := 2; cache == pagecache.Memory {
						if access == httpapi.Open {
							hits = 3 // who has no code is told so without a look-up
						}
						wanted = append(wanted, fmt.Sprintf(`cache_gets_total{cache="results",result="hit",tier="memory"} %d`, hits))
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

func TestReadinessWhileDraining(t *testing.T) {
	t.Parallel()
	cfg := serve.DefaultConfig()
	cfg.Store, cfg.Drain = filled(t, resultstest.Generator(t, 3, students))[0], 20*time.Second // to look at it, on a busy machine
	s := run(t, cfg)
	if status, _ := get(t, s.api, "/readyz"); status != 200 {
		t.Errorf("before the stop: got status %d, want 200", status)
	}
	s.stop()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		status, body := get(t, s.api, "/readyz")
		if status == 503 && strings.Contains(body, "draining") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("while draining: got status %d and %q, want 503 and draining", status, body)
		}
	}
	err := service.Health(t.Context(), "http://"+s.api+"/readyz")
	if err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("Health while draining: got %v, want an error with status 503", err)
	}
	if err := <-s.done; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
	if err := service.Health(t.Context(), "http://"+s.api+"/readyz"); !errors.Is(err, syscall.ECONNREFUSED) {
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
	good := filled(t, resultstest.Generator(t, 3, students))[1]
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
			cfg.Store, cfg.Cache, cfg.Listen, cfg.AdminListen = good, pagecache.Memory, "127.0.0.1:0", "127.0.0.1:0"
			c.change(&cfg)
			ctx, stop := context.WithTimeout(t.Context(), 20*time.Second) // if it runs after all
			defer stop()
			err := serve.Run(ctx, cfg, slog.New(slog.DiscardHandler), nil)
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
		Config: service.Config{Listen: "8080", AdminListen: "x", Drain: -2, StopTimeout: 0},
		Tiers:  pagecache.Tiers{Cache: "disk", CacheBytes: 5, CacheMaxAge: -1},
		Store:  "redis:x", Access: "all", SecureCookie: "maybe",
	}
	err := cfg.Validate()
	for _, want := range []string{
		`listen address is "8080"`, `admin address is "x"`, `store is "redis:x", must be sqlite:PATH, snapshot:PATH or postgres://`,
		`cache is "disk", must be one of none, memory, redis, memory+redis`, "cache bytes is 5", "cache max age is -1ns",
		`secure cookie is "maybe"`, `access is "all"`, "drain time is -2ns", "stop timeout is 0s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
	redis := serve.DefaultConfig()
	redis.Cache, redis.Redis = pagecache.Redis, "redis://u:secret@h:port"
	if err := redis.Validate(); err == nil || !strings.Contains(err.Error(), "redis://[USER") || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v, want it to say how a Redis is written, without the password", err)
	}
	if got := serve.Run(t.Context(), cfg, slog.New(slog.DiscardHandler), nil); got == nil || got.Error() != err.Error() {
		t.Errorf("Run: got %v, want the same problems", got)
	}
}

// Whoever reads the log on results day must see what decides who is answered.
func TestConfigurationIsLoggedWhole(t *testing.T) {
	t.Parallel()
	cfg := serve.DefaultConfig()
	cfg.Store = filled(t, resultstest.Generator(t, 3, students))[0]
	limits := guard.DefaultConfig()
	cfg.Limits = &limits
	var err error
	if cfg.Proxies, err = forwarded.Parse("10.9.8.7"); err != nil {
		t.Fatal(err)
	}
	s := run(t, cfg)
	s.end(t)
	for _, want := range []string{"10.9.8.7/32", "Tries:5"} {
		if !strings.Contains(s.logs.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, s.logs)
		}
	}
}
