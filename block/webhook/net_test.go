package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// zeros is an answer without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// Over a network: a redirect is not followed, an answer without an end is not read to
// its end, one of headers without an end neither, and an error shows no address.
func TestOverHTTP(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/endless":
			_, _ = io.Copy(w, zeros{})
		case "/headers":
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		case "/post":
			if body, _ := io.ReadAll(r.Body); r.Method != http.MethodPost || string(body) != "{}" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("got %s %s of type %s", r.Method, body, r.Header.Get("Content-Type"))
			}
		}
	}))
	defer server.Close()
	cfg := DefaultConfig()
	cfg.Timeout = time.Minute
	key, err := ParseKey(keyText)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		server.URL + "/post":          "",
		server.URL + "/endless":       "",
		server.URL + "/redirect":      "answered 307",
		server.URL + "/headers":       "headers",
		"http://127.0.0.1:1/s3cret":   "connection refused",
		"http://no.invalid/?t=s3cret": "no.invalid",
	} {
		e := newEndpoint(Endpoint{Name: "a", URL: url, Keys: []Key{key}}, cfg, newMetrics(prometheus.NewRegistry()))
		failed := e.try(t.Context(), &Message{ID: "m", Body: []byte("{}")})
		e.client.CloseIdleConnections()
		switch {
		case want == "" && failed != nil:
			t.Errorf("%s: got %v, want none", url, failed.err)
		case want != "" && (failed == nil || failed.outcome != unavailable || !strings.Contains(failed.err.Error(), want) || strings.Contains(failed.err.Error(), "s3cret")):
			t.Errorf("%s: got %+v, want %q and no secret", url, failed, want)
		}
	}
}
