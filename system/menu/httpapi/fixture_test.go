package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/dataset"
	"loadstone/block/dictionary"
	"loadstone/block/httpserver"
	"loadstone/block/openapitest"
	"loadstone/system/menu"
	"loadstone/system/menu/httpapi"
)

// memory is a database in memory, which fails as it is told.
type memory struct {
	mu    sync.Mutex
	menus map[int64]row
	texts map[int64]menu.Document // of availability
	err   error                   // of everything from now on
	panic string                  // likewise
}

type row struct {
	page menu.Page
	gone bool
}

func (m *memory) Lookup(_ context.Context, id int64) (menu.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.panic != "" {
		panic(m.panic)
	}
	if err := m.err; err != nil {
		return menu.Page{}, err
	}
	r, ok := m.menus[id]
	if !ok || r.gone {
		return menu.Page{Version: r.page.Version}, fmt.Errorf("look up %d: %w", id, menu.ErrNotFound)
	}
	return r.page, nil
}

// write lets next be stored if the condition holds.
func (m *memory) write(id int64, only menu.Condition, unmet error, next *menu.Menu) (page menu.Page, created bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.menus[id]
	exists := ok && !r.gone
	switch {
	case m.err != nil:
		return page, false, m.err
	case !only.Holds(r.page.Tag, exists):
		return page, false, unmet
	case next == nil && !exists:
		return page, false, menu.ErrNotFound
	}
	page.Version = r.page.Version + 1
	if next != nil {
		page.Body = next.AppendJSON(nil)
		page.Tag = menu.Tag(page.Body)
	}
	m.menus[id] = row{page, next == nil}
	return page, !exists, nil
}

func (m *memory) Create(_ context.Context, next *menu.Menu) (menu.Page, error) {
	if next.ID == 0 {
		m.mu.Lock()
		next.ID = slices.Max(append(slices.Collect(maps.Keys(m.menus)), 0)) + 1
		m.mu.Unlock()
	}
	page, _, err := m.write(next.ID, menu.Condition{Absent: true}, menu.ErrExists, next)
	return page, err
}

func (m *memory) Replace(_ context.Context, next *menu.Menu, only menu.Condition) (menu.Page, bool, error) {
	return m.write(next.ID, only, menu.ErrChanged, next)
}

func (m *memory) Delete(_ context.Context, id int64, only menu.Condition) (int64, error) {
	page, _, err := m.write(id, only, menu.ErrChanged, nil)
	return page.Version, err
}

func (m *memory) Document(_ context.Context, kind menu.Kind, id int64) (menu.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.err; err != nil {
		return menu.Document{}, err
	}
	d, ok := m.texts[id]
	if !ok || kind != menu.Availability {
		return d, menu.ErrNotFound
	}
	return d, nil
}

func (m *memory) SetDocument(_ context.Context, d *menu.Document, only menu.Condition) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	there, ok := m.texts[d.ID]
	switch {
	case m.err != nil:
		return m.err
	case !only.Holds(there.Tag, ok):
		return menu.ErrChanged
	case d.Body == nil:
		delete(m.texts, d.ID)
		return nil
	}
	d.Tag = menu.Tag(d.Body)
	m.texts[d.ID] = *d
	return nil
}

func (*memory) Menus(context.Context) (dataset.Source[menu.Menu], error) { panic("not asked for") }
func (*memory) Ping(context.Context) error                               { return nil }
func (*memory) Close() error                                             { return nil }

// fail makes everything fail, or nothing.
func (m *memory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// state is all that is stored of menus, as text.
func (m *memory) state() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(m.menus)) {
		r := m.menus[id]
		fmt.Fprintf(&b, "%d: version %d, gone %v, %s\n", id, r.page.Version, r.gone, r.page.Body)
	}
	return b.String()
}

// published is a store that cannot be written to.
type published struct{ menu.Store }

const (
	token  = "correct-horse-battery"
	bearer = "Authorization: Bearer " + token
	asJSON = "Content-Type: application/json"

	shiro = `{"dishType":"dinner","subType":"main","dish":"Shiro","price":12.50,"ingredients":["chickpeas"]}`
	seven = `{"id":7,"dishes":[` + shiro + `],"link":null,"currency":"USD"}`
	eight = `{"id":8,"dishes":[],"link":"https://eight.example/menu","currency":"EUR"}`
)

func tagOf(body string) string { return fmt.Sprintf(`"%016x"`, menu.Tag([]byte(body))) }

