package exchange

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// What passes is passed on, and shown as it was on the wire.
func TestTapShowsWhatItPassesOn(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/in", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		http.SetCookie(w, &http.Cookie{Name: "s", Value: "1", Secure: true})
		fmt.Fprintf(w, "got %s", body)
	})
	mux.HandleFunc("/chunks", func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			fmt.Fprint(w, "piece ")
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.Close()
		}
	})
	for name, start := range map[string]func(*httptest.Server){"plain": (*httptest.Server).Start, "tls": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(mux)
			start(server)
			t.Cleanup(server.Close)
			target, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			c := Config{Target: target, Timeout: 30 * time.Second}
			if name == "tls" {
				c.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
			}
			var seen []Exchange
			c.Seen = func(e Exchange) { seen = append(seen, e) }
			tap, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: &http.Transport{}}
			read := func(r *http.Response, err error) string {
				if err != nil {
					return err.Error()
				}
				body, _ := io.ReadAll(r.Body)
				_ = r.Body.Close()
				return string(body) + " " + r.Header.Get("Set-Cookie")
			}
			pieces := strings.Repeat("piece ", 3)
			posted := read(client.Post(tap.URL()+"/in", "text/plain", strings.NewReader("body")))
			chunks := read(client.Get(tap.URL() + "/chunks"))
			cut := read(client.Get(tap.URL() + "/cut"))
			client.CloseIdleConnections()
			if err := tap.Close(); err != nil {
				t.Error(err)
			}
			want := "got body s=1; Secure"
			if name == "tls" {
				want = "got body s=1" // else the generator would not send it
			}
			if posted != want || strings.TrimSpace(chunks) != strings.TrimSpace(pieces) || !strings.Contains(cut, "EOF") {
				t.Errorf("got %q, %q and %q", posted, chunks, cut)
			}
			if len(seen) < 3 {
				t.Fatalf("%d exchanges were seen, want 3", len(seen))
			}
			if text := string(seen[0].Request); !strings.HasPrefix(text, "POST /in HTTP/1.1\r\n") || !strings.HasSuffix(text, "\r\n\r\nbody") {
				t.Errorf("the request is shown as %q", text)
			}
			if text := string(seen[1].Answer); !strings.HasPrefix(text, "HTTP/1.1 200 OK\r\n") || !strings.HasSuffix(text, "\r\n\r\n"+pieces) {
				t.Errorf("the answer is shown as %q", text)
			}
			if last := seen[len(seen)-1]; last.Err == nil || len(last.Answer) > 0 {
				t.Errorf("what was cut off is shown as %+v", last)
			}
		})
	}
}
