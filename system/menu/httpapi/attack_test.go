package httpapi_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"loadstone/system/menu"
	"loadstone/system/menu/httpapi"
)

// Whatever comes in, the server answers for itself, never with 5xx, and stores nothing that
// it refused.
func TestAttacks(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	before := f.db.state()
	for _, id := range []string{
		"0", "-1", "+1", "007", "12abc", "9223372036854775808", "18446744073709551616", "1000000000000000000", strings.Repeat("9", 5000),
		"%00", "7%00", "%37", "7%2f", "7/", "", "/", "..", "../7", "..%2f7", "1.5", "1e3", "0x7", "7;7", "7'--", "%zz", "7%0d%0aX-Evil:1", "\xd9\xa7", "x/metadata", "7/metadata/metadata",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			body := ""
			if method == "PUT" {
				body = seven
			}
			got := f.write(t, method+" /menu/"+id, body)
			if method != "GET" && strings.HasSuffix(id, "/metadata") {
				got.want(t, 405, `"method_not_allowed"`, "Allow", "GET, HEAD")
				continue
			}
			got.want(t, 400, `"malformed_id"`, "Cache-Control", "no-store", "X-Evil", "")
		}
	}
	for _, id := range []string{"2147483648", "4294967303", "999999999999999999"} { // 4294967303 is 7 in 32 bits
		f.ask(t, "GET /menu/"+id, "").want(t, 404, `"not_found"`)
	}
	for _, request := range []string{"PATCH /menu/7", "OPTIONS /menu/7", "TRACE /menu/7", "PROPFIND /menu", "PUT /menu", "DELETE /menu", "POST /menu/7", "POST /openapi.json", "get /menu/7"} {
		got := f.write(t, request, "")
		got.want(t, 405, `"method_not_allowed"`)
		if got.Header.Get("Allow") == "" {
			t.Errorf("%s: no Allow", request)
		}
	}
	const head = " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	for raw, status := range map[string]int{
		"GET /menu/7" + head + strings.Repeat("A: b\r\n", 5000) + "\r\n":                                                431,
		"GET /menu?ids=" + strings.Repeat("1,", 10_000) + head + "\r\n":                                                 431,
		"GET /menu/7" + head + "Content-Length: 3\r\n\r\nabc":                                                           413,
		"PUT /menu/7" + head + "Content-Length: 99999999\r\n\r\n":                                                       413,
		"PUT /menu/7" + head + bearer + "\r\n" + asJSON + "\r\nContent-Length: 65537\r\n\r\n":                           413,
		"PUT /menu/7" + head + "Transfer-Encoding: chunked\r\n\r\n10001\r\n" + strings.Repeat(" ", 65537) + "\r\n0\r\n": 413,
		"PUT /menu/7" + head + "Content-Length: x\r\n\r\n":                                                              400,
		"GET /menu/7\x00" + head + "\r\n":                                                                               400,
		"GET /menu/7" + head + "If-None-Match: " + strings.Repeat(`"a",`, 1000) + "\r\n\r\n":                            200,
		"GET http://elsewhere/menu/7" + head + "\r\n":                                                                   200,
		"GET /menu%2f7" + head + "\r\n":                                                                                 404,
		"GET //menu/7" + head + "\r\n":                                                                                  404,
	} {
		if got := f.send(t, raw); got.Status != status {
			t.Errorf("%.80q: got %d %.200q, want %d", raw, got.Status, got.Body, status)
		}
	}
	if f.db.state() != before {
		t.Errorf("stored is\n%s\nwant\n%s", f.db.state(), before)
	}
	f.ask(t, "GET /menu/7", "").want(t, 200, seven)
}

func TestBodiesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	before := f.db.state()
	with := func(old, replacement string) string { return strings.Replace(seven, old, replacement, 1) }
	link := func(address string) string { return with(`[`+shiro+`],"link":null`, `[],"link":`+address) }
	photo := func(address string) string { return with(`"price"`, `"photo":"`+address+`","price"`) }
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"no JSON":            {"[", 400},
		"a number":           {"7", 400},
		"deep arrays":        {`{"dishes":` + strings.Repeat("[", 65_000), 400},
		"deep objects":       {strings.Repeat(`{"x":`, 13_000), 400},
		"a million deep":     {strings.Repeat("[", 1_000_000), 413},
		"a name twice":       {with(`"id":7`, `"id":7,"id":7`), 400},
		"a price twice":      {with(`"price":12.50`, `"price":1,"price":12.50`), 400},
		"unknown name":       {with(`"id":7`, `"id":7,"admin":true`), 400},
		"infinite price":     {with(`12.50`, `1e999`), 400},
		"infinite id":        {with(`7`, `1e999`), 400},
		"id as text":         {with(`7`, `"7"`), 400},
		"negative price":     {with(`12.50`, `-1`), 400},
		"a third of a cent":  {with(`12.50`, `0.333`), 400},
		"lone surrogate":     {with(`Shiro`, `\ud800`), 400},
		"not UTF-8":          {with(`Shiro`, "\xff"), 400},
		"zero byte":          {with(`Shiro`, "\x00"), 400},
		"more behind":        {seven + seven, 400},
		"another id":         {with(`"id":7`, `"id":8`), 422},
		"negative id":        {with(`"id":7`, `"id":-7`), 422},
		"line break":         {with(`Shiro`, `a\r\nSet-Cookie: b`), 422},
		"escaped zero":       {with(`Shiro`, `a\u0000`), 422},
		"text that turns":    {with(`Shiro`, `a\u202eb`), 422},
		"no name":            {with(`Shiro`, ``), 422},
		"a script as link":   {link(`"javascript:alert(1)"`), 422},
		"one in capitals":    {link(`"JaVaScRiPt:alert(1)"`), 422},
		"data as link":       {link(`"data:text/html,<script>"`), 422},
		"a link in quotes":   {link(`"https://a.example/\"onclick=alert(1)"`), 422},
		"a script as photo":  {photo(`javascript:alert(1)`), 422},
		"data as photo":      {photo(`data:image/svg+xml,<svg>`), 422},
		"a photo in quotes":  {photo(`https://a.example/\"onerror=alert(1)`), 422},
		"HTML in a photo":    {photo(`https://a.example/><script>`), 422},
		"a photo by http":    {photo(`http://a.example/1.jpg`), 422},
		"a long photo":       {photo(`https://a.example/` + strings.Repeat("a", menu.MaxLink)), 422},
		"photo as object":    {with(`"price"`, `"photo":{},"price"`), 400},
		"link and dishes":    {with(`null`, `"https://a.example/"`), 422},
		"currency":           {with(`USD`, `<b>`), 400},
		"nothing":            {`{}`, 422},
		"501 dishes":         {`{"dishes":[` + strings.Repeat(`{"dish":"a","dishType":"b","subType":"c","price":1},`, 500) + shiro + `]}`, 422},
		"all of them wrong":  {`{"dishes":[` + strings.Repeat(`{"dish":"","dishType":"","subType":"","price":1},`, 499) + shiro + `]}`, 422},
		"wrong beyond ASCII": {`{"dishes":[{"dish":"a\n` + strings.Repeat("ሀ", 2000) + `","dishType":"b","subType":"c","price":1}]}`, 422},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, request := range []string{"PUT /menu/7", "POST /menu"} {
				if strings.HasPrefix(request, "POST") && name == "another id" {
					continue // is taken, and no mistake
				}
				got := f.write(t, request, c.body)
				got.want(t, c.status, `{"error":{"code":"`)
				if len(got.Body) > 10_000 || strings.Contains(got.Body, "<") {
					t.Errorf("the answer has %d bytes: %.300s", len(got.Body), got.Body)
				}
			}
		})
	}
	for name, header := range map[string]string{
		"no type": "X: y", "text": "Content-Type: text/plain", "a form's": "Content-Type: application/x-www-form-urlencoded", "Latin": asJSON + "; charset=latin1",
		"no such": "Content-Type: ;;", "packed": asJSON + "\r\nContent-Encoding: gzip",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f.ask(t, "PUT /menu/7", seven, bearer, header).want(t, 415, "application/json")
		})
	}
	t.Cleanup(func() {
		if f.db.state() != before {
			t.Errorf("stored is\n%s\nwant\n%s", f.db.state(), before)
		}
	})
}

