package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/system/patterns/job"
)

// fasthttp's own goroutines end some time after its server, or never.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

const adminToken = "0123456789abcdef"

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
	cfg.Listen, cfg.AdminListen, cfg.AdminToken = "127.0.0.1:0", "127.0.0.1:0", adminToken
	cfg.Movies.Delay, cfg.Books.Delay, cfg.Jobs.CPU = time.Millisecond, time.Millisecond, 0
	change(&cfg)
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, ended: make(chan error, 1), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	type addresses struct{ api, admin net.Addr }
	listening := make(chan addresses, 1)
	go func() {
		cfg.Listening = func(api, admin net.Addr) { listening <- addresses{api, admin} }
		r.ended <- Run(ctx, cfg, slog.New(slog.DiscardHandler))
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
	req.Header.Set("Authorization", "Bearer "+adminToken)
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
	off := start(t, func(c *Config) { c.Movies.MaxAge = time.Hour })
	on := start(t, func(c *Config) {
		c.Movies.MaxAge, c.Movies.RefreshAhead, c.Books.Mode, c.Jobs.Pool = time.Hour, true, "local", job.Reject
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

// A refusal of a method says which there are, and one of a connection when to come
// again.
func TestARefusalSaysWhatToDoInstead(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *Config) { c.MaxConns, c.Activities = 2, "pebble:"+t.TempDir() })
	waitReady(t, s)
	for path, want := range map[string]string{"/handle": "GET", "/getBook/100": "GET", "/activities": "POST", "/activities/1": "GET"} {
		if got := header(t, s.client, s.api+path, "DELETE"); got.Get("Status") != "405" || got.Get("Allow") != want {
			t.Errorf("DELETE %s: got %v, want 405 and Allow: %s", path, got, want)
		}
	}
	address := strings.TrimPrefix(s.api, "http://")
	second, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	third, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = third.Close() }()
	if err := third.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	// Who is slow to ask is answered before, and may find that out while it writes.
	_, _ = io.WriteString(third, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(third), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := headerOf(t, resp)
	if got.Get("Status") != "503" || got.Get("Retry-After") != "1" || !strings.HasPrefix(got.Get("Content-Type"), "application/json") ||
		!strings.Contains(got.Get("Body"), `{"error":{"code":"too_many_connections"`) {
		t.Errorf("the third connection got %v, want 503, Retry-After and the form of all errors", got)
	}
}

// header is that of an answer, with its status and its body in it.
func header(t *testing.T, client *http.Client, url, method string) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return headerOf(t, resp)
}

func headerOf(t *testing.T, resp *http.Response) http.Header {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	resp.Header.Set("Status", strconv.Itoa(resp.StatusCode))
	resp.Header.Set("Body", string(body))
	return resp.Header
}

// A load that nobody waits for, and a job whose connection was cut, do not keep the
// service from ending in its time.
func TestTheStopIsBounded(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cfg := DefaultConfig()
	cfg.Listen, cfg.AdminListen, cfg.AdminToken = "127.0.0.1:0", "127.0.0.1:0", adminToken
	cfg.Drain, cfg.StopTimeout = 0, time.Second
	cfg.Movies.MaxAge, cfg.Movies.Delay, cfg.Movies.RefreshAhead = 10*time.Minute, 4*time.Minute, true
	cfg.Jobs.CPU, cfg.Jobs.Sleep = 0, 5*time.Minute
	s := &running{client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		cfg.Listening = func(api, admin net.Addr) { s.admin = "http://" + admin.String(); listening <- api }
		ended <- Run(ctx, cfg, slog.New(slog.DiscardHandler))
	}()
	conn, err := net.Dial("tcp", (<-listening).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /handle HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	waitInside(t, s, 1)
	began := time.Now()
	stop()
	err = <-ended
	const most = time.Minute // of a busy machine; both would take minutes
	if took := time.Since(began); took > most {
		t.Errorf("it ended after %v, want little more than %v", took, cfg.StopTimeout)
	}
	if err == nil || !strings.Contains(err.Error(), "cut") {
		t.Errorf("got %v, want that a connection was cut", err)
	}
}

func waitReady(t *testing.T, s *running) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if status, _ := s.do(t, "GET", s.api+"/readyz", ""); status == 200 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("not ready within two minutes")
		}
	}
}

// waitInside waits until so many requests are being handled.
func waitInside(t *testing.T, s *running, requests int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if _, metrics := s.do(t, "GET", s.admin+"/metrics", ""); strings.Contains(metrics, fmt.Sprintf("http_requests_in_flight %d\n", requests)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not all %d requests were inside within two minutes", requests)
		}
	}
}

// Who has been accepted is answered: half of these wait for a worker when the
// service is told to stop.
func TestStoppingLosesNobody(t *testing.T) {
	t.Parallel()
	const requests = 16
	s := start(t, func(c *Config) {
		c.Drain, c.StopTimeout = 0, 2*time.Minute
		// Long enough for all to be seen inside.
		c.Jobs = job.Config{Pool: job.Wait, Workers: 8, Queue: 8, Callers: 8, Wait: 2 * time.Minute, Sleep: 10 * time.Second}
	})
	statuses := make(chan int, requests)
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			status, _ := s.do(t, "GET", s.api+"/handle", "")
			statuses <- status
		})
	}
	waitInside(t, s, requests)
	s.stop()
	all.Wait()
	close(statuses)
	for status := range statuses {
		if status != 200 {
			t.Errorf("status %d, want 200", status)
		}
	}
}

func TestConfigSaysAllThatIsWrong(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Listen, cfg.MaxConns, cfg.StopTimeout = "here", 0, 0
	cfg.Movies.MaxAge, cfg.Books.Mode, cfg.Jobs.Pool, cfg.Events = 0, "on", "on", "bogus"
	err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler))
	for _, want := range []string{`"here"`, "0 connections", "stop timeout", "movies", "books", "jobs", "bogus"} {
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
