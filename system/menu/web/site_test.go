package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/language"
	"loadstone/system/menu"
)

const (
	seven = `{"id":7,"dishes":[` +
		`{"dishType":"dinner","subType":"main","dish":"Shiro","price":1212.50,"ingredients":["chickpeas","garlic"]},` +
		`{"dishType":"breakfast","subType":"sweet","dish":"Genfo","price":4.00,"ingredients":[]},` +
		`{"dishType":"dinner","subType":"starter","dish":"Sambusa","price":3.00,"ingredients":["lentils"]},` +
		`{"dishType":"dinner","subType":"main","dish":"Kitfo","price":0.05,"ingredients":["beef"]}` +
		`],"link":null,"currency":"EUR"}`
	eight = `{"id":8,"dishes":[],"link":"https://eight.example/menu?a=1&b=2","currency":"EUR"}`
)

// photos are dishes, each with one.
func photos(addresses ...string) string {
	var dishes []string
	for _, address := range addresses {
		dishes = append(dishes, `{"dishType":"a","subType":"b","dish":"c","price":1,"photo":"`+address+`"}`)
	}
	return strings.Join(dishes, ",")
}

// pictured is seven with a photo of its first dish.
var pictured = strings.Replace(seven, `"garlic"]`, `"garlic"],"photo":"https://a.example/1.jpg?a&b"`, 1)

// long is what a menu may have at the most in one word, in every place.
var long = strings.ReplaceAll(`{"id":9,"dishes":[{"dishType":"@","subType":"@","dish":"@","price":9999999999.99,"ingredients":["@","@"]}],"link":null,"currency":"VEF"}`, "@", strings.Repeat("W", menu.MaxText))

var bodies = map[int64]string{
	7: seven, 8: eight, 9: long,
	10: strings.Replace(eight, "eight.example", strings.Repeat("very-long-", 20)+".example", 1),
	// What stores do not take, and a page shows all the same without harm.
	11: `{"id":11,"dishes":[{"dishType":"</style><script>document.title='run'</script>","subType":"<b>","dish":"a\r\nSet-Cookie: b","price":1,"ingredients":["\"onclick='x'"]}]}`,
	12: `{"id":12,"link":"javascript:document.title='run'"}`,
	13: `{`,
	14: pictured,
	// What stores do not take, as a photo.
	15: `{"id":15,"dishes":[` + photos("javascript:alert(1)", "data:image/svg+xml,<svg onload=alert(1)>", `https://a.example/\"><script>alert(1)</script><b x=\"`, `https://a.example/;script-src *`) + `]}`,
}

var errBroken = errors.New("broken at /secret")

func lookup(ctx context.Context, id int64) (menu.Page, error) {
	if _, ok := ctx.Deadline(); !ok {
		return menu.Page{}, errors.New("there is no deadline")
	}
	if id == 500 {
		return menu.Page{}, errBroken
	}
	body, ok := bodies[id]
	if !ok {
		return menu.Page{Version: 3}, fmt.Errorf("menu %d: %w", id, menu.ErrNotFound)
	}
	return menu.Page{Body: []byte(body), Tag: menu.Tag([]byte(body)), Version: 1}, nil
}

