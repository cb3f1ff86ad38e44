package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	b := browsertest.Start(t, "--hide-scrollbars")
	s, _ := newSite(t)
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
