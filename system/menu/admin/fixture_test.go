package admin

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/account"
	"loadstone/block/backoffice"
	"loadstone/block/backoffice/backofficetest"
	"loadstone/block/browsertest"
	"loadstone/system/menu"
	"loadstone/system/menu/pebblestore"
	"loadstone/system/menu/web"
)

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
	accounts *atomic.Pointer[account.Accounts]
	told     *atomic.Int64 // writes that caches were told of
}

// start serves the admin of a desk, with an editor and a publisher.
func start(t *testing.T, desk menu.Desk, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{desk: desk, accounts: &atomic.Pointer[account.Accounts]{}, told: &atomic.Int64{}}
	f.accounts.Store(accountsOf(t, "ben:editor", "ada:publisher"))
	site, err := web.New(web.Config{Lookup: desk.Lookup, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Desk: desk, Preview: site.Preview,
		Office: backoffice.Config{
			Accounts: f.accounts.Load, Key: backofficetest.Key, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		},
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

// accountsOf are NAME:ROLE with the one password.
func accountsOf(t *testing.T, names ...string) *account.Accounts {
	t.Helper()
	return backofficetest.Accounts(t, Roles(), names...)
}

// browser is one that knows no script.
type browser struct {
	*backofficetest.Browser

	t *testing.T
}

func (f *fixture) browser(t *testing.T) *browser {
	t.Helper()
	return &browser{backofficetest.NewBrowser(t, f.url, "menu"), t}
}

// as is a browser in which the account is signed in.
func (f *fixture) as(t *testing.T, name string) *browser {
	t.Helper()
	b := f.browser(t)
	b.As(name)
	return b
}

// save saves a draft of a menu from the form that is shown for it, with one dish.
func (b *browser) save(id, dish, price string) {
	b.t.Helper()
	hidden := backofficetest.Hidden(b.Get("/menus/"+id+"/edit", 200, "Save the draft").Body)
	b.Post("/menus/"+id+"/edit", 303, "", append(hidden, "do", "save", "currency", "EUR", "link", "",
		"type", "dinner", "subtype", "main", "name", dish, "price", price, "ingredients", "", "photo", "")...)
}

// publish publishes the draft from the page that shows it.
func (b *browser) publish(id string, status int, text string) {
	b.t.Helper()
	page := b.Get("/menus/"+id, 200, "Publish").Body
	b.Post("/menus/"+id+"/publish", status, text, backofficetest.Hidden(page)[:4]...)
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
