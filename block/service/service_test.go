package service_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"loadstone/block/service"
)

// fasthttp's own goroutines end some time after its server, or never.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

func config() service.Config {
	c := service.DefaultConfig("test")
	c.Listen, c.AdminListen, c.Drain = "127.0.0.1:0", "127.0.0.1:0", 0
	return c
}

// get asks over a connection of its own.
func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// What it answers, what it tells the operator, and in which order it ends.
func TestRun(t *testing.T) {
	t.Parallel()
	var j journal
	var log bytes.Buffer
	var ready atomic.Bool
	type addresses struct{ api, admin net.Addr }
	listening, ended := make(chan addresses, 1), make(chan error, 1)
	c := config()
	c.Listening = func(api, admin net.Addr) { listening <- addresses{api, admin} }
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- service.Run(ctx, c, slog.New(slog.NewTextHandler(&log, nil)), func(_ context.Context, s *service.Service) (service.Handler, error) {
			s.Add(j.component("store", nil, nil))
			worker := j.component("worker", nil, nil)
			worker.Ready = ready.Load
			s.Add(worker)
			s.HandleAdmin("GET /light", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "on") }))
			return service.Handler{
				Handle: func(ctx *fasthttp.RequestCtx) {
					_, _ = ctx.WriteString(map[bool]string{true: "ready", false: "not ready"}[s.Ready()])
				},
				BadRequest: func(*fasthttp.RequestCtx, int) {},
			}, nil
		})
	}()
	at := <-listening
	api, admin := "http://"+at.api.String()+"/", "http://"+at.admin.String()
	for _, want := range []string{"not ready", "ready"} {
		if _, got := get(t, api); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		ready.Store(true)
	}
	if _, got := get(t, admin+"/light"); got != "on" {
		t.Errorf("the operator's handler: got %q", got)
	}
	if _, got := get(t, admin+"/metrics"); !strings.Contains(got, "go_goroutines") || !strings.Contains(got, "http_connections_open") {
		t.Errorf("got the metrics\n%s\nwant those of the process and of the server", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, want := j.all(), []string{"stop worker", "close worker", "stop store", "close store"}; !slices.Equal(got, want) {
		t.Errorf("order: got %q, want %q", got, want)
	}
	if got := log.String(); !strings.Contains(got, "component=test address="+at.api.String()+" admin="+at.admin.String()) || !strings.Contains(got, "msg=stopped") {
		t.Errorf("got the log\n%s\nwant the addresses and the end", got)
	}
}

// What was added before the opening failed is closed.
func TestRunClosesWhatWasOpened(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	boom, closing := errors.New("boom"), errors.New("closing")
	for name, fail := range map[string]struct {
		listen, admin string
		open          error
	}{
		"the system": {"127.0.0.1:0", "127.0.0.1:0", boom}, "listen": {taken.Addr().String(), "127.0.0.1:0", nil}, "metrics": {"127.0.0.1:0", taken.Addr().String(), nil},
	} {
		var j journal
		c := config()
		c.Listen, c.AdminListen = fail.listen, fail.admin
		err := service.Run(t.Context(), c, slog.New(slog.DiscardHandler), func(_ context.Context, s *service.Service) (service.Handler, error) {
			s.Add(j.component("store", nil, closing))
			return service.Handler{Handle: func(*fasthttp.RequestCtx) {}, BadRequest: func(*fasthttp.RequestCtx, int) {}}, fail.open
		})
		if !errors.Is(err, closing) || fail.open != nil && !errors.Is(err, boom) || fail.open == nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s fails: got %v", name, err)
		}
		if got := j.all(); !slices.Equal(got, []string{"close store"}) {
			t.Errorf("%s fails: got %q, want the store closed", name, got)
		}
	}
}

func TestConfigNamesEveryProblem(t *testing.T) {
	t.Parallel()
	if err := service.DefaultConfig("x").Validate(); err != nil {
		t.Errorf("defaults: got %v, want nil", err)
	}
	err := service.Config{Listen: "8080", AdminListen: "x", AdminToken: "guess", Drain: -2 * time.Second}.Validate()
	for _, want := range []string{
		`listen address is "8080"`, `admin address is "x"`, "admin token has 5 characters", "0 connections", "0 bytes of a request's body", "drain time is -2s", "stop timeout is 0s",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}

func TestHealthOfNothing(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:8080/readyz", "ftp://127.0.0.1/", "http://", "::"} {
		if err := service.Health(t.Context(), address); err == nil || !strings.Contains(err.Error(), "must be like") {
			t.Errorf("%q: got %v, want an error that says what an address is like", address, err)
		}
	}
}
