package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/system/menu/proxy"
)

// echo is a server that keeps what it hears, byte by byte, and answers each request on
// a connection by what its handler says.
type echo struct {
	addr  string
	inner net.Listener
	group sync.WaitGroup
	mu    sync.Mutex
	heard []string // whole requests
	conns int
}

// listen answers with raw bytes; none cuts the connection.
func listen(t *testing.T, answer func(req *http.Request) string) *echo {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{addr: inner.Addr().String(), inner: inner}
	e.group.Go(func() {
		for {
			conn, err := inner.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.conns++
			e.mu.Unlock()
			e.group.Go(func() { e.serve(t.Context(), conn, answer) })
		}
	})
	t.Cleanup(e.stop)
	return e
}

func (e *echo) stop() { _ = e.inner.Close(); e.group.Wait() }

func (e *echo) serve(ctx context.Context, conn net.Conn, answer func(req *http.Request) string) {
	defer func() { _ = conn.Close() }()
	// One that is kept does not keep the test.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var all bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &all))
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		e.mu.Lock()
		e.heard = append(e.heard, all.String())
		e.mu.Unlock()
		all.Reset()
		text := answer(req)
		if _, err := io.WriteString(conn, text); err != nil || text == "" || strings.Contains(text, "\r\nConnection: close\r\n") {
			return
		}
	}
}

// said is what was heard, and forgets it.
func (e *echo) said() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.heard
	e.heard = nil
	return heard
}