func newSite(tb testing.TB) (site *Site, log *bytes.Buffer) {
	tb.Helper()
	log = &bytes.Buffer{}
	site, err := New(Config{Lookup: lookup, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		tb.Fatal(err)
	}
	return site, log
}

// ask asks the site without a network. headers are names and values in turn.
func ask(tb testing.TB, s *Site, target string, headers ...string) *fasthttp.Response {
	tb.Helper()
	var ctx fasthttp.RequestCtx
	ctx.Request.SetRequestURI(target)
	for i := 0; i+1 < len(headers); i += 2 {
		ctx.Request.Header.Set(headers[i], headers[i+1])
	}
	if err := s.Handle(&ctx); err != nil {
		tb.Fatal(err)
	}
	var to fasthttp.Response
	ctx.Response.CopyTo(&to)
	return &to
}

// etag finds the header by its name as package route writes it, which Peek does not.
func etag(r *fasthttp.Response) string {
	for name, value := range r.Header.All() {
		if strings.EqualFold(string(name), "ETag") {
			return string(value)
		}
	}
	return ""
}

// want compares a status and, in this order, parts of the page.
func want(t *testing.T, r *fasthttp.Response, status int, parts ...string) {
	t.Helper()
	rest := string(r.Body())
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Errorf("the page lacks %q, or not behind what comes before:\n%s", part, r.Body())
			break
		}
		rest = after
	}
	if got := r.StatusCode(); got != status {
		t.Errorf("got status %d, want %d", got, status)
	}
	for name, value := range map[string]string{"Content-Security-Policy": "default-src 'none'; style-src 'sha256-", "X-Content-Type-Options": "nosniff"} {
		if got := string(r.Header.Peek(name)); !strings.HasPrefix(got, value) {
			t.Errorf("header %s: got %q, want %q", name, got, value)
		}
	}
}

func TestDishesStandInSections(t *testing.T) {
	t.Parallel()
	s, _ := newSite(t)
	want(t, ask(t, s, "/restaurants/7"), 200, "<title>Menu of restaurant 7</title>", "<h1>Menu of restaurant 7</h1>",
		"<h2>dinner</h2>", "<h3>main</h3>", ">Shiro<", ">€1,212.50<", "<small>chickpeas, garlic</small>", ">Kitfo<", ">€0.05<", "<h3>starter</h3>", ">Sambusa<",
		"<h2>breakfast</h2>", "<h3>sweet</h3>", ">Genfo<", "€4.00</span></li>")
	want(t, ask(t, s, "/restaurants/7", "Accept-Language", "de-CH, en;q=0.8"), 200, "1.212,50\u00a0€")
	r := ask(t, s, "/restaurants/8")
	want(t, r, 200, `<a class="act" href="https://eight.example/menu?a=1&amp;b=2" rel="noopener noreferrer nofollow">`)
	if bytes.Contains(r.Body(), []byte("<h2>")) {
		t.Error("a menu that is a link has sections")
	}
}

func TestPagesThatHaveNoMenu(t *testing.T) {
	t.Parallel()
	s, log := newSite(t)
	want(t, ask(t, s, "/restaurants/6"), 404, "This restaurant has no menu here.")
	for _, id := range []string{"", "0", "-1", "007", "12abc", "7/", "7%00", "%37", "9223372036854775808", "../7", "<script>"} {
		want(t, ask(t, s, "/restaurants/"+id), 404, "There is no such restaurant")
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", log)
	}
	r := ask(t, s, "/restaurants/500")
	want(t, r, 503, "Menus cannot be shown now.")
	if string(r.Header.Peek("Retry-After")) != "1" || bytes.Contains(r.Body(), []byte("secret")) || !strings.Contains(log.String(), "secret") {
		t.Errorf("got %s\nand the log %s", r, log)
	}
	want(t, ask(t, s, "/restaurants/13"), 500, "This menu cannot be read.")
	for _, id := range []string{"6", "0", "500", "13"} {
		r := ask(t, s, "/restaurants/"+id)
		if got := string(r.Header.Peek("Cache-Control")); got != "no-store" || etag(r) != "" {
			t.Errorf("%s: got Cache-Control %q and ETag %q", id, got, etag(r))
		}
	}
}

// morning is an overlay in which Shiro is sold out, and breakfast served on no day of a test.
func morning(tb testing.TB) (o *menu.Overlay, day string) {
	tb.Helper()
	day = time.Now().UTC().AddDate(0, 0, 3).Weekday().String()[:3]
	o, err := menu.ParseOverlay([]byte(`{"timeZone":"UTC","dayparts":[{"name":"<morning>","days":["` + strings.ToLower(day) +
		`"],"from":"07:00","to":"11:00","sections":["Breakfast"]}],"soldOut":[{"dish":"shiro"}]}`))
	if err != nil {
		tb.Fatal(err)
	}
	return o, day
}

