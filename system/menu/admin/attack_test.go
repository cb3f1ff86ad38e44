package admin

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/forwarded"
	"loadstone/system/menu"
)

func TestWithoutASession(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	b := f.browser(t)
	for _, path := range []string{"", "/", "/log", "/menus/7", "/menus/7/edit", "/menus/7/preview", "/menus/7/history", "/menus/7/availability", "/nothing", "/..", "/%2e%2e/menu/7"} {
		got := b.get(path, 401, "Sign in")
		if strings.Contains(got.body, "Shiro") {
			t.Errorf("%s shows the menu", path)
		}
	}
	for _, path := range []string{"/menus/7/edit", "/menus/7/publish", "/menus/7/discard", "/menus/7/roll-back", "/menus/7/sold-out", "/menus/7/availability", "/sign-out"} {
		b.post(path, 401, "so nothing was done", "do", "save")
	}
	if b.cookie != "" {
		t.Errorf("got the cookie %q", b.cookie)
	}
}

// Only what comes from a page of this host changes anything.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ada := f.as(t, "ada")
	ada.save("7", "Doro wat", "18.00")
	seen := ada.hidden(ada.get("/menus/7", 200, "").body)[:4]
	host := strings.TrimPrefix(f.url, "http://")
	for _, headers := range [][]string{
		{}, {"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Sec-Fetch-Site: none"},
		{"Origin: null"}, {"Origin: https://evil.example"}, {"Origin: http://" + host + ".evil.example"}, {"Origin: http://evil.example/" + host},
		{"Sec-Fetch-Site: cross-site", "Origin: http://" + host},
	} {
		ada.headers = headers
		ada.post("/menus/7/publish", 403, "did not come from a page of this address", seen...)
		ada.post("/menus/7/sold-out", 403, "did not come from a page of this address", "out", "Shiro")
		ada.post("/menus/7/availability", 403, "did not come from a page of this address", "do", "save", "parts", "0")
		ada.post("/sign-in", 403, "", "name", "ada", "password", password)
	}
	if strings.Contains(f.published(t, 7), "Doro wat") {
		t.Fatal("it was published")
	}
	if got := f.said(t); got != "" {
		t.Fatalf("the availability became %s", got)
	}
	ada.headers = []string{"Origin: http://" + host}
	ada.post("/menus/7/publish", 303, "", seen...)
}

// A cookie counts if it is whole, ours, in time, and its account is as it was.
func TestCookies(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ben := f.as(t, "ben")
	good := ben.cookie
	parts := strings.Split(good, ":")
	other := &Admin{key: []byte("another key that is as long")}
	account := f.accounts.Load().find("ben")
	past := fmt.Sprint(time.Now().Add(-time.Second).Unix())
	for name, cookie := range map[string]string{
		"nothing":          "",
		"no parts":         "ben",
		"another's name":   "ada:" + parts[1] + ":" + parts[2],
		"nobody's name":    "eve:" + parts[1] + ":" + parts[2],
		"for longer":       "ben:9" + parts[1] + ":" + parts[2],
		"no signature":     "ben:" + parts[1] + ":",
		"a cut signature":  good[:len(good)-1],
		"another key":      "ben:" + parts[1] + ":" + other.sign(account, parts[1]),
		"past":             "ben:" + past + ":" + f.admin.sign(account, past),
		"more behind":      good + ":x",
		"long":             strings.Repeat("a:", 1000),
		"no number":        "ben:x:" + f.admin.sign(account, "x"),
		"zeros before":     "ben:0" + parts[1] + ":" + parts[2],
		"the hash's bytes": "ben:" + parts[1] + ":" + base64.RawURLEncoding.EncodeToString([]byte(account.hash)),
	} {
		ben.cookie = cookie
		if got := ben.ask("GET", "/log", ""); got.status != 401 {
			t.Errorf("%s: got status %d", name, got.status)
		}
	}
	ben.cookie = good
	ben.get("/log", 200, "Changes")
	f.accounts.Store(accountsOf(t, "ben:editor", "ada:publisher")) // the same password, hashed anew
	ben.get("/log", 401, "Sign in")
	ben.cookie = f.as(t, "ben").cookie
	ben.get("/log", 200, "Changes")
	f.accounts.Store(accountsOf(t, "ada:publisher"))
	ben.get("/log", 401, "Sign in")
	ben.post("/sign-in", 401, "no account with this name and password", "name", "ben", "password", password)
}

