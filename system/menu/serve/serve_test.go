package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"loadstone/block/account"
	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/admin"
	"loadstone/system/menu/menutest"
	"loadstone/system/menu/search"
	"loadstone/system/menu/stores"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m.Run)) }

// logs is what services say.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const token = "s3cret-and-long-enough"

// running runs a service until the test's end and returns its addresses and its log.
func running(t *testing.T, run func(ctx context.Context, listening func(a, b net.Addr), logger *slog.Logger) error) (api, admin string, said *logs) {
	t.Helper()
	said = &logs{}
	ready, done := make(chan struct{}), make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		done <- run(ctx, func(a, b net.Addr) {
			api, admin = "http://"+a.String(), "http://"+b.String()
			close(ready)
		}, slog.New(slog.NewTextHandler(said, nil)))
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
	return api, admin, said
}

// serving runs a menu server until the test's end and returns its addresses and its log.
func serving(t *testing.T, cfg Config) (api, admin string, said *logs) {
	t.Helper()
	return running(t, func(ctx context.Context, listening func(a, b net.Addr), logger *slog.Logger) error {
		cfg.Listen, cfg.AdminListen, cfg.Drain, cfg.Listening = "127.0.0.1:0", "127.0.0.1:0", 0, listening
		return Run(ctx, cfg, logger)
	})
}

