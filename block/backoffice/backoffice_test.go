package backoffice_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/block/account"
	"loadstone/block/backoffice"
	"loadstone/block/backoffice/backofficetest"
	"loadstone/block/browsertest"
	"loadstone/block/forwarded"
)

// fixture is an office with one page, log, and POST things/ID.
type fixture struct {
	url      string
	accounts atomic.Pointer[account.Accounts]
}

func start(t *testing.T, change func(*backoffice.Config)) *fixture {
	t.Helper()
	f := &fixture{}
	f.accounts.Store(accountsOf(t, "ben:editor", "ada:publisher"))
	c := backoffice.Config{
		Name: "test", Links: []backoffice.Link{{Path: backoffice.Path, Name: "Home"}}, Style: "b{color:red}", Done: map[string]string{"it": "It is done."},
		Pages:    fstest.MapFS{"log.gohtml": {Data: []byte(`{{template "top" .}}<b>{{.Page}}</b>{{template "end" .}}`)}},
		Answer:   answer,
		Explain:  func(*backoffice.Request, error) *backoffice.Refusal { return nil },
		Accounts: f.accounts.Load, Key: backofficetest.Key, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&c)
	}
	office, err := backoffice.New(c)
	if err != nil {
		t.Fatal(err)
	}
	f.url = browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) { _ = office.Handle(ctx) }) // always nil
	return f
}

func answer(r *backoffice.Request) error {
	switch name, id, ok := r.Route("things"); {
	case !ok:
		return errors.New("secret")
	case name == "GET log", name == "POST things/ID":
		return r.Show(http.StatusOK, "log", backoffice.View{Title: "Changes", Done: r.Done(), Page: fmt.Sprint("<i>", id)})
	}
	return &backoffice.Refusal{Status: http.StatusNotFound, Text: "There is no such page."}
}

func accountsOf(t *testing.T, names ...string) *account.Accounts {
	t.Helper()
	return backofficetest.Accounts(t, []account.Role{"editor", "publisher"}, names...)
}

func (f *fixture) browser(t *testing.T) *backofficetest.Browser {
	t.Helper()
	return backofficetest.NewBrowser(t, f.url, "test")
}

func (f *fixture) as(t *testing.T, name string) *backofficetest.Browser {
	t.Helper()
	return f.browser(t).As(name)
}

func TestPages(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.browser(t).Get("/log", 401, "Sign in")
	f.browser(t).Post("/things/7", 401, "so nothing was done")
	ben := f.as(t, "ben")
	for _, part := range []string{"&lt;i&gt;0", "It is done.", "ben, editor", `<a href="/admin">Home</a>`, "b{color:red}", "header{"} {
		ben.Get("/log?done=it", 200, part)
	}
	ben.Post("/things/7", 200, "&lt;i&gt;7")
	ben.Get("/things/7", 404, "There is no such page.")
	if got := ben.Get("/things/x", 500, "which is in its log"); strings.Contains(got.Body, "secret") {
		t.Errorf("it said %s", got.Body)
	}
	ben.Headers = nil
	ben.Post("/things/7", 403, "did not come from a page of this address")
	if _, err := backoffice.New(backoffice.Config{}); err == nil {
		t.Error("an office of nothing was made")
	}
}

// A cookie counts if it is whole, ours, in time, and its account is as it was.
func TestCookies(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ben := f.as(t, "ben")
	good := ben.Cookie
	parts := strings.Split(good, ":")
	sign := func(key, end string) string {
		return f.accounts.Load().Find("ben").Sign([]byte(key), "test admin session\nben\n"+end)
	}
	if sign(backofficetest.Key, parts[1]) != parts[2] {
		t.Fatalf("the signature of %s is another one", good)
	}
	past := fmt.Sprint(time.Now().Add(-time.Second).Unix())
	for name, cookie := range map[string]string{
		"nothing":         "",
		"no parts":        "ben",
		"another's name":  "ada:" + parts[1] + ":" + parts[2],
		"nobody's name":   "eve:" + parts[1] + ":" + parts[2],
		"for longer":      "ben:9" + parts[1] + ":" + parts[2],
		"no signature":    "ben:" + parts[1] + ":",
		"a cut signature": good[:len(good)-1],
		"another key":     "ben:" + parts[1] + ":" + sign("another key that is as long", parts[1]),
		"past":            "ben:" + past + ":" + sign(backofficetest.Key, past),
		"more behind":     good + ":x",
		"long":            strings.Repeat("a:", 1000),
		"no number":       "ben:x:" + sign(backofficetest.Key, "x"),
		"zeros before":    "ben:0" + parts[1] + ":" + parts[2],
	} {
		ben.Cookie = cookie
		if got := ben.Ask("GET", "/log", ""); got.Status != 401 {
			t.Errorf("%s: got status %d", name, got.Status)
		}
	}
	ben.Cookie = good
	ben.Get("/log", 200, "Changes")
	f.accounts.Store(accountsOf(t, "ben:editor", "ada:publisher")) // the same password, hashed anew
	ben.Get("/log", 401, "Sign in")
	ben.Cookie = f.as(t, "ben").Cookie
	ben.Get("/log", 200, "Changes")
	f.accounts.Store(accountsOf(t, "ada:publisher"))
	ben.Get("/log", 401, "Sign in")
	ben.Post("/sign-in", 401, "no account with this name and password", "name", "ben", "password", backofficetest.Password)
}