// What is not to be had now is said in words, on a page that is another one then.
func TestAvailabilityIsShown(t *testing.T) {
	t.Parallel()
	s, _ := newSite(t)
	plain := etag(ask(t, s, "/restaurants/7"))
	o, day := morning(t)
	s.cfg.Overlay = func(ctx context.Context, id int64) *menu.Overlay {
		if _, ok := ctx.Deadline(); !ok || id != 7 {
			return nil
		}
		return o
	}
	r := ask(t, s, "/restaurants/7")
	want(t, r, 200, "<h2>dinner</h2>\n<h3>main</h3>", `<s class="dish">Shiro</s> <span class="out">sold out</span>`, `<span class="dish">Kitfo</span>`,
		"<h2>breakfast</h2>", "Not served now.<br>&lt;morning&gt;: "+day+" 07:00–11:00</p>", "Genfo")
	if strings.Count(string(r.Body()), "sold out") != 1 || strings.Count(string(r.Body()), "Not served now") != 1 {
		t.Errorf("got %s", r.Body())
	}
	if again := ask(t, s, "/restaurants/7", "If-None-Match", etag(r)); again.StatusCode() != 304 {
		t.Errorf("the same again: got %d", again.StatusCode())
	}
	want(t, ask(t, s, "/restaurants/7", "If-None-Match", plain), 200)
	o.Mark(menu.SoldOut{Dish: "Shiro"}, false, time.Now())
	want(t, ask(t, s, "/restaurants/7", "If-None-Match", etag(r)), 200, `<span class="dish">Shiro</span>`)
	if got := etag(ask(t, s, "/restaurants/8")); got == plain || got == etag(r) {
		t.Error("two menus have one tag")
	}
}

// A page is kept until the menu changes, for each way of writing prices.
func TestPagesAreKept(t *testing.T) {
	t.Parallel()
	s, _ := newSite(t)
	r := ask(t, s, "/restaurants/7", "Accept-Language", "de")
	tag := etag(r)
	if cache, vary := string(r.Header.Peek("Cache-Control")), string(r.Header.Peek("Vary")); cache != "public, no-cache" || vary != "Accept-Language" || len(tag) != 18 {
		t.Errorf("got Cache-Control %q, Vary %q and ETag %q", cache, vary, tag)
	}
	for _, c := range []struct {
		target, language string
		status           int
	}{
		{"7", "de", 304}, {"7", "de-AT;q=0.5", 304}, {"7", "fr", 200}, {"7", "", 200}, {"8", "de", 200},
	} {
		r := ask(t, s, "/restaurants/"+c.target, "Accept-Language", c.language, "If-None-Match", tag)
		if r.StatusCode() != c.status || (len(r.Body()) == 0) != (c.status == 304) {
			t.Errorf("%+v: got %d with %d bytes", c, r.StatusCode(), len(r.Body()))
		}
	}
}

// Whatever a store holds, a page has the tags of its template and no others.
func TestWhatStandsInAMenuIsText(t *testing.T) {
	t.Parallel()
	s, _ := newSite(t)
	r := ask(t, s, "/restaurants/11")
	want(t, r, 200, "<h2>&lt;/style&gt;&lt;script&gt;", "<h3>&lt;b&gt;</h3>", "Set-Cookie: b", "&#34;onclick=&#39;x&#39;")
	if bytes.Contains(r.Body(), []byte("<script")) || len(r.Header.Peek("Set-Cookie")) > 0 {
		t.Errorf("got %s", r)
	}
	if r := ask(t, s, "/restaurants/12"); bytes.Contains(r.Body(), []byte(`href="javascript`)) {
		t.Errorf("got %s", r.Body())
	}
}

