package nginx_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/block/forwarded"
	"loadstone/block/servertest"
	"loadstone/block/smuggling"
	"loadstone/system/menu/menutest"
	"loadstone/system/menu/serve"
	"loadstone/system/menu/stores"
)

const (
	// deadline bounds every wait. Nothing here takes a tenth of it on an idle machine.
	deadline = 60 * time.Second

	token  = "s3cret-and-long-enough"
	bearer = "Authorization: Bearer " + token
	asJSON = "Content-Type: application/json"

	password = "correct-horse"
	account  = "ada publisher $2a$04$OhTJgG4MjKtp24Fv5vv5vuRHZ01sp01DLBGbLFaBHb0UDVGqdV3Rq\n"

	menus = 50
)

// system is the menus' full form: NGINX, two proxies with Redis, NGINX again, a menu server
// and its database. In the same NGINX both templates are a second time, before upstreams that
// keep what reaches them.
type system struct {
	lb, menulb             string // addresses
	server, serverMetrics  string
	redis                  *servertest.RedisServer
	nginx                  *servertest.Process
	lbHeard, menulbHeard   string
	lbDown                 string // before nobody
	lbOpen                 string // with MENU_LIMITS=off and one request at a time, before who answers three together
	proxiesHear, menusHear *smuggling.Upstream
	echo                   *httptest.Server // behind the proxies' routes: says what it got
}

// start starts all of it, until the test ends.
func start(t *testing.T) *system {
	t.Helper()
	servertest.NGINXProgram(t)
	host := servertest.Host()
	at := func(port int) string { return fmt.Sprintf("%s:%d", host, port) }
	s := &system{
		lb: at(8090), menulb: at(8080), lbHeard: at(9090), menulbHeard: at(9080), lbDown: at(9070), lbOpen: at(9060),
		redis: servertest.Redis(t), proxiesHear: smuggling.Listen(t, "127.0.0.1:0"), menusHear: smuggling.Listen(t, "127.0.0.1:0"),
	}
	s.echo = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = r.Write(w) }))
	t.Cleanup(s.echo.Close)
	s.startServer(t)
	redis := "redis://" + s.redis.Addr()
	var proxies []string
	for range 2 {
		cfg := serve.DefaultProxyConfig()
		cfg.Servers, cfg.Redis, cfg.Routes = []string{"http://" + s.menulb}, redis, []string{"/api/echo=" + s.echo.URL, "/admins=" + s.echo.URL}
		address, _ := running(t, func(ctx context.Context, listening func(a, b net.Addr)) error {
			cfg.Listen, cfg.AdminListen, cfg.Drain, cfg.Listening = "127.0.0.1:0", "127.0.0.1:0", 0, listening
			return serve.RunProxy(ctx, cfg, slog.New(slog.DiscardHandler))
		})
		proxies = append(proxies, address)
	}
	dir := t.TempDir()
	// Names that all servers of a process share are suffixed.
	shared := regexp.MustCompile(`\b(proxies|menus|under_way|editing|limited)\b`)
	lay := func(from, suffix, listen string, servers map[string][]string, more ...string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		rendered := shared.ReplaceAllString(string(text), "${1}"+suffix)
		for name, addresses := range servers {
			rendered = servertest.NGINXServers(rendered, name+":8080", addresses...)
			rendered = strings.ReplaceAll(rendered, "http://"+name+":8080", "http://"+addresses[0])
		}
		rendered = regexp.MustCompile(`listen \d+`).ReplaceAllString(rendered, "listen "+listen)
		to := "conf.d/" + strings.TrimSuffix(filepath.Base(from), ".conf.template") + suffix + ".conf"
		if len(servers) == 0 {
			to = filepath.Base(from)
		}
		write(t, filepath.Join(dir, "etc", to), servertest.NGINXHere(dir, append(more, "${MENU_LIMITS}", "")...).Replace(rendered))
	}
	const lb, menulb = "lb/lb.conf.template", "menulb/menulb.conf.template"
	lay("nginx.conf", "", at(8081), nil)
	lay(lb, "", s.lb, map[string][]string{"proxy": proxies, "menulb": {s.menulb}})
	lay(menulb, "", s.menulb, map[string][]string{"menuserver": {s.server}})
	heard, dead := []string{s.proxiesHear.Address}, []string{"127.0.0.1:1"}
	lay(lb, "_heard", s.lbHeard, map[string][]string{"proxy": heard, "menulb": heard}, "limit_conn under_way_heard 500", "limit_conn under_way_heard 40")
	lay(menulb, "_heard", s.menulbHeard, map[string][]string{"menuserver": {s.menusHear.Address}})
	together := []string{three(t)}
	lay(lb, "_open", s.lbOpen, map[string][]string{"proxy": together, "menulb": together}, "limit_conn under_way_open 500", "limit_conn under_way_open 1", "${MENU_LIMITS}", "off")
	lay(lb, "_down", s.lbDown, map[string][]string{"proxy": dead, "menulb": dead})
	s.nginx = servertest.NGINX(t, dir)
	return s
}