func TestTheCookieItself(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	b := f.browser(t)
	got := b.post("/sign-in", 303, "", "name", "ben", "password", password).header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "path=/admin", "max-age=43200"} {
		if !strings.Contains(got, want) {
			t.Errorf("the cookie %q lacks %s", got, want)
		}
	}
	if strings.Contains(strings.ToLower(got), "secure") {
		t.Errorf("over HTTP a browser would refuse %q", got)
	}
	b.headers = append(b.headers, "X-Forwarded-Proto: https")
	if got := b.post("/sign-in", 303, "", "name", "ben", "password", password).header.Get("Set-Cookie"); !strings.Contains(strings.ToLower(got), "; secure") {
		t.Errorf("the cookie %q is not secure", got)
	}
	b.post("/sign-out", 303, "")
	b.get("/log", 401, "Sign in")
}

// Two servers of one store, key and file of accounts are one.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	one := start(t, openDesk(t), nil)
	two := start(t, one.desk, nil)
	two.accounts.Store(one.accounts.Load())
	ada := one.as(t, "ada")
	ada.save("7", "Doro wat", "18.00")
	ada.url = two.url
	ada.publish("7", 303, "")
	ada.url = one.url
	ada.get("/menus/7/history", 200, "by ada")
	stranger := start(t, one.desk, func(c *Config) { c.Key = "another-key-of-this-one" })
	stranger.accounts.Store(one.accounts.Load())
	ada.url = stranger.url
	ada.get("/log", 401, "Sign in")
}

// What people type is text, wherever it is shown, and no page runs a script.
func TestHostileText(t *testing.T) {
	t.Parallel()
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}'`
	m := &menu.Menu{ID: 7, Currency: "EUR", Dishes: []menu.Dish{{Type: hostile, SubType: hostile, Name: hostile, Price: 1, Ingredients: []string{hostile}}}}
	f := start(t, openDesk(t), nil)
	if _, _, err := f.desk.Replace(menu.WithEditor(t.Context(), `<b>"eve`), m, menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	ada := f.as(t, "ada")
	hidden := ada.hidden(ada.get("/menus/7/edit", 200, "").body)
	fields := func(do string) []string {
		return append(hidden, "do", do, "currency", hostile, "link", "javascript:alert(1)", "type", hostile, "subtype", hostile, "name", hostile, "price", hostile, "ingredients", hostile, "photo", hostile)
	}
	pages := map[string]answer{
		"wrong": ada.post("/menus/7/edit", 422, "Nothing is saved yet", fields("save")...),
		"typed": ada.post("/menus/7/edit", 200, "", fields("add")...),
		"name":  f.browser(t).post("/sign-in", 401, "", "name", hostile, "password", hostile, "next", `/admin"><script>`),
	}
	ada.post("/menus/7/edit", 303, "", append(hidden, "do", "save", "currency", "EUR", "link", "", "type", hostile, "subtype", hostile, "name", hostile+"2", "price", "2", "ingredients", hostile, "photo", "")...)
	for _, path := range []string{"", "/log", "/menus/7", "/menus/7/edit", "/menus/7/history", "/menus/7/preview", "/menus?q=%22%3E%3Cscript%3E", "/menus/7?done=%3Cscript%3E"} {
		pages[path] = ada.get(path, 200, "")
	}
	pages["missing"] = ada.get("/%3Cscript%3E", 404, "")
	for name, page := range pages {
		policy := page.header.Get("Content-Security-Policy")
		if strings.Contains(page.body, "<script") || strings.Contains(page.body, "<img") || strings.Contains(page.body, "<b>\"eve") || strings.Contains(page.body, `href="javascript`) {
			t.Errorf("%q runs what was typed: %s", name, page.body)
		}
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
			t.Errorf("%q: got the policy %q", name, policy)
		}
		for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
			if got := page.header.Get(header); got != want {
				t.Errorf("%q: %s is %q, want %q", name, header, got, want)
			}
		}
	}
}