// Pictures may be loaded where a menu has photos, of those, and not over http.
func TestPhotosAreShown(t *testing.T) {
	t.Parallel()
	s, _ := newSite(t)
	policy := func(r *fasthttp.Response) string {
		_, rest, _ := strings.Cut(string(r.Header.Peek("Content-Security-Policy")), "img-src ")
		sources, _, _ := strings.Cut(rest, ";")
		return sources
	}
	r := ask(t, s, "/restaurants/14")
	want(t, r, 200, `<li class="pictured"><img src="https://a.example/1.jpg?a&amp;b" alt="" width="96" height="96" loading="lazy" referrerpolicy="no-referrer"><span class="dish">Shiro</span>`, `<li><span class="dish">Kitfo</span>`)
	if got := strings.Count(string(r.Body()), "<img"); got != 1 || policy(r) != "data: https:" || string(r.Header.Peek("Referrer-Policy")) != "no-referrer" {
		t.Errorf("got %d pictures, and the header %s", got, &r.Header)
	}
	for _, id := range []string{"7", "8", "6", "0"} {
		if r := ask(t, s, "/restaurants/"+id); bytes.Contains(r.Body(), []byte("<img")) || policy(r) != "data:" {
			t.Errorf("%s, which has no photos: got the policy %q and %s", id, policy(r), r.Body())
		}
	}
	r = ask(t, s, "/restaurants/15")
	page, header := string(r.Body()), string(r.Header.Peek("Content-Security-Policy"))
	if strings.Count(page, "<img") != 4 || strings.Contains(page, "<script") || strings.Contains(page, `src="javascript`) || strings.Contains(page, `src="data`) ||
		strings.Contains(page, "<svg") || strings.Contains(header, "script") {
		t.Errorf("got the policy %q and %s", header, page)
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		languages string
		amount    int64
		currency  string
		want      string
	}{
		{"en", 1250, "USD", "$12.50"},
		{"de", 1250, "USD", "12,50~$"},
		{"fr-CA", 123456789, "EUR", "1\u202f234\u202f567,89~€"},
		{"nl", 5, "EUR", "€~0,05"},
		{"pt-BR", 100000, "BRL", "BRL~1.000,00"},
		{"ja", 1200, "JPY", "¥1,200"},
		{"sv", 100, "SEK", "1,00~SEK"},
		{"", 1005, "KWD", "KWD~1.005"},
		{"tlh", 99999, "USD", "$999.99"},
		{"pl;q=0.5,it;q=0.9", 100000000, "PLN", "1.000.000,00~PLN"},
		{"it;q=0.9,pl;q=0.9", 0, "EUR", "0,00~€"},
		{"DE-de", 1, "EUR", "0,01~€"},
	} {
		if got, want := locales[language.Preferred(c.languages, languages)].price(c.amount, c.currency), strings.ReplaceAll(c.want, "~", "\u00a0"); got != want {
			t.Errorf("%.40q %d %s: got %q, want %q", c.languages, c.amount, c.currency, got, want)
		}
	}
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	for _, bad := range []Config{{}, {Lookup: lookup}, {Logger: slog.New(slog.DiscardHandler)}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
}

// Whatever a menu says, its page is made, and adds no tags.
func FuzzPage(f *testing.F) {
	for _, body := range bodies {
		f.Add(body, "de;q=0.3, *", "/restaurants/1")
	}
	s, _ := newSite(f)
	f.Fuzz(func(t *testing.T, body, accept, target string) {
		s.cfg.Lookup = func(context.Context, int64) (menu.Page, error) {
			return menu.Page{Body: []byte(body), Tag: menu.Tag([]byte(body))}, nil
		}
		r := ask(t, s, target, "Accept-Language", accept)
		page := strings.ToLower(string(r.Body()))
		if strings.Contains(page, "<script") || strings.Contains(page, `href="javascript`) ||
			strings.Contains(page, `src="javascript`) || strings.Contains(page, `src="data`) || strings.Count(page, "<style>") > 1 {
			t.Errorf("got %s", page)
		}
	})
}
