package service

import (
	"context"
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
	a, err := ListenAdmin(t.Context(), "127.0.0.1:0", reg)
	if err != nil {
		t.Fatal(err)
	}
	a.Handle("GET /light", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "on") }))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer stop()

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/metrics":                         {200, "things_total 7"},
		"/debug/pprof/":                    {200, "goroutine"},
		"/debug/pprof/goroutine?debug=1":   {200, "goroutine profile"},
		"/debug/pprof/profile?seconds=1":   {200, ""},
		"/debug/pprof/profile?seconds=600": {400, "the most is 120"},
		"/light":                           {200, "on"},
		"/elsewhere":                       {404, ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.Addr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want.status || !strings.Contains(string(body), want.body) {
			t.Errorf("%s: got status %d and %.80q, want %d and %q in it", path, resp.StatusCode, body, want.status, want.body)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run: got %v, want nil", err)
	}
}
