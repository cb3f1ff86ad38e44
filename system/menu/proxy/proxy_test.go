package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/lookaside"
	"loadstone/block/route"
	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
	"loadstone/system/menu/proxy"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestValidate(t *testing.T) {
	t.Parallel()
	cfg := proxy.Config{Servers: []string{"https://a"}, Routes: []proxy.Route{{Prefix: "/api/menu/x"}, {Prefix: "/r", Servers: []string{"http://a/b"}}, {Prefix: "/r"}}}
	_, err := proxy.New(t.Context(), cfg)
	for _, want := range []string{"Ready is missing", `"https://a"`, "belongs to the proxy", "there is no server", `"http://a/b"`, "there twice", "limits are 0s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q", err, want)
		}
	}
}

func TestParseRoute(t *testing.T) {
	t.Parallel()
	r, err := proxy.ParseRoute("/api/reviews=http://a:1,http://b")
	if err != nil || r.Prefix != "/api/reviews" || !slices.Equal(r.Servers, []string{"http://a:1", "http://b"}) {
		t.Errorf("got %+v and %v", r, err)
	}
	for _, wrong := range []string{
		"", "=", "/x", "/x=", "x=http://a", "/=http://a", "/x/=http://a", "/x=a:1", "/x=ftp://a", "/x=http://u:p@a", "/x=http://a/", "/x=http://a?b",
		"/x=http://a,", "/a b=http://a", "/a?b=http://a", "/../x=http://a", "/api/menu=http://a", "/api/menu/x=http://a", "/restaurants/1=http://a", "/healthz=http://a",
	} {
		if _, err := proxy.ParseRoute(wrong); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

// Through a proxy, with a cache or without, from the cache or not, every answer is the one of
// the menu server.
func TestAnswersAreThoseOfTheMenuServer(t *testing.T) {
	t.Parallel()
	redis, db := servertest.Redis(t), database(t)
	if _, err := db.Delete(t.Context(), 9, menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	server, _ := menuServer(t, db, "")
	page := func(ctx *fasthttp.RequestCtx) error { ctx.SetBodyString("page " + string(ctx.Path())); return nil }
	withPage := func(cfg *proxy.Config) { cfg.Page = page }
	etag := ask(t, server, "GET", "/menu/7", "").header.Get("ETag")
	for name, p := range map[string]started{"cached": start(t, redis.Addr(), withPage, server), "not cached": start(t, "", withPage, server)} {
		for _, target := range []string{
			"/7", "/9", "/21", "/0", "/-1", "/007", "/12abc", "/2147483648", "/9223372036854775808", "/%00", "/%37", "/", "/999999999999999999",
			"/7?x=1", "/7/metadata", "/9/metadata", "?ids=7,9,8", "?ids=", "", "/7/8", "/7/",
		} {
			for _, method := range []string{"GET", "HEAD", "PATCH"} {
				if method == "PATCH" && target == "/%00" {
					continue // is not sent on
				}
				for _, header := range []string{"X: y", "If-None-Match: " + etag} {
					want := ask(t, server, method, "/menu"+target, "", header)
					for range 2 {
						got := ask(t, p.addr, method, "/api/menu"+target, "", header)
						// The message of 404 may say where menus are.
						same := got.status == want.status && got.length == want.length && got.body == want.body
						if !same && (want.status == 404 || want.status == 400) {
							same = got.status == want.status && code(got.body) == code(want.body)
						}
						for _, h := range []string{"ETag", "X-Menu-Version", "Cache-Control", "Content-Type", "Allow", "Retry-After"} {
							same = same && got.header.Get(h) == want.header.Get(h)
						}
						if !same {
							t.Errorf("%s: %s %s with %s: got %+v, want %+v", name, method, target, header, got, want)
						}
					}
				}
			}
		}
		if got := ask(t, p.addr, "GET", "/restaurants/7", ""); got.body != "page /restaurants/7" {
			t.Errorf("%s: got the page %+v", name, got)
		}
		for target, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/": 404, "/menu/7": 404, "/api": 404, "/api/menus": 404, "/restaurants": 404, "//api/menu/7": 404} {
			if got := ask(t, p.addr, "GET", target, ""); got.status != want {
				t.Errorf("%s: %s: got %+v, want status %d", name, target, got, want)
			}
		}
		did, err := p.Warm(t.Context(), slices.Values([]int64{1, 2}), 2, nil)
		if err != nil || did != map[string]lookaside.Warmed{"cached": {Filled: 2}}[name] {
			t.Errorf("%s: got %+v and %v", name, did, err)
		}
		if use := p.Switch(); use != nil {
			use(false)
		}
		if got := ask(t, p.addr, "GET", "/api/menu/7", ""); got.status != 200 {
			t.Errorf("%s: with the cache off: got %+v", name, got)
		}
	}
}

// What is sold out is said through a proxy and seen there, and no cached menu is touched.
func TestAvailabilityTouchesNoCachedMenu(t *testing.T) {
	t.Parallel()
	redis, db := servertest.Redis(t), database(t)
	server, _ := menuServer(t, db, redis.Addr())
	p := start(t, redis.Addr(), nil, server)
	before := ask(t, p.addr, "GET", "/api/menu/7", "")
	cached := func() string {
		return redis.Command("KEYS", "*") + redis.Command("DUMP", redis.Command("KEYS", "*")) + redis.Command("PTTL", redis.Command("KEYS", "*"))
	}
	redis.Command("PERSIST", redis.Command("KEYS", "*")) // so that nothing changes with the time
	was := cached()
	if _, err := p.Availability(t.Context(), 7); !errors.Is(err, menu.ErrNotFound) {
		t.Errorf("before: got %v", err)
	}
	m, err := menu.ParseJSON([]byte(before.body))
	if err != nil {
		t.Fatal(err)
	}
	name := m.Dishes[1].Name
	if got := ask(t, p.addr, "PATCH", "/api/menu/7/sold-out", fmt.Sprintf(`{"dish":%q,"soldOut":true}`, name), bearer, asJSON); got.status != 200 {
		t.Fatalf("got %+v", got)
	}
	if got := ask(t, p.addr, "GET", "/api/menu/7/now", ""); got.status != 200 || !strings.Contains(got.body, fmt.Sprintf(`"soldOut":[%q]`, name)) {
		t.Errorf("got %+v", got)
	}
	body, err := p.Availability(t.Context(), 7)
	if got := ask(t, p.addr, "GET", "/api/menu/7/availability", ""); err != nil || got.body != string(body) || got.header.Get("Cache-Control") != "public, no-cache" {
		t.Errorf("got %s, %v and %+v", body, err, got)
	}
	after := ask(t, p.addr, "GET", "/api/menu/7", "")
	if is := cached(); is != was || after.body != before.body || after.header.Get("ETag") != before.header.Get("ETag") || after.header.Get("X-Menu-Version") != "1" {
		t.Errorf("Redis has %q, want %q; the menu is %+v, want %+v", is, was, after, before)
	}
}

// code is an error body's.
func code(body string) string {
	_, rest, _ := strings.Cut(body, `"code":"`)
	code, _, _ := strings.Cut(rest, `"`)
	return code
}

// A hit asks no menu server.
func TestHitsStayInTheCache(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	server, stop := menuServer(t, database(t), "")
	p := start(t, redis.Addr(), nil, server)
	want := ask(t, p.addr, "GET", "/api/menu/7", "")
	gone := ask(t, p.addr, "GET", "/api/menu/77", "")
	stop()
	if got := ask(t, p.addr, "GET", "/api/menu/7", ""); got.status != 200 || got.body != want.body {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := ask(t, p.addr, "GET", "/api/menu/77", ""); got.status != 404 || gone.status != 404 {
		t.Errorf("got %+v", got)
	}
	got := ask(t, p.addr, "GET", "/api/menu/8", "")
	if got.status != 503 || got.header.Get("Retry-After") != "1" || code(got.body) != "unavailable" {
		t.Errorf("a miss without a menu server: got %+v", got)
	}
	page, err := p.Lookup(t.Context(), 7)
	if err != nil || string(page.Body) != want.body || page.Version != 1 {
		t.Errorf("got %+v and %v", page, err)
	}
	if _, err := p.Lookup(t.Context(), 77); !errors.Is(err, menu.ErrNotFound) {
		t.Errorf("got %v, want %v", err, menu.ErrNotFound)
	}
	if _, err := p.Lookup(t.Context(), 8); !errors.Is(err, menu.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, menu.ErrUnavailable)
	}
	if hits, errs := p.metric(t, "cache_gets_total", "hit"), p.metric(t, "proxy_upstream_errors_total", "menus"); hits != 2 || errs != 4 {
		t.Errorf("got %v hits, %v errors", hits, errs)
	}
}

func TestWritesPass(t *testing.T) {
	t.Parallel()
	redis, db := servertest.Redis(t), database(t)
	server, _ := menuServer(t, db, redis.Addr())
	p := start(t, redis.Addr(), nil, server)
	next := menutest.Example(7, 2)
	body := string(next.AppendJSON(nil))
	tag := ask(t, p.addr, "GET", "/api/menu/7", "").header.Get("ETag")
	for _, c := range []struct {
		method, target, body string
		headers              []string
		want                 int
	}{
		{"PUT", "/api/menu/7", body, []string{asJSON}, 401},
		{"PUT", "/api/menu/7", body, []string{asJSON, bearer, `If-Match: "0000000000000000"`}, 412},
		{"PUT", "/api/menu/7", body, []string{asJSON, bearer, "If-Match: " + tag}, 200},
		{"PUT", "/api/menu/7", body, []string{asJSON, bearer, "If-Match: " + tag}, 412},
		{"PUT", "/api/menu/7", "{}", []string{asJSON, bearer}, 422},
		{"POST", "/api/menu", strings.Replace(body, `"id":7,`, "", 1), []string{asJSON, bearer}, 201},
		{"DELETE", "/api/menu/8", "", []string{bearer}, 204},
		{"DELETE", "/api/menu/8", "", []string{bearer}, 404},
		{"GET", "/api/menu/8", "", nil, 404},
		{"PUT", "/api/menu/8", strings.Replace(body, `"id":7,`, "", 1), []string{asJSON, bearer}, 201},
		{"GET", "/api/menu/8", "", nil, 200},
	} {
		got := ask(t, p.addr, c.method, c.target, c.body, c.headers...)
		if got.status != c.want {
			t.Errorf("%s %s: got %+v, want status %d", c.method, c.target, got, c.want)
		}
		if location := got.header.Get("Location"); c.want == 201 {
			if again := ask(t, p.addr, "GET", location, ""); again.status != 200 || again.body != got.body {
				t.Errorf("%s %s is at %q: got %+v", c.method, c.target, location, again)
			}
		}
	}
	if got := ask(t, p.addr, "GET", "/api/menu/7", ""); got.body != body || got.header.Get("X-Menu-Version") != "2" {
		t.Errorf("got %+v, want %s", got, body)
	}
}

// Once a write is answered, every proxy answers with what was written, however many were
// reading at the time.
func TestCorrectionsAreSeenThroughAllProxies(t *testing.T) {
	t.Parallel()
	redis, db := servertest.Redis(t), database(t)
	one, _ := menuServer(t, db, redis.Addr())
	two, _ := menuServer(t, db, redis.Addr())
	proxies := make([]started, 3)
	for i := range proxies {
		proxies[i] = start(t, redis.Addr(), nil, one, two)
	}
	const changes = 60
	var writers, readers sync.WaitGroup
	reading, end := context.WithCancel(t.Context())
	for _, p := range proxies {
		readers.Go(func() {
			for id := int64(1); reading.Err() == nil; id = id%4 + 1 {
				if page, err := p.Lookup(context.Background(), id); err != nil && (!errors.Is(err, menu.ErrNotFound) || page.Version < 2) {
					t.Errorf("menu %d: %v", id, err)
				}
			}
		})
	}
	for id := range int64(4) {
		writers.Go(func() {
			for step := range int64(changes) {
				m := menutest.Example(id+1, step+2)
				method, body, headers := "PUT", string(m.AppendJSON(nil)), []string{bearer, asJSON}
				if step%5 == 4 {
					method, body, headers = "DELETE", "", []string{bearer}
				}
				target := fmt.Sprint("/api/menu/", id+1)
				if got := ask(t, proxies[step%3].addr, method, target, body, headers...); got.status >= 300 {
					t.Errorf("%s %s: got %+v", method, target, got)
				}
				for i, p := range proxies {
					got := ask(t, p.addr, "GET", target, "")
					if version := got.header.Get("X-Menu-Version"); version != fmt.Sprint(step+2) || body != "" && got.body != body || body == "" && got.status != 404 {
						t.Errorf("%s through proxy %d after change %d: got %+v", target, i, step, got)
					}
				}
			}
		})
	}
	writers.Wait()
	end()
	readers.Wait()
}

func TestRedisLost(t *testing.T) {
	t.Parallel()
	redis, db := servertest.Redis(t), database(t)
	server, _ := menuServer(t, db, redis.Addr())
	p := start(t, redis.Addr(), nil, server)
	want := ask(t, p.addr, "GET", "/api/menu/7", "")
	redis.Kill()
	m := menutest.Example(7, 2)
	for range 20 {
		if got := ask(t, p.addr, "GET", "/api/menu/7", ""); got.status != 200 || got.body != want.body {
			t.Errorf("got %+v", got)
		}
		got := ask(t, p.addr, "PUT", "/api/menu/7", string(m.AppendJSON(nil)), bearer, asJSON)
		if got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("a write that the cache is not told of: got %+v", got)
		}
	}
	redis.Start()
	for deadline := time.Now().Add(patience); ; {
		if got := ask(t, p.addr, "PUT", "/api/menu/7", string(m.AppendJSON(nil)), bearer, asJSON); got.status == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("writes are not back")
		}
	}
	if got := ask(t, p.addr, "GET", "/api/menu/7", ""); got.body != string(m.AppendJSON(nil)) {
		t.Errorf("got %+v", got)
	}
}