// Who signs in stays here.
func TestNext(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	for next, want := range map[string]string{
		"/admin/menus/7?x=1": "/admin/menus/7?x=1", "": "/admin", "/": "/admin", "https://evil.example/admin/": "/admin", "//evil.example/admin": "/admin",
		"/admin/../x": "/admin/../x", `/admin/\evil.example`: "/admin", "/administrator": "/admin", "/admin/\r\nSet-Cookie: a=b": "/admin", "javascript:alert(1)": "/admin",
	} {
		got := f.browser(t).post("/sign-in", 303, "", "name", "ada", "password", password, "next", next)
		if location := got.header.Get("Location"); location != want || len(got.header["Set-Cookie"]) != 1 {
			t.Errorf("%q: got %q and %v, want %q", next, location, got.header["Set-Cookie"], want)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ada := f.as(t, "ada")
	for path, status := range map[string]int{
		"/menus/0": 404, "/menus/-1": 404, "/menus/007": 404, "/menus/12abc": 404, "/menus/9223372036854775808": 404, "/menus/%37": 404, "/menus/7%00": 404,
		"/menus/7/": 404, "/menus//7": 404, "/menus/7/../8": 404, "/menus/7/publish": 404, "/menus/7/EDIT": 404, "/menus/ID": 404, "/menus/7/edit/7": 404,
		"/sign-in": 303, "/": 200,
	} {
		ada.get(path, status, "")
	}
	for path, status := range map[string]int{"/log": 404, "/menus/7": 404, "": 404, "/menus/x/edit": 404} {
		ada.post(path, status, "")
	}
}

// Passwords are not tried for long, and not by the many: memory and CPU are bounded.
func TestGuessing(t *testing.T) {
	t.Parallel()
	proxies, err := forwarded.Parse("127.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, openDesk(t), func(c *Config) { c.Proxies = proxies })
	from := func(address string) *browser {
		b := f.browser(t)
		b.headers = append(b.headers, "X-Forwarded-For: 198.51.100.9, "+address)
		return b
	}
	guess := func(b *browser, status int, name, guessed string) {
		t.Helper()
		b.post("/sign-in", status, "", "name", name, "password", guessed)
	}
	for range triesOfName {
		guess(from("192.0.2.1"), 401, "ada", "wrong")
	}
	guess(from("192.0.2.1"), 429, "ada", password) // also if it is right now
	guess(from("192.0.2.2"), 303, "ada", password) // elsewhere it is not hers that is limited
	for i := range triesOfAddress - triesOfName - 1 {
		guess(from("192.0.2.1"), 401, fmt.Sprint("name", i), "wrong")
	}
	guess(from("192.0.2.1"), 429, "ben", password)
	for i := range triesOfName {
		guess(from(fmt.Sprintf("2001:db8::%d", i)), 401, "ada", "wrong")
	}
	guess(from("2001:db8::ffff"), 429, "ada", "wrong") // one house is one address
	f.browser(t).post("/sign-in", 413, "", "name", "ada", "password", strings.Repeat("x", maxSignInBytes))
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := limiter{keys: map[string]bucket{}}
		for i := range 5 {
			if got := l.take("a", 3, time.Minute); got != (i < 3) {
				t.Errorf("attempt %d: got %v", i, got)
			}
		}
		time.Sleep(time.Minute)
		if !l.take("a", 3, time.Minute) || l.take("a", 3, time.Minute) {
			t.Error("a minute later there is not one more")
		}
		for i := range 3 * maxKeys {
			l.take(fmt.Sprint(i), 3, time.Minute)
			if len(l.keys) > maxKeys {
				t.Fatalf("it remembers %d", len(l.keys))
			}
		}
		l.forget("a")
		if !l.take("a", 1, time.Minute) {
			t.Error("it did not forget")
		}
	})
}

func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		turns := newTurns()
		results := make(chan error, 100)
		for range cap(results) {
			go func() {
				results <- turns.do(t.Context(), func() {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
				})
			}()
		}
		done := 0
		for range cap(results) {
			if err := <-results; err == nil {
				done++
			}
		}
		if done < hashing || done > hashing*(1+int(hashTimeout/time.Second)) || most.Load() > hashing {
			t.Errorf("got %d done, %d at a time", done, most.Load())
		}
	})
}

func TestNetworks(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8:0:1:2::3": "2001:db8:0:1::/64"} {
		if got := network(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
	if got := network(netip.Addr{}); got == "" {
		t.Error("nobody is an address, too")
	}
}

// A form that is larger than any menu's is refused before it is read.
func TestLargeForms(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ben := f.as(t, "ben")
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod("POST")
	ctx.Request.SetRequestURI(Path + "/menus/7/edit")
	ctx.Request.Header.Set("Sec-Fetch-Site", "same-origin")
	ctx.Request.Header.SetCookie(cookieName, ben.cookie)
	ctx.Request.Header.SetContentType("application/x-www-form-urlencoded")
	ctx.Request.SetBodyString(strings.Repeat("type=a&", MaxFormBytes/7))
	if _ = f.admin.Handle(&ctx); ctx.Response.StatusCode() != 400 {
		t.Errorf("got status %d", ctx.Response.StatusCode())
	}
	m := &menu.Menu{ID: 7, Currency: "EUR"}
	for len(m.AppendJSON(nil)) < menu.MaxBodyBytes-1000 {
		m.Dishes = append(m.Dishes, menu.Dish{Type: "a", SubType: "b", Name: strings.Repeat("ፈ", 60), Price: 1})
	}
	if _, _, err := f.desk.Replace(context.Background(), m, menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	fields := append(ben.hidden(ben.get("/menus/7/edit", 200, "").body), "do", "save", "currency", "EUR", "link", "")
	for i := range m.Dishes {
		fields = append(fields, "type", "a", "subtype", "b", "name", m.Dishes[i].Name, "price", "0.01", "ingredients", "", "photo", "")
	}
	ben.post("/menus/7/edit", 303, "", fields...) // the largest menus can be edited
}