// newMemory has menus 7, a version 2, and 8. 9 was deleted, at version 2.
func newMemory(tb testing.TB) *memory {
	tb.Helper()
	db := &memory{menus: map[int64]row{}, texts: map[int64]menu.Document{}}
	for _, body := range []string{seven, seven, eight, strings.ReplaceAll(eight, "8", "9")} {
		m, err := menu.ParseJSON([]byte(body))
		if err == nil {
			_, _, err = db.Replace(tb.Context(), &m, menu.Condition{})
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := db.Delete(tb.Context(), 9, menu.Condition{}); err != nil {
		tb.Fatal(err)
	}
	return db
}

// fixture is a running server.
type fixture struct {
	addr string
	db   *memory
	reg  *prometheus.Registry
	logs *logs
	have *dictionary.Dictionary // of the client
}

// logs is a slog destination that tests can read.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// start starts a server for newMemory, with the token; change may be nil. It waits for
// requests as long as a busy machine takes.
func start(t *testing.T, change func(*httpapi.Config)) fixture {
	t.Helper()
	return startReading(t, change, time.Minute)
}

// startReading is start for a server that waits so long for a whole request.
func startReading(t *testing.T, change func(*httpapi.Config), timeout time.Duration) fixture {
	t.Helper()
	f := fixture{db: newMemory(t), reg: prometheus.NewRegistry(), logs: &logs{}}
	c := httpapi.Config{
		Store: f.db, Token: token, Ready: func() bool { return true },
		Logger: slog.New(slog.NewTextHandler(f.logs, nil)), Registerer: f.reg,
	}
	if change != nil {
		change(&c)
	}
	api, err := httpapi.New(c)
	if err != nil {
		t.Fatal(err)
	}
	cfg := httpserver.DefaultConfig()
	cfg.ReadTimeout, cfg.MaxBodyBytes = timeout, menu.MaxBodyBytes
	cfg.Handler, cfg.BadRequest, cfg.Registerer = api.Handle, api.BadRequest, f.reg
	f.addr = openapitest.Serve(t, cfg)
	return f
}

// answer is what came back.
type answer struct {
	openapitest.Answer
	document string // the document's name for it
}

// ask sends METHOD TARGET with headers, and a body if there is one, closing the connection.
func (f fixture) ask(t *testing.T, request, body string, headers ...string) answer {
	t.Helper()
	lines := append([]string{request + " HTTP/1.1", "Host: menus", "Connection: close"}, headers...)
	if body != "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return f.send(t, strings.Join(lines, "\r\n")+"\r\n\r\n"+body)
}

// write asks with the token and a body of JSON.
func (f fixture) write(t *testing.T, request, body string, headers ...string) answer {
	t.Helper()
	return f.ask(t, request, body, append(headers, bearer, asJSON)...)
}

var theDocument = sync.OnceValues(func() (*openapitest.Document, error) { return openapitest.Read("openapi.json") })

// send sends a request as it is, and compares the answer with the document.
func (f fixture) send(t *testing.T, raw string) answer {
	t.Helper()
	method, target, came := openapitest.Exchange(t, f.addr, raw)
	got := answer{Answer: came}
	document, err := theDocument()
	if err != nil {
		t.Fatal(err)
	}
	plain := got.Answer
	if plain.Header.Get("Content-Encoding") == "dcz" && method == "GET" {
		plain.Body = f.decoded(t, plain.Body)
	}
	if got.document, err = document.Check(method, target, plain); err != nil {
		t.Errorf("request %.80q: %v", raw, err)
	}
	return got
}

// want compares the status, the body or a part of it, and headers: names and values in turn.
func (got answer) want(t *testing.T, status int, part string, headers ...string) {
	t.Helper()
	if got.Status != status || !strings.Contains(got.Body, part) {
		t.Errorf("got %d %.400q, want %d and %q", got.Status, got.Body, status, part)
	}
	for i := 0; i < len(headers); i += 2 {
		if value := got.Header.Get(headers[i]); value != headers[i+1] {
			t.Errorf("header %s: got %q, want %q", headers[i], value, headers[i+1])
		}
	}
}

// count is a counter with the label's value, if one is given.
func (f fixture) count(t *testing.T, name string, value ...string) float64 {
	t.Helper()
	families, err := f.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (len(value) == 0 || m.GetLabel()[0].GetValue() == value[0]) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s %v", name, value)
	return 0
}