// What is no menu server makes no menus, and none go missing.
func TestForeignServer(t *testing.T) {
	t.Parallel()
	redis := servertest.Redis(t)
	good := func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.Set("X-Menu-Version", "1")
		_ = route.NotModified(ctx, menu.Tag([]byte("body")))
		ctx.SetBodyString("body")
	}
	for name, handle := range map[string]func(ctx *fasthttp.RequestCtx){
		"nothing here":    func(ctx *fasthttp.RequestCtx) { ctx.Error("not found", 404) },
		"another's error": func(ctx *fasthttp.RequestCtx) { route.JSON(ctx, 404, route.Body("no_such_path", "")) },
		"no tag":          func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("body") },
		"another's tag":   func(ctx *fasthttp.RequestCtx) { good(ctx); ctx.SetBodyString("b0dy") },
		"version":         func(ctx *fasthttp.RequestCtx) { good(ctx); ctx.Response.Header.Set("X-Menu-Version", "-1") },
		"version 1e9":     func(ctx *fasthttp.RequestCtx) { good(ctx); ctx.Response.Header.Set("X-Menu-Version", "1e9") },
		"redirect":        func(ctx *fasthttp.RequestCtx) { ctx.Redirect("/elsewhere", 302) },
		"failure":         func(ctx *fasthttp.RequestCtx) { good(ctx); ctx.SetStatusCode(500) },
		"huge": func(ctx *fasthttp.RequestCtx) {
			body := make([]byte, menu.MaxBodyBytes+1)
			_ = route.NotModified(ctx, menu.Tag(body))
			ctx.SetBody(body)
		},
		"without end": func(ctx *fasthttp.RequestCtx) { ctx.SetBody(make([]byte, 9<<20)) },
	} {
		redis.Flush()
		foreign, stop := serving(t, handle, func(*fasthttp.RequestCtx, int) {})
		p := start(t, redis.Addr(), nil, foreign)
		if got := ask(t, p.addr, "GET", "/api/menu/7", ""); got.status != 503 || code(got.body) != "unavailable" {
			t.Errorf("%s: got %+v", name, got)
		}
		if left := redis.Command("DBSIZE"); left != "0" {
			t.Errorf("%s: there is something in the cache: %q", name, redis.Command("GET", "menus:7"))
		}
		stop()
	}
	fine, _ := serving(t, good, func(*fasthttp.RequestCtx, int) {})
	if got := ask(t, start(t, "", nil, fine).addr, "GET", "/api/menu/7", ""); got.status != 200 || got.body != "body" {
		t.Errorf("what the others leave out is enough: got %+v", got)
	}
}
