package proxy_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"loadstone/block/cache/rediscache"
	"loadstone/block/dictionary"
	"loadstone/block/httpserver"
	"loadstone/block/lookaside"
	"loadstone/system/menu"
	"loadstone/system/menu/httpapi"
	"loadstone/system/menu/menutest"
	"loadstone/system/menu/proxy"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// They sleep, up to half a minute, and then see that there is nothing left to do.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

const (
	token  = "correct-horse-battery"
	bearer = "Authorization: Bearer " + token
	asJSON = "Content-Type: application/json"
	// patience is how long a test waits for what must happen.
	patience = time.Minute
)

func always() bool { return true }

// serving answers on a port of its own until the returned function is called, or the test ends.
func serving(t *testing.T, handle fasthttp.RequestHandler, bad func(*fasthttp.RequestCtx, int)) (addr string, stop func()) {
	t.Helper()
	cfg := httpserver.DefaultConfig()
	cfg.Addr, cfg.Drain, cfg.ReadTimeout, cfg.MaxBodyBytes = "127.0.0.1:0", 0, time.Minute, 128<<10
	cfg.Handler, cfg.BadRequest, cfg.Registerer = handle, bad, prometheus.NewRegistry()
	server, err := httpserver.Listen(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Run(ctx); err != nil {
			t.Errorf("server: %v", err)
		}
	}()
	stop = func() { end(); <-done }
	t.Cleanup(stop)
	return server.Addr().String(), stop
}

// closing closes it when the test ends.
func closing(t *testing.T, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// cacheConfig is patient, as tests share their machine.
func cacheConfig(redis string, reg prometheus.Registerer) lookaside.Config {
	r := rediscache.DefaultConfig(proxy.CacheName, redis, reg)
	r.ReadTimeout, r.WriteTimeout, r.ProbeEvery = 5*time.Second, 5*time.Second, 5*time.Millisecond
	c := lookaside.DefaultConfig(r)
	c.LoadTimeout, c.Shed.Wait = patience, patience
	return c
}

// memory is a database in memory. What it does not have, nobody asks for.
type memory struct {
	menu.Database

	mu    sync.Mutex
	pages map[int64]menu.Page     // without a body: deleted
	texts map[int64]menu.Document // of availability
}

func (d *memory) Document(_ context.Context, _ menu.Kind, id int64) (menu.Document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	text, ok := d.texts[id]
	if !ok {
		return text, menu.ErrNotFound
	}
	return text, nil
}

func (d *memory) SetDocument(_ context.Context, text *menu.Document, _ menu.Condition) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	text.Tag = menu.Tag(text.Body)
	d.texts[text.ID] = *text
	return nil
}

// database has the menus 1 to 20.
func database(t *testing.T) *memory {
	t.Helper()
	db := &memory{pages: make(map[int64]menu.Page), texts: make(map[int64]menu.Document)}
	for id := range int64(20) {
		m := menutest.Example(id+1, 1)
		if _, _, err := db.Replace(t.Context(), &m, menu.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func (d *memory) Lookup(_ context.Context, id int64) (menu.Page, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	page := d.pages[id]
	if page.Body == nil {
		return menu.Page{Version: page.Version}, menu.ErrNotFound
	}
	return page, nil
}

func (d *memory) Replace(_ context.Context, m *menu.Menu, only menu.Condition) (page menu.Page, created bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.pages[m.ID]
	if !only.Holds(old.Tag, old.Body != nil) {
		return page, false, menu.ErrChanged
	}
	page.Body = m.AppendJSON(nil)
	page.Tag, page.Version = menu.Tag(page.Body), old.Version+1
	d.pages[m.ID] = page
	return page, old.Body == nil, nil
}

func (d *memory) Create(ctx context.Context, m *menu.Menu) (menu.Page, error) {
	m.ID = 1000
	page, _, err := d.Replace(ctx, m, menu.Condition{Absent: true})
	return page, err
}

func (d *memory) Delete(_ context.Context, id int64, _ menu.Condition) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.pages[id]
	if old.Body == nil {
		return 0, menu.ErrNotFound
	}
	d.pages[id] = menu.Page{Version: old.Version + 1}
	return old.Version + 1, nil
}

// menuServer serves the store, telling the cache at redis of writes; empty for none.
func menuServer(t *testing.T, db menu.Store, redis string, known ...*dictionary.Dictionary) (addr string, stop func()) {
	t.Helper()
	with := dictionary.NewSet(known...)
	cfg := httpapi.Config{Store: db, Dictionaries: with, Token: token, Ready: always, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()}
	if redis != "" {
		cc := cacheConfig(redis, cfg.Registerer)
		proxy.Filling(&cc, with, proxy.FromStore(db))
		cache, err := lookaside.New(t.Context(), cc)
		if err != nil {
			t.Fatal(err)
		}
		closing(t, cache)
		telling := proxy.Telling{Cache: cache, Dictionaries: with}
		cfg.Changing, cfg.Changed = telling.Changing, telling.Changed
	}
	api, err := httpapi.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return serving(t, api.Handle, api.BadRequest)
}

// started is a running proxy.
type started struct {
	*proxy.Proxy

	addr string
	reg  *prometheus.Registry
}

// start starts a proxy before the menu servers.
func start(t *testing.T, redis string, change func(*proxy.Config), servers ...string) started {
	t.Helper()
	cfg := proxy.DefaultConfig()
	s := started{reg: prometheus.NewRegistry()}
	for _, addr := range servers {
		cfg.Servers = append(cfg.Servers, "http://"+addr)
	}
	cfg.Limits.Timeout = patience
	cfg.Ready, cfg.Logger, cfg.Registerer = always, slog.New(slog.DiscardHandler), s.reg
	if redis != "" {
		cc := cacheConfig(redis, s.reg)
		cfg.Cache = &cc
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if s.Proxy, err = proxy.New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	closing(t, s.Proxy)
	s.addr, _ = serving(t, s.Handle, s.BadRequest)
	return s
}

// metric adds up the series of a metric that have the label's value.
func (s started) metric(t *testing.T, name, value string) float64 {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total, found := 0.0, false
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if family.GetName() == name && l.GetValue() == value {
					total += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
					found = true
				}
			}
		}
	}
	if !found {
		t.Fatalf("there is no metric %s of %s", name, value)
	}
	return total
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	length int64
}

// ask sends one request and reads the answer.
func ask(t *testing.T, addr, method, target, body string, headers ...string) answer { //nolint:revive // the parts of a request
	t.Helper()
	lines := append([]string{method + " " + target + " HTTP/1.1", "Host: menus", "Connection: close"}, headers...)
	if body != "" {
		lines = append(lines, "Content-Length: "+itoa(len(body)))
	}
	conn := dial(t, addr)
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"+body) // may be refused before it has been sent
	return parse(t, method, conn)
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// send sends bytes and returns all that comes back.
func send(t *testing.T, addr, raw string) []byte {
	t.Helper()
	conn := dial(t, addr)
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, raw)
	got, err := io.ReadAll(conn)
	if err != nil && len(got) == 0 {
		t.Fatalf("request %.60q: %v", raw, err)
	}
	return got
}

func parse(t *testing.T, method string, raw io.Reader) answer {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(raw), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("the answer to %s: %v", method, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	a := answer{resp.StatusCode, resp.Header, string(got), resp.ContentLength}
	if err != nil {
		a.length = -2 // cut
	}
	return a
}