// three is the address of a server that answers when three requests are under way.
func three(t *testing.T) string {
	t.Helper()
	var came atomic.Int64
	all := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if came.Add(1) == 3 {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// startServer starts the menu server, with menus 1 to 50 and an account.
func (s *system) startServer(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	cfg := serve.DefaultConfig()
	cfg.Store, cfg.Redis, cfg.Token = "pebble:"+filepath.Join(dir, "menus"), "redis://"+s.redis.Addr(), token
	cfg.Accounts = filepath.Join(dir, "accounts")
	write(t, cfg.Accounts, account)
	name, err := stores.Parse(cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := name.Fill(t.Context(), menutest.Generator(t, 1, menus), nil); err != nil {
		t.Fatal(err)
	}
	// As compose.yaml has it: both NGINX, and here the clients, too.
	if cfg.Proxies, err = forwarded.Parse("127.0.0.0/8"); err != nil {
		t.Fatal(err)
	}
	s.server, s.serverMetrics = running(t, func(ctx context.Context, listening func(a, b net.Addr)) error {
		cfg.Listen, cfg.AdminListen, cfg.Drain, cfg.Listening = "127.0.0.1:0", "127.0.0.1:0", 0, listening
		return serve.Run(ctx, cfg, slog.New(slog.DiscardHandler))
	})
}

// running runs a service until the test's end and returns its addresses.
func running(t *testing.T, run func(ctx context.Context, listening func(a, b net.Addr)) error) (address, admin string) {
	t.Helper()
	ready, done := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		done <- run(ctx, func(a, b net.Addr) { address, admin = a.String(), b.String(); close(ready) })
	}()
	select {
	case <-ready:
	case err := <-done:
		stop()
		t.Fatalf("it ended before it listened: %v", err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("it ended with %v, want nil", err)
		}
	})
	return address, admin
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends METHOD TARGET over a connection of its own; lines are headers. An answer that asks
// to come again is not the last, for the machine may be slow.
func ask(t *testing.T, at, request, body string, lines ...string) answer {
	t.Helper()
	return from(t, "127.0.0.1", at, request, body, lines...)
}

// from is ask for a client at an address.
//
//nolint:revive // the arguments of ask, and one more
func from(t *testing.T, client, at, request, body string, lines ...string) (got answer) {
	t.Helper()
	head := append([]string{request + " HTTP/1.1", "Host: " + at, "Connection: close"}, lines...)
	if body != "" {
		head = append(head, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	method, _, _ := strings.Cut(request, " ")
	return again(func() answer { return exchange(t, client, at, method, strings.Join(head, "\r\n")+"\r\n\r\n"+body) })
}

// again tries until there is no more talk of coming again, or for long.
func again(try func() answer) (got answer) {
	for end := time.Now().Add(deadline); ; <-time.After(100 * time.Millisecond) {
		if got = try(); got.status != http.StatusServiceUnavailable || time.Now().After(end) {
			return got
		}
	}
}

// exchange sends bytes and reads an answer; the status is 0 if there is none.
func exchange(t *testing.T, client, at, method, text string) answer {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(client)}}
	conn, err := dialer.DialContext(t.Context(), "tcp", at)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(deadline))
	_, _ = io.WriteString(conn, text) // may be refused before it has been sent
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%.80q: no answer in %v", text, deadline)
		}
		return answer{}
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body) // cut off, perhaps
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// done is how many writes the menu server has done.
func (s *system) done(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(ask(t, s.serverMetrics, "GET /metrics", "").body) {
		if n, ok := strings.CutPrefix(line, `menu_writes_total{outcome="done"} `); ok {
			return strings.TrimSpace(n)
		}
	}
	t.Fatal("there is no number of writes")
	return ""
}