func TestTheCookieItself(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	b := f.browser(t)
	got := b.Post("/sign-in", 303, "", "name", "ben", "password", backofficetest.Password).Header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "path=/admin", "max-age=43200"} {
		if !strings.Contains(got, want) {
			t.Errorf("the cookie %q lacks %s", got, want)
		}
	}
	if strings.Contains(strings.ToLower(got), "secure") {
		t.Errorf("over HTTP a browser would refuse %q", got)
	}
	b.Headers = append(b.Headers, "X-Forwarded-Proto: https")
	if got := b.Post("/sign-in", 303, "", "name", "ben", "password", backofficetest.Password).Header.Get("Set-Cookie"); !strings.Contains(strings.ToLower(got), "; secure") {
		t.Errorf("the cookie %q is not secure", got)
	}
	b.Post("/sign-out", 303, "")
	b.Get("/log", 401, "Sign in")
}

// Who signs in stays here.
func TestNext(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	for next, want := range map[string]string{
		"/admin/menus/7?x=1": "/admin/menus/7?x=1", "": "/admin", "/": "/admin", "https://evil.example/admin/": "/admin", "//evil.example/admin": "/admin",
		"/admin/../x": "/admin/../x", `/admin/\evil.example`: "/admin", "/administrator": "/admin", "/admin/\r\nSet-Cookie: a=b": "/admin", "javascript:alert(1)": "/admin",
	} {
		got := f.browser(t).Post("/sign-in", 303, "", "name", "ada", "password", backofficetest.Password, "next", next)
		if location := got.Header.Get("Location"); location != want || len(got.Header["Set-Cookie"]) != 1 {
			t.Errorf("%q: got %q and %v, want %q", next, location, got.Header["Set-Cookie"], want)
		}
	}
}

// Passwords are not tried for long, and not by the many: memory and CPU are bounded.
func TestGuessing(t *testing.T) {
	t.Parallel()
	proxies, err := forwarded.Parse("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, func(c *backoffice.Config) { c.Proxies = proxies })
	from := func(address string) *backofficetest.Browser {
		b := f.browser(t)
		b.Headers = append(b.Headers, "X-Forwarded-For: 198.51.100.9, "+address)
		return b
	}
	guess := func(b *backofficetest.Browser, status int, name, guessed string) {
		t.Helper()
		b.Post("/sign-in", status, "", "name", name, "password", guessed)
	}
	began := time.Now()
	for range backoffice.TriesOfName {
		guess(from("192.0.2.1"), 401, "ada", "wrong")
	}
	guess(from("192.0.2.1"), 429, "ada", backofficetest.Password) // also if it is right now
	guess(from("192.0.2.2"), 303, "ada", backofficetest.Password) // elsewhere it is not hers that is limited
	tries := backoffice.TriesOfName + 1
	for ; ; tries++ { // until the address is limited, which may try more often the longer this takes
		form := url.Values{"name": {fmt.Sprint("name", tries)}, "password": {"wrong"}}.Encode()
		if got := from("192.0.2.1").Ask(http.MethodPost, "/sign-in", form); got.Status == http.StatusTooManyRequests {
			break
		} else if got.Status != http.StatusUnauthorized || tries > 10*backoffice.TriesOfAddress {
			t.Fatalf("guess %d: got status %d", tries, got.Status)
		}
	}
	if most := backoffice.TriesOfAddress + time.Since(began).Seconds()/backoffice.AddressAgain.Seconds(); tries < backoffice.TriesOfAddress || float64(tries) > most {
		t.Errorf("one address may try %d times, want %d and no more than %.1f", tries, backoffice.TriesOfAddress, most)
	}
	for i := range backoffice.TriesOfName {
		guess(from(fmt.Sprintf("2001:db8::%d", i)), 401, "ada", "wrong")
	}
	guess(from("2001:db8::ffff"), 429, "ada", "wrong") // one house is one address
	f.browser(t).Post("/sign-in", 413, "", "name", "ada", "password", strings.Repeat("x", backoffice.MaxSignInBytes))
}
