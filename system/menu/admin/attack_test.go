package admin

import (
	"context"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"loadstone/block/backoffice/backofficetest"
	"loadstone/system/menu"
)

func TestWithoutASession(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	b := f.browser(t)
	for _, path := range []string{"", "/", "/log", "/menus/7", "/menus/7/edit", "/menus/7/preview", "/menus/7/history", "/menus/7/availability", "/nothing", "/..", "/%2e%2e/menu/7"} {
		got := b.Get(path, 401, "Sign in")
		if strings.Contains(got.Body, "Shiro") {
			t.Errorf("%s shows the menu", path)
		}
	}
	for _, path := range []string{"/menus/7/edit", "/menus/7/publish", "/menus/7/discard", "/menus/7/roll-back", "/menus/7/sold-out", "/menus/7/availability", "/sign-out"} {
		b.Post(path, 401, "so nothing was done", "do", "save")
	}
	if b.Cookie != "" {
		t.Errorf("got the cookie %q", b.Cookie)
	}
}

// Only what comes from a page of this host changes anything.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ada := f.as(t, "ada")
	ada.save("7", "Doro wat", "18.00")
	seen := backofficetest.Hidden(ada.Get("/menus/7", 200, "").Body)[:4]
	host := strings.TrimPrefix(f.url, "http://")
	for _, headers := range [][]string{
		{}, {"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Sec-Fetch-Site: none"},
		{"Origin: null"}, {"Origin: https://evil.example"}, {"Origin: http://" + host + ".evil.example"}, {"Origin: http://evil.example/" + host},
		{"Sec-Fetch-Site: cross-site", "Origin: http://" + host},
	} {
		ada.Headers = headers
		ada.Post("/menus/7/publish", 403, "did not come from a page of this address", seen...)
		ada.Post("/menus/7/sold-out", 403, "did not come from a page of this address", "out", "Shiro")
		ada.Post("/menus/7/availability", 403, "did not come from a page of this address", "do", "save", "parts", "0")
		ada.Post("/sign-in", 403, "", "name", "ada", "password", backofficetest.Password)
	}
	if strings.Contains(f.published(t, 7), "Doro wat") {
		t.Fatal("it was published")
	}
	if got := f.said(t); got != "" {
		t.Fatalf("the availability became %s", got)
	}
	ada.Headers = []string{"Origin: http://" + host}
	ada.Post("/menus/7/publish", 303, "", seen...)
}

// Two servers of one store, key and file of accounts are one.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	one := start(t, openDesk(t), nil)
	two := start(t, one.desk, nil)
	two.accounts.Store(one.accounts.Load())
	ada := one.as(t, "ada")
	ada.save("7", "Doro wat", "18.00")
	ada.URL = two.url
	ada.publish("7", 303, "")
	ada.URL = one.url
	ada.Get("/menus/7/history", 200, "by ada")
	stranger := start(t, one.desk, func(c *Config) { c.Office.Key = "another-key-of-this-one" })
	stranger.accounts.Store(one.accounts.Load())
	ada.URL = stranger.url
	ada.Get("/log", 401, "Sign in")
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
	hidden := backofficetest.Hidden(ada.Get("/menus/7/edit", 200, "").Body)
	fields := func(do string) []string {
		return append(hidden, "do", do, "currency", hostile, "link", "javascript:alert(1)", "type", hostile, "subtype", hostile, "name", hostile, "price", hostile, "ingredients", hostile, "photo", hostile)
	}
	pages := map[string]backofficetest.Answer{
		"wrong": ada.Post("/menus/7/edit", 422, "Nothing is saved yet", fields("save")...),
		"typed": ada.Post("/menus/7/edit", 200, "", fields("add")...),
		"name":  f.browser(t).Post("/sign-in", 401, "", "name", hostile, "password", hostile, "next", `/admin"><script>`),
	}
	ada.Post("/menus/7/edit", 303, "", append(hidden, "do", "save", "currency", "EUR", "link", "", "type", hostile, "subtype", hostile, "name", hostile+"2", "price", "2", "ingredients", hostile, "photo", "")...)
	for _, path := range []string{"", "/log", "/menus/7", "/menus/7/edit", "/menus/7/history", "/menus/7/preview", "/menus?q=%22%3E%3Cscript%3E", "/menus/7?done=%3Cscript%3E"} {
		pages[path] = ada.Get(path, 200, "")
	}
	pages["missing"] = ada.Get("/%3Cscript%3E", 404, "")
	for name, page := range pages {
		policy := page.Header.Get("Content-Security-Policy")
		if strings.Contains(page.Body, "<script") || strings.Contains(page.Body, "<img") || strings.Contains(page.Body, "<b>\"eve") || strings.Contains(page.Body, `href="javascript`) {
			t.Errorf("%q runs what was typed: %s", name, page.Body)
		}
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
			t.Errorf("%q: got the policy %q", name, policy)
		}
		for header, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
			if got := page.Header.Get(header); got != want {
				t.Errorf("%q: %s is %q, want %q", name, header, got, want)
			}
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
		ada.Get(path, status, "")
	}
	for path, status := range map[string]int{"/log": 404, "/menus/7": 404, "": 404, "/menus/x/edit": 404} {
		ada.Post(path, status, "")
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
	ctx.Request.Header.SetCookie(ben.Name, ben.Cookie)
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
	fields := append(backofficetest.Hidden(ben.Get("/menus/7/edit", 200, "").Body), "do", "save", "currency", "EUR", "link", "")
	for i := range m.Dishes {
		fields = append(fields, "type", "a", "subtype", "b", "name", m.Dishes[i].Name, "price", "0.01", "ingredients", "", "photo", "")
	}
	ben.Post("/menus/7/edit", 303, "", fields...) // the largest menus can be edited
}
