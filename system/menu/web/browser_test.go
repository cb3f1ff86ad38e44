package web

import (
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"loadstone/block/browsertest"
	"loadstone/system/menu"
)

// Screens from the narrowest: 320 pixels are also what 1280 are at 400 % zoom, the most
// that WCAG 2.2 asks for (1.4.10).
var screens = map[string]browsertest.Screen{
	"narrow":  {Width: 320, Height: 640},
	"night":   {Width: 320, Height: 640, Dark: true},
	"desktop": {Width: 1280, Height: 900},
}

// Guests see sections and prices on every screen, without script. With VIEWS naming a
// directory, a picture of each page is written there for people to look at.
func TestBrowser(t *testing.T) {
	b := browsertest.Start(t, "--hide-scrollbars", "--ignore-certificate-errors") // of the photos' server
	s, _ := newSite(t)
	pictures := startPictures(t)
	pictures.come()
	s.cfg.Lookup = pictures.lookup
	o, _ := morning(t)
	s.cfg.Overlay = func(context.Context, int64) *menu.Overlay { return o }
	url := browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) { _ = s.Handle(ctx) }) // always nil
	views := os.Getenv("VIEWS")
	for name, screen := range screens {
		t.Run(name, func(t *testing.T) {
			tab := b.Open(t, screen)
			tab.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
			for kind, want := range map[string][]string{
				"7":  {"Dinner", "Main", "Shiro", "sold out", "€1,212.50", "chickpeas, garlic", "Kitfo", "€0.05", "Starter", "Sambusa", "Breakfast", "Not served now.", "07:00–11:00", "Sweet", "Genfo", "€4.00"},
				"8":  {"https://eight.example/menu?a=1&b=2", "Open the menu"},
				"9":  {strings.Repeat("W", 200), "VEF\u00a09,999,999,999.99"},
				"10": {"very-long-very-long", "Open the menu"},
				"11": {"<script>document.title='run'</script>"},
				"12": {"Open the menu"},
				"6":  {"This restaurant has no menu here."},
				"16": {"Shiro", "sold out", "€1,212.50", "chickpeas, garlic", "Kitfo", strings.Repeat("W", 200), "€9,999,999,999.99", "No photo", "Gone", "By http"},
				"0":  {"There is no such restaurant"},
			} {
				tab.Visit(url + Path + "/" + kind)
				text, from := fmt.Sprint(tab.Eval("document.body.innerText")), 0
				for _, part := range want {
					at := strings.Index(strings.ToLower(text[from:]), strings.ToLower(part))
					if at < 0 {
						t.Fatalf("%s: the browser shows %.600q, which lacks %q at its place", kind, text, part)
					}
					from += at
				}
				if wrong := fmt.Sprint(tab.Eval(browsertest.Layout)); wrong != "[]" {
					t.Errorf("%s: %s", kind, wrong)
				}
				if got := tab.Eval("document.title"); got == "run" {
					t.Errorf("%s: a script in the menu was run", kind)
				}
				if views != "" {
					picture := tab.File("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true})
					if err := os.WriteFile(filepath.Join(views, kind+"-"+name+".png"), picture, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
	t.Run("prices in the visitor's manner", func(t *testing.T) {
		tab := b.Open(t, screens["desktop"])
		tab.Hear("Network")
		tab.Call("Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]string{"Accept-Language": "de-DE,en;q=0.5"}}, nil)
		tab.Visit(url + Path + "/7")
		if got := fmt.Sprint(tab.Eval("document.querySelector('.price').innerText")); got != "1.212,50\u00a0€" {
			t.Errorf("got %q", got)
		}
	})
	for name, screen := range screens {
		t.Run("photos come later, "+name, func(t *testing.T) { photosComeLater(t, b.Open(t, screen)) })
	}
	// The check itself must be able to fail, and so must the page's policy.
	t.Run("a bad page is found", func(t *testing.T) {
		tab := b.Open(t, screens["narrow"])
		bad := browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) {
			_ = s.Handle(ctx)
			page := strings.Replace(string(ctx.Response.Body()), "</main>", `<script>document.title="run"</script><h1>two</h1><img width="400" height="1">`+
				`<font color="#aaa">pale</font><font size="1">small</font><a href="/">small</a></main>`, 1)
			ctx.Response.SetBodyString(page)
			if len(ctx.QueryArgs().Peek("broken")) > 0 {
				ctx.Response.Header.Set("Content-Security-Policy", "default-src 'none'")
			}
		}) + Path
		tab.Visit(bad + "/7")
		got := fmt.Sprint(tab.Eval(browsertest.Layout), tab.Eval("document.title"))
		for _, want := range []string{"scrolls sideways", "IMG sticks out", "FONT has contrast", "FONT has letters of", "A is too small", "not one h1", "Menu of restaurant 7"} {
			if !strings.Contains(got, want) {
				t.Errorf("not found: %s, in %s", want, got)
			}
		}
		if strings.Contains(got, "has no style") {
			t.Error("the page's own style was refused")
		}
		tab.Visit(bad + "/7?broken=1")
		if got := fmt.Sprint(tab.Eval(browsertest.Layout)); !strings.Contains(got, "has no style") {
			t.Errorf("a policy that refuses the style was not found: %s", got)
		}
	})
}

// pictures is a place elsewhere that photos come from.
type pictures struct {
	url, plain string // by TLS, and without
	come       func() // lets photos come, those that were asked for, too

	mu    sync.Mutex
	asked []string // what for, and who says to have asked
}

func startPictures(t *testing.T) *pictures {
	t.Helper()
	wait := make(chan struct{})
	p := &pictures{come: sync.OnceFunc(func() { close(wait) })}
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.URL.Path+r.Referer())
		p.mu.Unlock()
		<-wait
		if r.URL.Path == "/gone.png" {
			http.NotFound(w, r)
			return
		}
		photo := image.NewRGBA(image.Rect(0, 0, 640, 360))
		for y := range 360 {
			for x := range 640 {
				photo.Set(x, y, color.RGBA{uint8(x / 3), uint8(y / 2), 120, 255})
			}
		}
		w.Header().Set("Content-Type", "image/png")
		_ = png.Encode(w, photo) // whoever asked may be gone
	})
	secret, plain := httptest.NewTLSServer(answer), httptest.NewServer(answer)
	t.Cleanup(secret.Close)
	t.Cleanup(plain.Close)
	t.Cleanup(p.come)
	p.url, p.plain = secret.URL, plain.URL
	return p
}

// lookup also finds a menu with photos from here.
func (p *pictures) lookup(ctx context.Context, id int64) (menu.Page, error) {
	if id != 16 {
		return lookup(ctx, id)
	}
	line := func(name, price, photo string) string {
		return `{"dishType":"dinner","subType":"main","dish":"` + name + `","price":` + price + `,"ingredients":["` + name + `"]` + photo + `}`
	}
	at := func(address string) string { return `,"photo":"` + address + `"` }
	body := strings.ReplaceAll(pictured, "https://a.example/1.jpg?a&b", p.url+"/shiro.png")
	body = strings.Replace(body, `],"link"`, ","+strings.Join([]string{
		line(strings.Repeat("W", menu.MaxText), "9999999999.99", at(p.url+"/w.png")),
		line("No photo", "7.00", ""),
		line("Gone", "8.00", at(p.url+"/gone.png")),
		line("By http", "9.00", at(p.plain+"/http.png")),
	}, ",")+`],"link"`, 1)
	return menu.Page{Body: []byte(body), Tag: menu.Tag([]byte(body)), Version: 1}, nil
}

// Nothing moves when a photo comes, or does not; and where it comes from is not told whose page
// it is for.
func photosComeLater(t *testing.T, tab *browsertest.Tab) {
	t.Helper()
	s, _ := newSite(t)
	p := startPictures(t)
	s.cfg.Lookup = p.lookup
	url := browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) { _ = s.Handle(ctx) }) // always nil
	const boxes = `JSON.stringify([...document.querySelectorAll("main :not(img)")].map(e => { const b = e.getBoundingClientRect(); return [e.tagName, b.x, b.y, b.width, b.height] }))`
	tab.Visit(url + Path + "/16")
	before := tab.Eval(boxes)
	p.come()
	tab.Until("the first photo is shown, and all others are looked at", `(() => { const all = [...document.images]; for (const i of all) i.loading = "eager"; return all.every(i => i.complete) && all[0].naturalWidth == 640 })()`)
	if after := tab.Eval(boxes); after != before {
		t.Errorf("photos have moved the page from\n%v\nto\n%v", before, after)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.asked)
	if got := strings.Join(slices.Compact(p.asked), " "); got != "/gone.png /shiro.png /w.png" {
		t.Errorf("asked were %s", got)
	}
}
