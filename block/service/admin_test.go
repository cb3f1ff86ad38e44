package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestAdmin(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "things_total", Help: "Things."})
	reg.MustRegister(c)
	c.Add(7)
	ask := serveAdmin(t, token, reg)
	for _, c := range []struct {
		request string
		status  int
		body    string
	}{
		{"GET /metrics", 200, "things_total 7"},
		{"GET /debug/pprof/", 200, "goroutine"},
		{"GET /debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"GET /debug/pprof/profile?seconds=1", 200, ""},
		{"GET /debug/pprof/profile?seconds=600", 400, "the most is 120"},
		{"GET /debug/pprof/cmdline", 404, ""},
		{"GET /light", 200, "GET"},
		{"PUT /light", 200, "PUT"},
		{"GET /elsewhere", 404, ""},
	} {
		if status, body := ask(c.request, "Bearer "+token); status != c.status || !strings.Contains(body, c.body) {
			t.Errorf("%s: got status %d and %.80q, want %d and %q in it", c.request, status, body, c.status, c.body)
		}
	}
}

const token = "0123456789abcdef"

// Who has no token changes nothing and takes no profile, in whatever way it is asked
// for; and nobody does if there is none.
func TestAdminIsLocked(t *testing.T) {
	t.Parallel()
	for _, has := range []string{token, ""} {
		ask := serveAdmin(t, has, prometheus.NewRegistry())
		want := 401
		if has == "" {
			want = 403
		}
		for _, request := range []string{
			"PUT /light", "POST /light", "DELETE /light", "PATCH /light", "BREW /light",
			"GET /debug/pprof/", "HEAD /debug/pprof/heap", "GET /debug/pprof/heap", "GET /debug/pprof/profile?seconds=1", "POST /debug/pprof/symbol",
			"GET /debug/pprof/trace?seconds=1", "GET /debug/pprof/cmdline", "GET //debug/pprof/heap", "GET /x/../debug/pprof/heap", "GET /debug/%70prof/heap",
		} {
			for _, given := range []string{"", "Bearer", "Bearer ", "Bearer " + token[1:], "Bearer " + token + "x", "bearer " + token, "Basic " + token, token} {
				if status, body := ask(request, given); status != want {
					t.Errorf("%s with %q, the token being %q: got status %d and %.80q, want %d", request, given, has, status, body, want)
				}
			}
		}
		for _, request := range []string{"GET /metrics", "GET /light", "HEAD /light"} {
			if status, _ := ask(request, ""); status != 200 {
				t.Errorf("%s without a token: got status %d, want 200", request, status)
			}
		}
	}
}

// serveAdmin serves until the test's end and returns who asks METHOD PATH with a header
// Authorization, following redirects.
func serveAdmin(t *testing.T, token string, g prometheus.Gatherer) func(request, authorization string) (status int, body string) {
	t.Helper()
	a, err := ListenAdmin(t.Context(), "127.0.0.1:0", token, g)
	if err != nil {
		t.Fatal(err)
	}
	a.Handle("/light", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method) }))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	})
	return func(request, authorization string) (int, string) {
		t.Helper()
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", authorization)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
}
