package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// origin answers /menu/1 to /menu/9.
func origin(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"`+r.URL.Path+`"`)
	w.Header().Set("Cache-Control", "public, no-cache")
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
}

func TestItAnswersAsItsOrigin(t *testing.T) {
	t.Parallel()
	from := httptest.NewServer(http.HandlerFunc(origin))
	defer from.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{address, from.URL, "/menu", "9"}) }()
	get := func(base, path string) (int, http.Header, string) {
		resp, err := http.Get(base + path)
		if err != nil {
			return 0, nil, ""
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		resp.Header.Del("Date")
		return resp.StatusCode, resp.Header, string(body)
	}
	for status := 0; status != http.StatusOK; status, _, _ = get("http://"+address, "/menu/9") {
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	for _, path := range []string{"/menu/1", "/menu/9"} {
		status, headers, body := get("http://"+address, path)
		_, wantHeaders, want := get(from.URL, path)
		if status != http.StatusOK || body != want || !maps.EqualFunc(headers, wantHeaders, func(a, b []string) bool { return strings.Join(a, ",") == strings.Join(b, ",") }) {
			t.Errorf("%s: got %d %v %q, want %v %q", path, status, headers, body, wantHeaders, want)
		}
	}
	for _, path := range []string{"/menu/0", "/menu/10", "/menu/x", "/menu/", "/other"} {
		if status, _, _ := get("http://"+address, path); status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, status)
		}
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"usage":      {"127.0.0.1:0"},
		"no number":  {"127.0.0.1:0", "http://127.0.0.1:1", "/menu", "many"},
		"ask for ":   {"127.0.0.1:0", "http://127.0.0.1:1", "/menu", "1"},
		"listen tcp": {"nonsense", "http://127.0.0.1:1", "/menu", "1"},
	} {
		if err := run(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", args, err, want)
		}
	}
}