func plain(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func pathOf(req *http.Request) string { return plain(req.Method + " " + req.URL.RequestURI()) }

// routed starts a proxy with routes to the servers.
func routed(t *testing.T, limits func(*proxy.Limits), routes map[string]*echo) started {
	t.Helper()
	return start(t, "", func(cfg *proxy.Config) {
		cfg.Servers = []string{"http://127.0.0.1:1"}
		for prefix, e := range routes {
			cfg.Routes = append(cfg.Routes, proxy.Route{Prefix: prefix, Servers: []string{"http://" + e.addr}})
		}
		if limits != nil {
			limits(&cfg.RouteLimits)
		}
	})
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	reviews := listen(t, func(*http.Request) string {
		return "HTTP/1.1 418 Tea\r\nContent-Length: 1\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nX-End: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nKeep-Alive: 3\r\n\r\n!"
	})
	best := listen(t, pathOf)
	p := routed(t, nil, map[string]*echo{"/api/reviews": reviews, "/api/reviews/best": best})
	got := ask(t, p.addr, "POST", "/api/reviews/a%20b;c=1/?q=%2e%2e&r=1", "the body",
		"X-Secret: 1", "X_Secret: 2", "Content_Length: 99", "Connection: X-Mine", "X-Mine: 3", "Keep-Alive: 4", "Te: trailers", "Upgrade: h2c", "Proxy-Authorization: 5",
		"Authorization: Bearer x", "X-Forwarded-For: 10.0.0.1", "Expect: nothing", "Cookie: a=b", "User-Agent: test")
	want := http.Header{"X-End": {"2"}, "Set-Cookie": {"a=b", "c=d"}, "Content-Length": {"1"}, "Connection": {"close"}}
	for name := range got.header {
		if name != "Date" && !slices.Equal(got.header[name], want[name]) {
			t.Errorf("the client got %s: %q", name, got.header[name])
		}
	}
	if got.status != 418 || got.body != "!" || len(got.header["Set-Cookie"]) != 2 || got.header.Get("X-End") != "2" {
		t.Errorf("got %+v", got)
	}
	heard := strings.Join(reviews.said(), "|")
	if !strings.HasPrefix(heard, "POST /api/reviews/a%20b;c=1/?q=%2e%2e&r=1 HTTP/1.1\r\n") || !strings.HasSuffix(heard, "\r\n\r\nthe body") {
		t.Errorf("the server got %q", heard)
	}
	for _, line := range []string{"Host: " + reviews.addr, "X-Secret: 1", "Authorization: Bearer x", "X-Forwarded-For: 10.0.0.1, 127.0.0.1", "Content-Length: 8", "Cookie: a=b", "User-Agent: test"} {
		if strings.Count(heard, "\r\n"+line+"\r\n") != 1 {
			t.Errorf("the server did not get %q once: %q", line, heard)
		}
	}
	for _, name := range []string{"X_Secret", "Content_Length", "X-Mine", "Keep-Alive", "Te:", "Upgrade", "Proxy-", "Expect", "Transfer-Encoding"} {
		if strings.Contains(strings.ToLower(heard), strings.ToLower("\n"+name)) {
			t.Errorf("the server got %s: %q", name, heard)
		}
	}
	for target, body := range map[string]string{
		"/api/reviews/best": "GET /api/reviews/best", "/api/reviews/best/1": "GET /api/reviews/best/1", "/api/reviews/bests": "!", "/api/reviews": "!",
	} {
		if got := ask(t, p.addr, "GET", target, ""); got.body != body {
			t.Errorf("%s: got %+v, want %q", target, got, body)
		}
	}
	if got := ask(t, p.addr, "HEAD", "/api/reviews/best", ""); got.status != 200 || got.body != "" || got.length != int64(len("HEAD /api/reviews/best")) {
		t.Errorf("got %+v", got)
	}
	if n := p.metric(t, "proxy_upstream_seconds", "/api/reviews/best"); n != 3 {
		t.Errorf("got %v requests", n)
	}
}

// Bodies stream up to the bound. What is too long, or cut, is seen to be so, and nobody else
// gets the rest of it.
func TestBodiesOfRoutes(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	chunk := strings.Repeat("x", 1<<16)
	chunked := func(n int) string {
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk), n) + "0\r\n\r\n"
	}
	e := listen(t, func(req *http.Request) string {
		switch req.URL.Path {
		case "/r/long":
			return plain(strings.Repeat(chunk, 17))
		case "/r/long-chunks":
			return chunked(17)
		case "/r/chunks":
			return chunked(16)
		case "/r/most":
			return plain(strings.Repeat(chunk, 16))
		case "/r/cut":
			return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nx"
		case "/r/none":
			return "HTTP/1.1 204 No Content\r\n\r\n"
		case "/r/two":
			return "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy"
		}
		return plain("small")
	})
	p := routed(t, func(l *proxy.Limits) { l.BodyBytes, l.Timeout = most, patience }, map[string]*echo{"/r": e})
	for range 3 {
		for target, want := range map[string]int{"/r/most": most, "/r/chunks": most, "/r/small": 5, "/r/none": 0} {
			if got := ask(t, p.addr, "GET", target, ""); len(got.body) != want || got.length == -2 {
				t.Errorf("%s: got status %d, %d bytes of %d, want %d", target, got.status, len(got.body), got.length, want)
			}
		}
		for _, target := range []string{"/r/long", "/r/long-chunks"} {
			if got := ask(t, p.addr, "GET", target, ""); got.length != -2 || len(got.body) > most {
				t.Errorf("%s: got status %d, %d bytes of %d, want a body that is cut", target, got.status, len(got.body), got.length)
			}
		}
		if got := ask(t, p.addr, "GET", "/r/two", ""); got.status != 503 {
			t.Errorf("two lengths: got %+v", got)
		}
		if got := ask(t, p.addr, "GET", "/r/small", ""); got.body != "small" {
			t.Errorf("after a body that was cut: got %+v", got)
		}
	}
	if got := ask(t, p.addr, "GET", "/r/cut", ""); got.status == 200 && got.length != -2 {
		t.Errorf("an answer that is cut: got %+v", got)
	}
}

// A request that is safe is tried once more, at another server; others never.
func TestSecondAttempts(t *testing.T) {
	t.Parallel()
	dead := listen(t, func(*http.Request) string { return "" })
	alive := listen(t, pathOf)
	p := start(t, "", func(cfg *proxy.Config) {
		cfg.Servers = []string{"http://" + dead.addr}
		cfg.Routes = []proxy.Route{
			{Prefix: "/one", Servers: []string{"http://" + dead.addr}},
			{Prefix: "/two", Servers: []string{"http://" + dead.addr, "http://" + alive.addr}},
		}
	})
	for range 4 {
		if got := ask(t, p.addr, "GET", "/two/x", ""); got.body != "GET /two/x" {
			t.Errorf("got %+v", got)
		}
	}
	dead.said()
	for method, want := range map[string]int{"GET": 2, "HEAD": 2, "POST": 1, "PUT": 1, "DELETE": 1} {
		for _, target := range []string{"/one", "/api/menu/7/x"} {
			got := ask(t, p.addr, method, target, "")
			if n := len(dead.said()); got.status != 503 || n != want || got.header.Get("Retry-After") == "" {
				t.Errorf("%s %s: got %+v and %d attempts, want %d", method, target, got, n, want)
			}
		}
	}
}

