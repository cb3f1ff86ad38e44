package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// catalogue answers calls of gRPC: item 7 to each, or that there is none.
func catalogue(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.ProtoMajor != 2 || r.Header.Get("Content-Type") != "application/grpc" {
			http.Error(w, "no call", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		if string(body) == "\x00\x00\x00\x00\x02\x08\x09" {
			_ = http.NewResponseController(w).Flush() // else the trailer would be left out
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "5")
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", "no%20such")
			return
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		_, _ = io.WriteString(w, "\x00\x00\x00\x00\x02\x08\x07")
	}))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols = protocols
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// Calls of gRPC are shown with their messages as JSON.
func TestLoadOnceOfCalls(t *testing.T) {
	url, dir := catalogue(t), t.TempDir()
	for name, text := range map[string]string{
		"shop.proto": `syntax = "proto3"; package shop.v1; message Item { int64 id = 1; } service Catalogue { rpc Get(Item) returns (Item); }`,
		"calls.yaml": `load:
  protocol: h2
  proto: [shop.proto]
  scenarios:
    visit:
      executor: constant-vus
      vus: 50
      duration: 10s
      steps:
        - {name: first, grpc: {method: shop.v1.Catalogue/Get, message: '{"id": 8}'}, extract: {id: {json: id}}}
        - {name: second, grpc: {method: shop.v1.Catalogue/Get, message: '{"id": "{id}"}', metadata: {x-token: t}}}
`,
		"none.yaml": `load:
  protocol: h2
  proto: [shop.proto]
  scenarios:
    visit: {executor: constant-vus, vus: 1, duration: 1s, steps: [{name: none, grpc: {method: shop.v1.Catalogue/Get, message: '{"id": 9}'}}]}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got := loadstone(t, dir, "load", "calls.yaml", "--target", url, "--once")
	if got.code != exitOK {
		t.Fatalf("exit status %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	host := strings.TrimPrefix(url, "http://")
	shown := strings.ReplaceAll(got.stdout, `": "`, `":"`)
	for _, want := range []string{
		"> POST /shop.v1.Catalogue/Get HTTP/2\n", "> Host: " + host + "\n", "{\"id\":\"8\"}\n", "< HTTP/2 200 OK\n", "{\"id\":\"7\"}\n",
		"< Grpc-Status: 0\n", "> X-Token: t\n",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in\n%s", want, got.stdout)
		}
	}
	if n := strings.Count(shown, "{\"id\":\"7\"}\n"); n != 3 { // two answers, and what the second call has from the first
		t.Errorf("%d times 7, want 3:\n%s", n, got.stdout)
	}
	none := loadstone(t, dir, "load", "none.yaml", "--target", url, "--once")
	if none.code != exitFailed || !strings.Contains(none.stdout, "< Grpc-Message: no%20such\n< Grpc-Status: 5\n") {
		t.Errorf("there is none: exit status %d:\n%s%s", none.code, none.stdout, none.stderr)
	}
	refused := loadstone(t, dir, "load", "calls.yaml", "--target", "http://127.0.0.1:1", "--once")
	if refused.code != exitFailed || !strings.Contains(refused.stdout, "* no answer: dial tcp 127.0.0.1:1") {
		t.Errorf("nobody listens: exit status %d:\n%s%s", refused.code, refused.stdout, refused.stderr)
	}
}

// What is summed up is why the target did not answer, and not what the generator saw of whoever
// stands between the two.
func TestLoadOnceSumsUpWhatItShows(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(broken.Close)
	for target, why := range map[string]string{
		"http://127.0.0.1:1": "dial tcp 127.0.0.1:1: connect: connection refused",
		broken.URL:           "the connection was closed before an answer",
	} {
		got := loadstone(t, t.TempDir(), "load", target, "--once")
		if got.code != exitFailed || !strings.Contains(got.stdout, "* no answer: "+why) ||
			!strings.Contains(got.stderr, "1 of 1 request failed: 1 × no answer ("+why+")") {
			t.Errorf("%s: exit status %d, want it to say twice %q:\n%s%s", target, got.code, why, got.stdout, got.stderr)
		}
	}
}
