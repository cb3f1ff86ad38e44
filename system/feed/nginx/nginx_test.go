package nginx

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"loadstone/block/servertest"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/serve/servetest"
	"loadstone/system/feed/stores"
)

// system is NGINX before two API servers.
type system struct {
	url, down string // down is before nobody
	log       string // the file in which NGINX writes a line a request
}

// filled is a store of a hundred posts.
func filled(t *testing.T) string {
	t.Helper()
	store := "sqlite:" + filepath.Join(t.TempDir(), "feed.db")
	name, err := stores.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	db, err := name.Make(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = db.Fill(t.Context(), feedtest.Generator(t, 1, 100), nil); err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// layout is where a configuration for this machine differs from the image's.
type layout struct {
	from, to, listen string
	servers          []string // of posts
	edge             string
	again            bool // it is there already, under other names
}

var (
	listens = regexp.MustCompile(`listen \d+`)
	// second has the names of a second configuration in one process.
	second = strings.NewReplacer("apis", "nobody", "default_server", "", "$feed_", "$gone_", "=feed:", "=gone:", "proxy_cache feed", "proxy_cache gone",
		"nginx/feed", "nginx/gone", "upstream edge", "upstream nowhere", "zone edge", "zone nowhere", "http://edge", "http://nowhere", "published.inc", "gone.inc", "editing", "going")
)

func (l layout) write(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(l.from)
	if err != nil {
		t.Fatal(err)
	}
	rendered := servertest.NGINXServers(string(text), "api:8080", l.servers...)
	rendered = strings.NewReplacer("${FEED_HTTP2}", "", "${FEED_LOG}", "/dev/stdout requests", "edge:8080", l.edge).Replace(rendered)
	if l.again {
		rendered = second.Replace(rendered)
	}
	rendered = listens.ReplaceAllString(rendered, "listen "+l.listen)
	to := filepath.Join(dir, "etc", l.to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(servertest.NGINXHere(dir).Replace(rendered)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// nobody listens there.
const nobody = "127.0.0.1:1"

// startNGINX starts one before servers of posts and an edge.
func startNGINX(t *testing.T, edge string, servers ...string) system {
	t.Helper()
	host, dir := servertest.Host(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	address, down := host+":8095", host+":8096"
	layout{from: "nginx.conf", to: "nginx.conf", listen: host + ":8081"}.write(t, dir)
	layout{from: "templates/feed.conf.template", to: "conf.d/feed.conf", listen: address, servers: servers, edge: edge}.write(t, dir)
	layout{from: "templates/published.inc.template", to: "conf.d/published.inc"}.write(t, dir)
	layout{from: "templates/published.inc.template", to: "conf.d/gone.inc", again: true}.write(t, dir)
	layout{from: "templates/feed.conf.template", to: "conf.d/down.conf", listen: down, servers: []string{nobody}, edge: nobody, again: true}.write(t, dir)
	servertest.NGINX(t, dir)
	return system{url: "http://" + address, down: "http://" + down, log: filepath.Join(dir, "access.log")}
}

func start(t *testing.T) system {
	t.Helper()
	store := filled(t)
	return startNGINX(t, nobody, servetest.Start(t, store, nil), servetest.Start(t, store, nil))
}

// lines waits until the log has so many, and returns them. It may have more.
func (s system) lines(t *testing.T, want int) []string {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(s.log)
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) >= want || time.Since(began) > time.Minute {
			return lines
		}
	}
}

// NGINX counts exactly as many requests as a journey takes in each way, and the user has read
// the same, byte for byte.
func TestJourneysThroughNGINX(t *testing.T) {
	s := start(t)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	first, before := "", 0
	for _, way := range feedtest.Ways() {
		read := feedtest.Journey(t, &http.Client{Transport: transport, Timeout: time.Minute}, s.url, way)
		if first == "" {
			first = read
		}
		if read != first {
			t.Errorf("%s: something else was read:\n%.500s\nwant\n%.500s", way.Name, read, first)
		}
		if n := len(s.lines(t, before+way.Requests)) - before; n != way.Requests {
			t.Errorf("%s: NGINX logged %d requests, want %d", way.Name, n, way.Requests)
		}
		before += way.Requests
	}
	s.answersForServers(t)
}

// answersForServers checks what NGINX says itself.
func (s system) answersForServers(t *testing.T) {
	t.Helper()
	for _, c := range []struct {
		url, request string
		status       int
		want         string
	}{
		{s.url, "GET /feed?limit=1 HTTP/1.1\r\nHost: x\r\n\r\n", 200, `"posts":[`},
		{s.url, "GET //feed HTTP/1.1\r\nHost: x\r\n\r\n", 404, `"no_such_path"`},
		{s.url, "GET /feed HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nxxxxx", 413, `{"error":{"code":"body_too_large"`},
		{s.url, "POST /feed HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n", 413, `{"error":{"code":"body_too_large"`},
		{s.url, "GET /feed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", 413, `{"error":{"code":"body_too_large"`},
		{s.url, "GET /bundle?posts=" + strings.Repeat("1,", 1_000_000) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, `{"error":{"code":"headers_too_large"`},
		{s.url, "GET /feed HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", 5000) + "\r\n\r\n", 431, `{"error":{"code":"headers_too_large"`},
		{s.url, "DELETE /feed HTTP/1.1\r\nHost: x\r\n\r\n", 405, `"method_not_allowed"`},
		{s.down, "GET /feed HTTP/1.1\r\nHost: x\r\n\r\n", 503, `{"error":{"code":"unavailable"`},
		{s.down, "GET /feed/pages/1.json HTTP/1.1\r\nHost: x\r\n\r\n", 503, `{"error":{"code":"unavailable"`},
		{s.url, "GET /feed/pages/1.json HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nxxxxx", 413, `{"error":{"code":"body_too_large"`},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(conn, c.request)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // read to its end
		if err != nil || response.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%.40q: got %d, %s and %v, want %d and %s", c.request, response.StatusCode, body, err, c.status, c.want)
		}
		_ = conn.Close()
	}
}