// One that does not answer is waited for until the deadline; connections are bounded.
func TestServersThatAreSlow(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	slow := listen(t, func(*http.Request) string { <-held; return plain("late") })
	p := routed(t, func(l *proxy.Limits) { l.Timeout, l.Conns = 400*time.Millisecond, 2 }, map[string]*echo{"/r": slow})
	var group sync.WaitGroup
	var mu sync.Mutex
	codes := make(map[string]int)
	for range 8 {
		group.Go(func() {
			got := ask(t, p.addr, "POST", "/r", "x")
			mu.Lock()
			defer mu.Unlock()
			codes[fmt.Sprint(got.status, " ", code(got.body), " ", got.header.Get("Retry-After"))]++
		})
	}
	group.Wait()
	close(held)
	slow.mu.Lock()
	defer slow.mu.Unlock()
	if codes["503 unavailable 1"] < 2 || codes["503 unavailable 1"]+codes["503 overloaded 1"] != 8 || slow.conns > 8 {
		t.Errorf("got %v over %d connections", codes, slow.conns)
	}
}

// Nothing that two readers could take for different requests goes through.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	e := listen(t, pathOf)
	p := routed(t, nil, map[string]*echo{"/r": e})
	const inner = "GET /r/smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, raw := range map[string]string{
		"CL.TE":              "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"TE.CL":              "POST /r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n26\r\n" + inner + "\r\n0\r\n\r\n",
		"of a menu":          "GET /api/menu/7 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner,
		"identity":           "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner,
		"two lengths":        "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\n" + inner,
		"the same twice":     "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx" + inner,
		"a list of lengths":  "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 44\r\n\r\n" + inner,
		"a signed length":    "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n" + inner,
		"two codings":        "POST /r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner,
		"another coding":     "POST /r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
		"a list of codings":  "POST /r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + inner,
		"space before colon": "POST /r HTTP/1.1\r\nHost: a\r\nContent-Length : 44\r\n\r\n" + inner,
		"a chunk's size":     "POST /r HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + inner,
		"two hosts":          "POST /r HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + inner,
		"a body of GET":      "GET /r HTTP/1.1\r\nHost: a\r\nContent-Length: 44\r\n\r\n" + inner,
		"up":                 "GET /r/../secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"up, encoded":        "GET /r/%2e%2E/secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"up, parameters":     "GET /r/..;/secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"slash, encoded":     "GET /r/..%2fsecret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"two slashes":        "GET /r//secret HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"line break":         "GET /r/%0d%0aX:1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"NUL":                "GET /r/\x00 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"no ASCII":           "GET /r/\xff HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"no ASCII asked":     "GET /r?\xff HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
	} {
		got := parse(t, "POST", bytes.NewReader(send(t, p.addr, raw)))
		if got.status < 400 || got.status >= 500 {
			t.Errorf("%s: got %+v", name, got)
		}
		if heard := e.said(); len(heard) > 0 {
			t.Errorf("%s: the server got %q", name, heard)
		}
	}
	// What is clear goes through as two requests, each with its one length.
	for _, body := range []string{"Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"} {
		send(t, p.addr, "POST /r HTTP/1.1\r\nHost: a\r\n"+body+"GET /r/2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		heard := e.said()
		if len(heard) == 0 || !strings.Contains(heard[0], "\r\nContent-Length: 3\r\n") || !strings.HasSuffix(heard[0], "\r\n\r\nabc") || strings.Contains(heard[0], "ransfer") {
			t.Errorf("the server got %q", heard)
		}
		if body[0] == 'C' && (len(heard) != 2 || !strings.HasPrefix(heard[1], "GET /r/2 ")) {
			t.Errorf("the server got %q, want two requests", heard)
		}
	}
}

func TestPanicIsAnswered(t *testing.T) {
	t.Parallel()
	p := start(t, "", func(cfg *proxy.Config) {
		cfg.Servers = []string{"http://127.0.0.1:1"}
		cfg.Page = func(*fasthttp.RequestCtx) error { panic("at once") }
	})
	if got := ask(t, p.addr, "GET", "/restaurants/7", ""); got.status != 500 || code(got.body) != "internal" {
		t.Errorf("got %+v", got)
	}
}
