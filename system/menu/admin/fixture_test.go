package admin

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"golang.org/x/crypto/bcrypt"

	"loadstone/block/browsertest"
	"loadstone/system/menu"
	"loadstone/system/menu/pebblestore"
	"loadstone/system/menu/web"
)

const (
	key      = "a-key-that-nobody-guesses"
	password = "correct horse battery"
)

// accountsOf are NAME:ROLE with the one password, hashed as cheaply as can be.
func accountsOf(t *testing.T, names ...string) *Accounts {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, name := range names {
		name, role, _ := strings.Cut(name, ":")
		fmt.Fprintln(&text, name, role, string(hash))
	}
	accounts, err := parseAccounts([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return accounts
}

func menuOf(t *testing.T, body string) *menu.Menu {
	t.Helper()
	m, err := menu.ParseJSON([]byte(body))
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

const seven = `{"id":7,"currency":"EUR","dishes":[
	{"dishType":"dinner","subType":"main","dish":"Shiro","price":12.50,"ingredients":["chickpeas","garlic, roasted"]},
	{"dishType":"dinner","subType":"main","dish":"Kitfo","price":15.00,"ingredients":[]},
	{"dishType":"breakfast","subType":"sweet","dish":"Genfo","price":4.00}]}`

// openDesk returns a database with menu 7, written by "api".
func openDesk(t *testing.T) menu.Desk {
	t.Helper()
	cfg := pebblestore.DefaultConfig()
	cfg.Dir, cfg.Registerer = filepath.Join(t.TempDir(), "menus"), prometheus.NewRegistry()
	db, err := pebblestore.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, _, err := db.Replace(t.Context(), menuOf(t, seven), menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	return db
}

type fixture struct {
	url      string
	admin    *Admin
	desk     menu.Desk
	accounts *atomic.Pointer[Accounts]
	told     *atomic.Int64 // writes that caches were told of
}

// start serves the admin of a desk, with an editor and a publisher.
func start(t *testing.T, desk menu.Desk, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{desk: desk, accounts: &atomic.Pointer[Accounts]{}, told: &atomic.Int64{}}
	f.accounts.Store(accountsOf(t, "ben:editor", "ada:publisher"))
	site, err := web.New(web.Config{Lookup: desk.Lookup, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Desk: desk, Accounts: f.accounts.Load, Key: key, Preview: site.Preview,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Writer: &menu.Writer{Database: desk, Changed: func(context.Context, int64, menu.Page, bool) error {
			f.told.Add(1)
			return nil
		}},
	}
	if change != nil {
		change(&cfg)
	}
	if f.admin, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	f.url = browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) {
		if strings.HasPrefix(string(ctx.Path()), web.Path) {
			_ = site.Handle(ctx) // always nil
			return
		}
		_ = f.admin.Handle(ctx) // always nil
	})
	return f
}

// browser is one that knows no script. It keeps one cookie.
type browser struct {
	t      *testing.T
	url    string
	cookie string
	// headers are sent with every request, NAME: VALUE.
	headers []string
}

func (f *fixture) browser(t *testing.T) *browser {
	t.Helper()
	return &browser{t: t, url: f.url, headers: []string{"Sec-Fetch-Site: same-origin"}}
}

// as is a browser in which the account is signed in.
func (f *fixture) as(t *testing.T, name string) *browser {
	t.Helper()
	b := f.browser(t)
	b.post("/sign-in", 303, "", "name", name, "password", password)
	return b
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (b *browser) ask(method, path, body string) answer {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+Path+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.cookie != "" {
		req.Header.Set("Cookie", cookieName+"="+b.cookie)
	}
	for _, h := range b.headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range res.Cookies() {
		if c.Name == cookieName {
			b.cookie = c.Value
		}
	}
	return answer{res.StatusCode, res.Header, string(text)}
}

func (b *browser) want(got answer, what string, status int, text string) answer {
	b.t.Helper()
	if got.status != status || !strings.Contains(got.body, text) {
		b.t.Errorf("%s: got status %d and %.3000q, want %d and %q", what, got.status, got.body, status, text)
	}
	return got
}

func (b *browser) get(path string, status int, text string) answer {
	b.t.Helper()
	return b.want(b.ask("GET", path, ""), "GET "+path, status, text)
}

// post sends a form of names and values in turn.
func (b *browser) post(path string, status int, text string, fields ...string) answer {
	b.t.Helper()
	var form strings.Builder
	for i := 0; i < len(fields); i += 2 {
		form.WriteString(url.QueryEscape(fields[i]) + "=" + url.QueryEscape(fields[i+1]) + "&")
	}
	return b.want(b.ask("POST", path, form.String()), "POST "+path, status, text)
}

// save saves a draft of a menu from the form that is shown for it, with one dish.
func (b *browser) save(id, dish, price string) {
	b.t.Helper()
	hidden := b.hidden(b.get("/menus/"+id+"/edit", 200, "Save the draft").body)
	b.post("/menus/"+id+"/edit", 303, "", append(hidden, "do", "save", "currency", "EUR", "link", "",
		"type", "dinner", "subtype", "main", "name", dish, "price", price, "ingredients", "", "photo", "")...)
}

// hidden are the hidden fields of a page, names and values in turn.
func (b *browser) hidden(page string) (fields []string) {
	b.t.Helper()
	for part := range strings.SplitSeq(page, `<input type="hidden" name="`) {
		name, rest, ok := strings.Cut(part, `" value="`)
		value, _, closed := strings.Cut(rest, `"`)
		if ok && closed && !strings.ContainsAny(name, "<> ") {
			fields = append(fields, name, value)
		}
	}
	return fields
}

// publish publishes the draft from the page that shows it.
func (b *browser) publish(id string, status int, text string) {
	b.t.Helper()
	page := b.get("/menus/"+id, 200, "Publish").body
	b.post("/menus/"+id+"/publish", status, text, b.hidden(page)[:4]...)
}

// published is the menu's JSON, as guests have it.
func (f *fixture) published(t *testing.T, id int64) string {
	t.Helper()
	page, err := f.desk.Lookup(t.Context(), id)
	if err != nil {
		return err.Error()
	}
	return strings.Clone(string(page.Body))
}