// ask sends a request over a connection of its own; headers are NAME: VALUE.
func ask(t *testing.T, method, url, body string, headers ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// want sends METHOD URL, perhaps with a body and headers behind it, and checks the answer.
func want(t *testing.T, request string, status int, text string, sent ...string) {
	t.Helper()
	method, url, _ := strings.Cut(request, " ")
	body, headers := "", []string(nil)
	if len(sent) > 0 {
		body, headers = sent[0], sent[1:]
	}
	got, answer := ask(t, method, url, body, headers...)
	// On a busy machine a service may not reach its caches in time: it says so, and that
	// nothing has been written.
	for deadline := time.Now().Add(time.Minute); got == http.StatusServiceUnavailable && got != status && time.Now().Before(deadline) &&
		(method == http.MethodGet || strings.Contains(answer, `"caches_unavailable"`)); time.Sleep(20 * time.Millisecond) {
		got, answer = ask(t, method, url, body, headers...)
	}
	if got != status || !strings.Contains(answer, text) {
		t.Errorf("%s: got status %d and %.300q, want %d and %q", request, got, answer, status, text)
	}
}

// filled returns the name of a database with menus 1 to 50.
func filled(t *testing.T) string {
	t.Helper()
	return fill(t, "pebble:"+filepath.Join(t.TempDir(), "menus"), 1, 50)
}

func fill(t *testing.T, text string, seed uint64, menus int64) string {
	t.Helper()
	name, err := stores.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	source := menutest.Generator(t, seed, menus)
	if name.Kind == stores.Record {
		_, err = name.Publish(t.Context(), source, nil, nil)
	} else {
		_, err = name.Fill(t.Context(), source, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

const shiro = `{"dishes":[{"dishType":"dinner","subType":"main","dish":"Shiro","price":12.50}]}`

func TestServesAndChangesADatabase(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Store, cfg.Token, cfg.AdminToken = filled(t), token, "s3cret-of-the-admin"
	api, admin, said := serving(t, cfg)
	bearer := "Authorization: Bearer " + token
	want(t, "GET "+api+"/readyz", 200, "ok")
	want(t, "GET "+api+"/menu/1", 200, `{"id":1,`)
	want(t, "GET "+api+"/restaurants/1", 200, "<html")
	want(t, "GET "+api+"/restaurants/51", 404, "<html")
	want(t, "PUT "+api+"/menu/51", 401, "unauthorized", shiro, "Content-Type: application/json")
	want(t, "PUT "+api+"/menu/51", 201, `"price":12.50`, shiro, bearer, "Content-Type: application/json")
	want(t, "GET "+api+"/menu/51", 200, "Shiro")
	want(t, "GET "+api+"/restaurants/51", 200, "Shiro")
	want(t, "DELETE "+api+"/menu/51", 204, "", "", bearer)
	want(t, "GET "+api+"/menu/51", 404, "not_found")
	want(t, "GET "+admin+"/metrics", 200, `menu_writes_total{outcome="done"} 2`)
	if strings.Contains(said.String(), "s3cret") {
		t.Errorf("a secret is in the log: %s", said)
	}
}

// A file that is published again is served without a restart.
func TestServesTheNewestFile(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Store = fill(t, "record:"+filepath.Join(t.TempDir(), "menus"), 1, 50)
	cfg.Token = token
	api, _, said := serving(t, cfg)
	want(t, "PUT "+api+"/menu/1", 405, "read_only", shiro, "Authorization: Bearer "+token, "Content-Type: application/json")
	_, before := ask(t, "GET", api+"/menu/1", "")
	fill(t, cfg.Store, 2, 50)
	m := menutest.Generator(t, 2, 50).Menu(1)
	after := string(m.AppendJSON(nil))
	if before == after {
		t.Fatal("both seeds have the same menu: nothing is tested")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, got := ask(t, "GET", api+"/menu/1", "")
		if got == after {
			break
		}
		if got != before || time.Now().After(deadline) {
			t.Fatalf("got %s, want %s soon; the log: %s", got, after, said)
		}
	}
}

func TestMistakesAreSaidBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(*Config){
		"write record:FILE":    func(c *Config) { c.Store = "sqlite:x" },
		"write at least 16":    func(c *Config) { c.Token = "short" },
		"redis must be":        func(c *Config) { c.Redis = "cache:6379" },
		"name the file of":     func(c *Config) { c.SearchIndex = "search" },
		"write HOST:PORT":      func(c *Config) { c.Listen = "here" },
		"there is no data set": func(c *Config) { c.Store = "record:" + filepath.Join(t.TempDir(), "none") },
	} {
		cfg := DefaultConfig()
		cfg.Store = "pebble:" + filepath.Join(t.TempDir(), "menus")
		change(&cfg)
		if err := Run(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

// proxying runs a proxy until the test's end and returns its addresses.
func proxying(t *testing.T, cfg ProxyConfig) (api, admin string) {
	t.Helper()
	api, admin, _ = running(t, func(ctx context.Context, listening func(a, b net.Addr), logger *slog.Logger) error {
		cfg.Listen, cfg.AdminListen, cfg.Drain, cfg.Listening = "127.0.0.1:0", "127.0.0.1:0", 0, listening
		return RunProxy(ctx, cfg, logger)
	})
	return api, admin
}

// A change is seen through every proxy as soon as it is confirmed, whatever Redis had: a menu,
// that there was none, or nothing.
func TestChangesAreSeenThroughProxies(t *testing.T) {
	t.Parallel()
	redis := "redis://" + servertest.Redis(t).Addr()
	cfg := DefaultConfig()
	cfg.Store, cfg.Token, cfg.Redis = filled(t), token, redis
	api, _, _ := serving(t, cfg)
	var proxies []string
	for range 2 {
		c := DefaultProxyConfig()
		c.Servers, c.Redis = []string{api}, redis
		p, _ := proxying(t, c)
		proxies = append(proxies, p)
	}
	everywhere := func(path string, status int, text string) {
		t.Helper()
		for range 2 { // from the server, and from Redis
			for _, p := range proxies {
				want(t, "GET "+p+path, status, text)
			}
		}
	}
	bearer, kind := "Authorization: Bearer "+token, "Content-Type: application/json"
	everywhere("/readyz", 200, "ok")
	everywhere("/api/menu/1", 200, `{"id":1,`)
	everywhere("/restaurants/1", 200, "<html")
	everywhere("/api/menu/51", 404, "not_found")
	want(t, "PUT "+proxies[0]+"/api/menu/1", 401, "unauthorized", shiro, kind)
	want(t, "PUT "+proxies[0]+"/api/menu/1", 200, "Shiro", shiro, bearer, kind)
	everywhere("/api/menu/1", 200, "Shiro")
	everywhere("/restaurants/1", 200, "Shiro")
	want(t, "PUT "+api+"/menu/51", 201, "Shiro", shiro, bearer, kind)
	everywhere("/api/menu/51", 200, "Shiro")
	want(t, "DELETE "+proxies[1]+"/api/menu/51", 204, "", "", bearer)
	everywhere("/api/menu/51", 404, "not_found")
	everywhere("/restaurants/51", 404, "<html")
}

// What is sold out is shown by menu servers and proxies.
func TestPagesShowWhatIsSoldOut(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Store, cfg.Token = filled(t), token
	api, _, _ := serving(t, cfg)
	c := DefaultProxyConfig()
	c.Servers = []string{api}
	proxy, _ := proxying(t, c)
	bearer, kind := "Authorization: Bearer "+token, "Content-Type: application/json"
	want(t, "PUT "+api+"/menu/1", 200, "Shiro", shiro, bearer, kind)
	want(t, "GET "+api+"/restaurants/1", 200, `<span class="dish">Shiro</span>`)
	want(t, "PATCH "+proxy+"/api/menu/1/sold-out", 200, "Shiro", `{"dish":"Shiro","soldOut":true}`, bearer, kind)
	for _, address := range []string{proxy, api} { // the second was asked a moment ago
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if _, page := ask(t, "GET", address+"/restaurants/1", ""); strings.Contains(page, `<s class="dish">Shiro</s>`) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s never shows it", address)
			}
		}
	}
	want(t, "GET "+proxy+"/api/menu/1/now", 200, `"soldOut":["Shiro"]`)
	want(t, "GET "+proxy+"/api/menu/1", 200, "Shiro")
}

// Editors find dishes, also those that were written a moment ago.
func TestEditorsFindDishes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := DefaultConfig()
	cfg.Store, cfg.Token = filled(t), token
	cfg.Accounts, cfg.SearchIndex = filepath.Join(dir, "accounts"), filepath.Join(dir, "search")
	name, err := stores.Parse(cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	if err := name.Desk(t.Context(), func(desk menu.Desk) error { return search.Build(t.Context(), cfg.SearchIndex, desk, nil) }); err != nil {
		t.Fatal(err)
	}
	if _, err := (account.File{Path: cfg.Accounts, Roles: admin.Roles()}).Set("ada", admin.Editor, token); err != nil {
		t.Fatal(err)
	}
	api, _, _ := serving(t, cfg)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api+"/admin/sign-in", strings.NewReader("name=ada&password="+token))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	cookie, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
	signedIn := "Cookie: " + cookie
	want(t, "GET "+api+"/admin/menus?q=shiro+of+the+hou", 200, "No dish was found.", "", signedIn)
	house := strings.Replace(shiro, "Shiro", "Shiro of the house", 1)
	want(t, "PUT "+api+"/menu/51", 201, "Shiro", house, "Authorization: Bearer "+token, "Content-Type: application/json")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, page := ask(t, "GET", api+"/admin/menus?q=SHIRO+of+the+hou", "", signedIn); strings.Contains(page, `<a href="/admin/menus/51">Shiro of the house</a>`) {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("it is never found: %.2000s", page)
		}
	}
}

// Paths of other services go there, and mistakes are said.
func TestRoutesOfAProxy(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Store = filled(t)
	api, _, _ := serving(t, cfg)
	c := DefaultProxyConfig()
	c.Servers, c.Routes, c.Page = []string{api}, []string{"/menu=" + api}, false
	p, _ := proxying(t, c)
	want(t, "GET "+p+"/menu/1", 200, `{"id":1,`)
	want(t, "GET "+p+"/restaurants/1", 404, "")
	for text, change := range map[string]func(*ProxyConfig){
		"there is no menu server": func(c *ProxyConfig) { c.Servers = nil },
		"http://host:port":        func(c *ProxyConfig) { c.Servers = []string{"menus"} },
		"belongs to the proxy":    func(c *ProxyConfig) { c.Routes = []string{"/api/menu=http://h:1"} },
		"redis must be":           func(c *ProxyConfig) { c.Redis = "cache" },
	} {
		c := DefaultProxyConfig()
		c.Listen, c.AdminListen, c.Servers = "127.0.0.1:0", "127.0.0.1:0", []string{"http://127.0.0.1:1"}
		change(&c)
		if err := RunProxy(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

// Editors' pages take the form of the largest menu and no larger one, and programs no larger menu.
func TestServesEditors(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Store, cfg.Token, cfg.Accounts = filled(t), token, filepath.Join(t.TempDir(), "accounts")
	if err := os.WriteFile(cfg.Accounts, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	api, admin, _ := serving(t, cfg)
	kind, same := "Content-Type: application/x-www-form-urlencoded", "Sec-Fetch-Site: same-origin"
	want(t, "GET "+api+"/admin", 401, "Sign in")
	want(t, "POST "+api+"/admin/sign-in", 401, "no account", "name=ada&password=long-enough-to-be-one", kind, same)
	want(t, "POST "+api+"/admin/menus/1/edit", 401, "signed out", strings.Repeat("x", 200<<10), kind, same)
	want(t, "PUT "+api+"/menu/1", 413, "too large", strings.Repeat("x", 200<<10), "Authorization: Bearer "+token, "Content-Type: application/json")
	want(t, "GET "+admin+"/metrics", 200, `menu_admin_sign_ins_total{outcome="wrong"} 1`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(api, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "POST /admin/menus/1/edit HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("HTTP/1.1 413"))
	if _, err := io.ReadFull(conn, line); err != nil || string(line) != "HTTP/1.1 413" {
		t.Errorf("2 MB: got %q and %v, want 413", line, err)
	}
}
