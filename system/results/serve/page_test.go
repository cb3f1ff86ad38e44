package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"loadstone/block/forwarded"
	"loadstone/system/results"
	"loadstone/system/results/httpapi"
	"loadstone/system/results/httpapi/guard"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/serve"
	"loadstone/system/results/web"
)

const formType = "Content-Type: application/x-www-form-urlencoded"

// enter fills in the form.
func enter(t *testing.T, s *running, id int64, code string) (status int, html string) {
	t.Helper()
	form := url.Values{"id": {fmt.Sprint(id)}, "code": {code}}.Encode()
	return send(t, "POST", "http://"+s.api+"/", form, formType)
}

func page(t *testing.T, source *results.Generator, change func(*serve.Config)) *running {
	t.Helper()
	limits := guard.DefaultConfig()
	cfg := serve.DefaultConfig()
	cfg.Store, cfg.Cache, cfg.Drain, cfg.Limits = filled(t, source)[0], pagecache.Memory, 0, &limits
	change(&cfg)
	s := run(t, cfg)
	t.Cleanup(func() { s.end(t) })
	return s
}

// The page and the interface are one service with one decision.
func TestPage(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, students)
	student := source.Student(77)
	s := page(t, source, func(*serve.Config) {})
	if status, html := send(t, "GET", "http://"+s.api+"/", ""); status != 200 || !strings.Contains(html, "<form") {
		t.Errorf("the form: got status %d and %.100q", status, html)
	}
	if status, html := enter(t, s, 77, student.Code); status != 200 || !strings.Contains(html, student.Name) || strings.Contains(html, student.Code) {
		t.Errorf("the right code: got status %d, want 200 with the name and without the code", status)
	}
	wrong, known := enter(t, s, 77, "WRONG-WRONG")
	none, unknown := enter(t, s, students+1, "WRONG-WRONG")
	if wrong != 404 || none != 404 || strings.ReplaceAll(known, `"77"`, `"501"`) != unknown {
		t.Errorf("a wrong code and an unknown id: got status %d and %d, want 404 and the same page", wrong, none)
	}
	for target, want := range map[string]string{
		"/student/77": `{"error":{"code":"not_found"`, "/student/x": `{"error":{"code":"malformed_id"`,
		"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ok"}`, "/openapi.json": `{`,
		"/student": "<!doctype html>", "/favicon.ico": "<!doctype html>",
	} {
		if _, body := get(t, s.api, target); !strings.HasPrefix(strings.ToLower(body), want) {
			t.Errorf("%s: got %.60q, want it to begin with %q", target, body, want)
		}
	}
	// Five wrong codes lock the id for both.
	for range guard.DefaultConfig().Tries {
		enter(t, s, 77, "WRONG-WRONG")
	}
	if status, _ := enter(t, s, 77, student.Code); status != 429 {
		t.Errorf("locked, on the page: got status %d, want 429", status)
	}
	if status, _ := get(t, s.api, "/student/77", "X-Access-Code: "+student.Code); status != 429 {
		t.Errorf("locked, for programs: got status %d, want 429", status)
	}
}

// All requests of an address are counted together, those for the form too.
func TestRequestsForTheFormAreLimited(t *testing.T) {
	t.Parallel()
	s := page(t, resultstest.Generator(t, 3, students), func(c *serve.Config) { c.Limits.Rate, c.Limits.Burst = 0.001, 6 })
	ask := func(method, target, body string) int {
		status, _ := send(t, method, "http://"+s.api+target, body, formType)
		return status
	}
	for range 3 {
		if form, none := ask("GET", "/", ""), ask("GET", "/elsewhere", ""); form != 200 || none != 404 {
			t.Errorf("within the limit: got %d and %d, want 200 and 404", form, none)
		}
	}
	for _, target := range []string{"/", "/elsewhere", "/student/77", "/openapi.json"} {
		if got := ask("GET", target, ""); got != 429 {
			t.Errorf("beyond the limit, %s: got status %d, want 429", target, got)
		}
	}
	if got := ask("POST", "/", ""); got != 429 {
		t.Errorf("beyond the limit, an empty form: got status %d, want 429", got)
	}
	if got := ask("GET", "/readyz", ""); got != 200 {
		t.Errorf("beyond the limit, a probe: got status %d, want 200", got)
	}
}

func TestPageBeforeResultsAreOut(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, students)
	at := time.Now().Add(time.Hour).In(time.FixedZone("EAT", 3*60*60))
	store := filled(t, results.Embargoed(source, at))[0]
	s := page(t, source, func(c *serve.Config) { c.Store = store })
	shown := at.Format("15:04")
	if status, html := enter(t, s, 77, source.Student(77).Code); status != 403 || !strings.Contains(html, shown) {
		t.Errorf("before the instant: got status %d, want 403 and the time %s", status, shown)
	}
	if status, html := send(t, "GET", "http://"+s.api+"/", ""); status != 200 || !strings.Contains(html, shown) {
		t.Errorf("the form before the instant: got status %d, want 200 and the time %s", status, shown)
	}
}

func TestPageModes(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 3, students)
	off := page(t, source, func(c *serve.Config) { c.Page = false })
	if status, body := get(t, off.api, "/"); status != 404 || !strings.Contains(body, "no_such_path") {
		t.Errorf("without the page: got status %d and %q, want 404 in JSON", status, body)
	}
	open := page(t, source, func(c *serve.Config) { c.Access, c.Limits = httpapi.Open, nil })
	if status, html := enter(t, open, 77, "anything"); status != 200 || !strings.Contains(html, source.Student(77).Name) {
		t.Errorf("open access: got status %d, want 200 with any code", status)
	}
	if logs := open.logs.String(); !strings.Contains(logs, "any code opens") {
		t.Errorf("open access: the log does not warn: %s", logs)
	}
}

func TestDownPage(t *testing.T) {
	t.Parallel()
	html, err := web.DownPage("en")
	if err != nil || !strings.Contains(string(html), "</html>") {
		t.Errorf("got %d bytes and %v, want a page", len(html), err)
	}
	if _, err := web.DownPage("xx"); err == nil || !strings.Contains(err.Error(), "en") {
		t.Errorf("another language: got %v, want an error that names one that there is", err)
	}
}

// With limits, one address has as many connections as it may send requests at once, whatever it
// does with them. Those of a balancer are its clients'.
func TestConnectionsOfOneAddress(t *testing.T) {
	t.Parallel()
	const balancer = "127.0.0.9"
	s := page(t, resultstest.Generator(t, 3, students), func(c *serve.Config) {
		limits := guard.DefaultConfig()
		limits.Burst = 5
		c.Limits = &limits
		var err error
		if c.Proxies, err = forwarded.Parse(balancer); err != nil {
			t.Fatal(err)
		}
	})
	for _, c := range []struct {
		from string
		open int // connections that send half a request
		want int // status of one more
	}{{"127.0.0.1", 5, 503}, {"127.0.0.2", 4, 200}, {balancer, 10, 200}} {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.from)}}
		dial := func(request string) net.Conn {
			conn, err := dialer.DialContext(t.Context(), "tcp", s.api)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_, _ = io.WriteString(conn, request)
			return conn
		}
		until(t, func() bool {
			began := time.Now()
			for range c.open {
				defer func(conn net.Conn) { _ = conn.Close() }(dial("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nid"))
			}
			resp, err := http.ReadResponse(bufio.NewReader(dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")), nil)
			if err != nil && c.want == 503 {
				return false // who is refused has 300 ms to say what he wants, and may be too slow for that
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if time.Since(began) > 4*time.Second {
				return false // the first of them may have had its time
			}
			if resp.StatusCode == http.StatusServiceUnavailable && c.want != http.StatusServiceUnavailable {
				return false // those of the round before may still be ending
			}
			if resp.StatusCode != c.want {
				t.Errorf("from %s with %d connections: got status %d, want %d", c.from, c.open, resp.StatusCode, c.want)
			}
			return true
		})
	}
}