// All problems of a menu are told at once, in one line.
func TestProblemsAreTold(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	f.write(t, "PUT /menu/7", `{"dishes":[{"dish":"","dishType":"a","subType":" ","price":1},`+shiro+`,{"dish":"a","dishType":"a","subType":"a","price":1,"ingredients":[""]}]}`).
		want(t, 422, "dishes[0]: subType is \\\" \\\": write it without spaces around it; dish is empty: write one; dishes[2]: ingredients[0] is empty: write one")
	f.write(t, "PUT /menu/7", strings.Replace(seven, "Shiro", "<b>Shiro</b> & co", 1)).want(t, 200, "Shiro")
}

// Nobody slows others down with ids that do not exist, and they leave nothing behind.
func TestFloodOfUnknownIDs(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 100 {
				f.ask(t, fmt.Sprintf("GET /menu/%d", 1000+worker*100+i), "").want(t, 404, `"not_found"`)
			}
		})
	}
	all.Wait()
	f.ask(t, "GET /menu/7", "").want(t, 200, seven)
}

// No request gets 5xx, and what is stored is valid, reads back, and came with the token.
func FuzzHandle(f *testing.F) {
	f.Add("GET", "/menu/7", "", "", tagOf(seven), "")
	f.Add("GET", "/menu?ids=7,8,%37", "", "", "*", "")
	f.Add("GET", "/menu/8/metadata", "", "", "", "")
	f.Add("PUT", "/menu/7", "Bearer "+token, "application/json", tagOf(seven), seven)
	f.Add("POST", "/menu", "Bearer "+token, "application/json; charset=utf-8", "", strings.Replace(eight, `"id":8`, `"id":null`, 1))
	f.Add("DELETE", "/menu/7", "bearer "+token, "", "W/"+tagOf(seven), "")
	f.Add("PUT", "//menu/%00?", "Bearer", ";", `"`, "{\"dishes\":[[")
	f.Fuzz(func(t *testing.T, method, target, authorization, kind, match, body string) {
		db := newMemory(t)
		api, err := httpapi.New(httpapi.Config{
			Store: db, Token: token, Ready: func() bool { return true },
			Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		})
		if err != nil {
			t.Fatal(err)
		}
		var ctx fasthttp.RequestCtx
		var req fasthttp.Request
		req.Header.SetMethod(method)
		req.SetRequestURI(target)
		req.Header.Set("Authorization", authorization)
		req.Header.SetContentType(kind)
		req.Header.Set("If-Match", match)
		req.SetBodyString(body)
		ctx.Init(&req, nil, nil)
		before := db.state()
		api.Handle(&ctx)
		status := ctx.Response.StatusCode()
		if status >= 500 {
			t.Errorf("got status %d", status)
		}
		if wrote := db.state() != before; wrote && (status >= 300 || !strings.Contains(authorization, token)) {
			t.Errorf("status %d with authorization %q, and stored is\n%s", status, authorization, db.state())
		}
		for id, r := range db.menus {
			if r.gone {
				continue
			}
			m, err := menu.ParseJSON(r.page.Body)
			if err != nil || m.Validate() != nil || m.ID != id {
				t.Errorf("stored under %d is %s: %v", id, r.page.Body, err)
			}
		}
	})
}
