package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"loadstone/system/patterns/job"
)

// fasthttp's own goroutines end some time after its server, or never.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// running is a service of the test.
type running struct {
	api, admin string
	stop       context.CancelFunc
	ended      chan error
	client     *http.Client
}

// start runs a service with a short drain.
func start(t *testing.T, change func(*Config)) *running {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Movies.Delay, cfg.Books.Delay, cfg.Jobs.CPU = time.Millisecond, time.Millisecond, 0
	change(&cfg)
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, ended: make(chan error, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	type addresses struct{ api, admin net.Addr }
	listening := make(chan addresses, 1)
	go func() {
		r.ended <- Run(ctx, cfg, slog.New(slog.DiscardHandler), Events{
			Listening: func(api, admin net.Addr) { listening <- addresses{api, admin} },
		})
	}()
	select {
	case at := <-listening:
		r.api, r.admin = "http://"+at.api.String(), "http://"+at.admin.String()
	case err := <-r.ended:
		t.Fatalf("it did not start: %v", err)
	}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		stop()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *running) do(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, url, err)
		return 0, ""
	}
	data, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(data)
}

func TestEveryPathOffAndOn(t *testing.T) {
	t.Parallel()
	off := start(t, func(*Config) {})
	on := start(t, func(c *Config) {
		c.Movies.RefreshAhead, c.Books.Mode, c.Jobs.Pool = true, "local", job.Reject
	})
	for _, s := range []*running{off, on} {
		waitReady(t, s)
		for _, c := range []struct {
			method, path string
			want         int
		}{
			{"GET", "/healthz", 200},
			{"GET", "/getPopularMovies", 200},
			{"GET", "/getBook/100", 200},
			{"GET", "/getBook/none", 400},
			{"GET", "/handle", 200},
			{"DELETE", "/handle", 405},
			{"POST", "/getBook/100", 405},
			{"GET", "/getBook", 404},
			{"GET", "/", 404},
			{"GET", "/activities/1", 404}, // is off
		} {
			if got, body := s.do(t, c.method, s.api+c.path, ""); got != c.want {
				t.Errorf("%s %s: status %d, want %d: %s", c.method, c.path, got, c.want, body)
			}
		}
		_, metrics := s.do(t, "GET", s.admin+"/metrics", "")
		for _, want := range []string{
			`http_requests_total{status="200"} 3`, `http_requests_total{status="404"} 3`, `http_requests_total{status="405"} 2`,
			`source_reads_total{source="books"} 1`, `source_reads_total{source="movies"} 1`,
		} {
			if !strings.Contains(metrics, want) {
				t.Errorf("the metrics do not have %s", want)
			}
		}
	}
	if status, _ := on.do(t, "PUT", on.admin+"/pool", "3"); status != 204 {
		t.Errorf("PUT /pool: status %d, want 204", status)
	}
	if status, _ := off.do(t, "PUT", off.admin+"/pool", "3"); status != 400 {
		t.Errorf("PUT /pool without a pool: status %d, want 400", status)
	}
}

func waitReady(t *testing.T, s *running) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if status, _ := s.do(t, "GET", s.api+"/readyz", ""); status == 200 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("not ready within 10 s")
		}
	}
}

// Who has been accepted is answered: half of these wait for a worker when the
// service is told to stop.
func TestStoppingLosesNobody(t *testing.T) {
	t.Parallel()
	const requests = 16
	s := start(t, func(c *Config) {
		c.Drain = 0
		c.Jobs = job.Config{Pool: job.Wait, Workers: 8, Queue: 8, Callers: 8, Wait: 5 * time.Second, Sleep: 300 * time.Millisecond}
	})
	statuses := make(chan int, requests)
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			status, _ := s.do(t, "GET", s.api+"/handle", "")
			statuses <- status
		})
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, metrics := s.do(t, "GET", s.admin+"/metrics", ""); strings.Contains(metrics, "http_requests_in_flight 16") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not all 16 requests were inside within 5 s")
		}
	}
	s.stop()
	all.Wait()
	close(statuses)
	for status := range statuses {
		if status != 200 {
			t.Errorf("status %d, want 200", status)
		}
	}
}

func TestAHandlerThatPanics(t *testing.T) {
	t.Parallel()
	r := newRoutes()
	r.logger = slog.New(slog.DiscardHandler)
	r.add("GET", "/bad", func(*fasthttp.RequestCtx) { panic("bad") })
	var ctx fasthttp.RequestCtx
	ctx.Request.SetRequestURI("/bad")
	r.handle(&ctx)
	if got := ctx.Response.StatusCode(); got != 500 {
		t.Errorf("status %d, want 500", got)
	}
	if r.inFlight.Load() != 0 {
		t.Error("it still counts as in flight")
	}
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Listen, cfg.MaxConns, cfg.StopTimeout = "here", 0, 0
	cfg.Movies.MaxAge, cfg.Books.Mode, cfg.Jobs.Pool = 0, "on", "on"
	err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler), Events{})
	for _, want := range []string{`"here"`, "0 connections", "stop timeout", "movies", "books", "jobs"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestTheLoggedConfigurationHasNoSecrets(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Events, cfg.Activities = "nats://me:secret@broker:4222", "postgres://me@db/x?password=secret"
	logged := fmt.Sprint(cfg.attributes()...)
	for _, want := range []string{"nats://me:xxxxx@broker:4222", "postgres://me@db/x?password=xxxxx"} {
		if !strings.Contains(logged, want) || strings.Contains(logged, "secret") {
			t.Errorf("%s: want %s in it and no secret", logged, want)
		}
	}
}
