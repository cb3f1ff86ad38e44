package web

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/browsertest"
	"loadstone/system/results"
)

// What pages are looked at on. 320 pixels are also what 640 are at 200 % zoom, and
// 1280 at 400 %, the most that WCAG 2.2 asks for (1.4.10).
var (
	narrow  = browsertest.Screen{Width: 320, Height: 640}
	phone   = browsertest.Screen{Width: 360, Height: 740}
	night   = browsertest.Screen{Width: 360, Height: 740, Dark: true}
	desktop = browsertest.Screen{Width: 1280, Height: 900}
)

// TestBrowser has one browser for all its parts: starting one takes seconds.
func TestBrowser(t *testing.T) {
	b := browsertest.Start(t, "--hide-scrollbars")
	pages := allPages(t)
	for name, part := range map[string]func(*testing.T, *browsertest.Browser, map[string]string){
		"a student sees the result":       studentSees,
		"a browser waits by itself":       browserWaits,
		"a bad page is found":             badPageFound,
		"all pages fit and can be read":   pagesFit,
		"a result prints on one sheet":    resultPrints,
		"everything is found by keyboard": keyboard,
	} {
		t.Run(name, func(t *testing.T) { part(t, b, pages) })
	}
}

// With scripts switched off, as everything here.
func studentSees(t *testing.T, b *browsertest.Browser, _ map[string]string) {
	var requests atomic.Int64
	s := newSite(t, nil)
	url := browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) {
		requests.Add(1)
		s.Handle(ctx)
	})
	tb := open(t, b, phone)
	tb.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	tb.Visit(url + "/")
	tb.has("Exam results", "Student id", "Access code", "Show my result")
	tb.submit("123456", "wrongcode")
	tb.has("There is no result for this id and access code")
	if got := tb.Eval("document.getElementById('id').value + '/' + document.getElementById('code').value"); got != "123456/" {
		t.Errorf("the form is filled with %q, want the id alone", got)
	}
	tb.enter("code", code)
	tb.NextPage(func() { tb.click("button") })
	tb.has("Hanna Tesfaye Kebede", "Passed", "438 of 700", "Physics")
	if got := fmt.Sprint(tb.Eval("location.href")); got != url+"/?lang=en" {
		t.Errorf("the address is %s, which is kept in histories", got)
	}
	if got, want := requests.Load(), int64(3); got != want {
		t.Errorf("the browser asked %d times for three pages", got)
	}
}

func browserWaits(t *testing.T, b *browsertest.Browser, _ map[string]string) {
	var lookups atomic.Int64
	s := newSite(t, func(c *Config) {
		c.SecureCookie = func(*fasthttp.RequestCtx) bool { return false }
		c.Lookup = func(ctx *fasthttp.RequestCtx, id int64, given []byte) results.Decision {
			if lookups.Add(1) == 1 {
				return results.Decision{Err: results.ErrOverloaded, RetryAfter: 20 * time.Second}
			}
			return lookup(ctx, id, given)
		}
	})
	tb := open(t, b, phone)
	tb.Visit(browsertest.Serve(t, s.Handle) + "/?lang=am")
	tb.submit("123456", code)
	tb.has("አሁን በጣም ብዙ ሰዎች እየተጠቀሙ ነው", "ከ20 ሰከንድ በኋላ")
	if got := fmt.Sprint(tb.Eval("document.cookie")); got != "" {
		t.Errorf("a script can read the cookie: %q", got)
	}
	tb.NextPage(func() {}) // by itself
	tb.has("Hanna Tesfaye Kebede", "አልፈዋል")
	if got := lookups.Load(); got != 2 {
		t.Errorf("got %d look-ups, want 2", got)
	}
}

// layout is run in each page with the screen's width. It returns what is wrong.
// The page is not asked for the width: on a phone its own grows with what sticks
// out.
const layout = `(width => {
	const wrong = [], wide = document.documentElement.scrollWidth;
	if (wide > width) wrong.push("scrolls sideways: " + wide + " of " + width);
	if (getComputedStyle(document.body).margin != "0px") wrong.push("has no style: the policy refused it");
	const parse = c => c.match(/[\d.]+/g).map(Number);
	const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255, v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4));
		return .2126 * r + .7152 * g + .0722 * b };
	const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05) };
	const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c } return [255, 255, 255] };
	for (const e of document.body.querySelectorAll("*")) {
		const box = e.getBoundingClientRect(), style = getComputedStyle(e);
		if (box.width && (box.right > width + .5 || box.left < -.5)) wrong.push(e.tagName + " sticks out");
		if (e.scrollWidth > e.clientWidth + 1 && e.clientWidth && style.display != "inline" && e.tagName != "INPUT") wrong.push(e.tagName + " is cut: " + e.textContent.slice(0, 40));
		const says = [...e.childNodes].some(n => n.nodeType == 3 && n.data.trim());
		if (says || e.tagName == "INPUT") {
			const r = ratio(parse(style.color), behind(e));
			if (r < 4.5) wrong.push(e.tagName + " has contrast " + r.toFixed(2) + ": " + e.textContent.slice(0, 40));
			if (parseFloat(style.fontSize) < 14) wrong.push(e.tagName + " has letters of " + style.fontSize);
		}
		if (e.tagName == "INPUT") {
			const r = ratio(parse(style.borderTopColor), behind(e.parentElement));
			if (r < 3) wrong.push("the field's edge has contrast " + r.toFixed(2));
			if (!e.labels.length) wrong.push(e.id + " has no label");
			for (const id of e.getAttribute("aria-describedby").split(" ")) if (!document.getElementById(id)) wrong.push(e.id + " is described by nothing: " + id);
		}
		if (/^(INPUT|BUTTON)$/.test(e.tagName) || e.className == "act") if (box.height < 44) wrong.push(e.tagName + " is too small to be hit: " + box.height);
	}
	for (const e of document.querySelectorAll("[id]")) if (document.querySelectorAll("#" + e.id).length > 1) wrong.push("two " + e.id);
	if (document.querySelectorAll("h1").length != 1) wrong.push("not one h1");
	return wrong;
})`

// wrong lists what is wrong with the page's layout.
func (tb *tab) wrong(s browsertest.Screen) []any {
	tb.t.Helper()
	found, ok := tb.Eval(fmt.Sprintf("%s(%d)", layout, s.Width)).([]any)
	if !ok {
		tb.t.Fatal("the layout was not checked")
	}
	return found
}

// Every page in both languages, from the narrowest to a desktop. With VIEWS naming
// a directory, a picture of each is written there for people to look at.
func pagesFit(t *testing.T, b *browsertest.Browser, pages map[string]string) {
	views := os.Getenv("VIEWS")
	for name, s := range map[string]browsertest.Screen{"narrow": narrow, "phone": phone, "night": night, "desktop": desktop} {
		t.Run(name, func(t *testing.T) {
			tb := open(t, b, s)
			for kind, page := range pages {
				tb.Visit(page)
				for _, wrong := range tb.wrong(s) {
					t.Errorf("%s: %v", kind, wrong)
				}
				if views != "" {
					picture := tb.File("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true})
					if err := os.WriteFile(filepath.Join(views, kind+"-"+name+".png"), picture, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// The check of the layout itself must be able to fail, for each of its reasons,
// and so must the page's policy.
func badPageFound(t *testing.T, b *browsertest.Browser, _ map[string]string) {
	s := newSite(t, nil)
	url := browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) {
		s.Handle(ctx)
		html := strings.Replace(string(ctx.Response.Body()), "</main>", `<p style="color:red">red?</p><script>document.title="run"</script>`+
			`<font color="#aaa">pale</font><font size="1">small</font><h1>second</h1><p id="id"></p><img width="400" height="1"></main>`, 1)
		html = strings.Replace(html, `for="code"`, "", 1)
		html = strings.Replace(html, `describedby="code-hint"`, `describedby="nothing"`, 1)
		ctx.Response.SetBodyString(html)
		if string(ctx.QueryArgs().Peek("policy")) == "broken" {
			ctx.Response.Header.Set("Content-Security-Policy", "default-src 'none'")
		}
	})
	tb := open(t, b, narrow)
	tb.Visit(url + "/")
	got := fmt.Sprint(tb.wrong(narrow))
	for _, want := range []string{
		"scrolls sideways", "IMG sticks out", "FONT has contrast", "FONT has letters of", "not one h1", "two id",
		"code has no label", "code is described by nothing: nothing",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("not found: %s, in %s", want, got)
		}
	}
	if strings.Contains(got, "has no style") {
		t.Error("the page's own style was refused")
	}
	if got := tb.Eval("document.title"); got == "run" {
		t.Error("a script in the page was run")
	}
	if got := tb.Eval("getComputedStyle(document.querySelector('p[style]')).color"); got == "rgb(255, 0, 0)" {
		t.Error("a style attribute was heeded")
	}
	tb.Visit(url + "/?policy=broken")
	if got := fmt.Sprint(tb.wrong(narrow)); !strings.Contains(got, "has no style") {
		t.Errorf("a policy that refuses the style was not found: %s", got)
	}
}

// allPages serves each page under an address of its own, as it was answered,
// policy included. Pages that follow a POST have no address otherwise.
func allPages(t *testing.T) map[string]string {
	t.Helper()
	outcome := results.Decision{Err: results.ErrNotFound}
	s := newSite(t, func(c *Config) {
		c.Lookup = func(ctx *fasthttp.RequestCtx, id int64, given []byte) results.Decision {
			if o := lookup(ctx, id, given); o.Err == nil {
				return o
			}
			return outcome
		}
	})
	answers := map[string]*fasthttp.Response{}
	for _, lang := range languageCodes {
		to := "/?lang=" + lang
		answers["form-"+lang] = ask(s, "GET", to, "")
		answers["passed-"+lang] = ask(s, "POST", to, good)
		answers["failed-"+lang] = ask(s, "POST", to, "id=123457&code="+code)
		answers["bad-id-"+lang] = ask(s, "POST", to, "id=12a&code=1")
		answers["bad-code-"+lang] = ask(s, "POST", to, "id=12")
		answers["absent-"+lang] = ask(s, "GET", "/x?lang="+lang, "")
		answers["method-"+lang] = ask(s, "PUT", to, "")
		answers["unreadable-"+lang] = ask(s, "POST", to, "", "Content-Type", "text/plain")
		for kind, o := range map[string]results.Decision{
			"unknown": {Err: results.ErrNotFound}, "down": {Err: results.ErrUnavailable}, "embargo": {Err: results.ErrEmbargoed, PublishAt: now.Add(3 * time.Hour), RetryAfter: 3 * time.Hour},
			"busy": {Err: results.ErrOverloaded}, "limited": {Err: results.ErrRateLimited}, "limited-long": {Err: results.ErrRateLimited, RetryAfter: time.Hour},
		} {
			outcome = o
			answers[kind+"-"+lang] = ask(s, "POST", to, "id=999999999999999999&code=1")
		}
	}
	base := browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) {
		if r, ok := answers[strings.TrimPrefix(string(ctx.Path()), "/")]; ok {
			r.CopyTo(&ctx.Response)
		}
	})
	urls := map[string]string{}
	for name := range answers {
		urls[name] = base + "/" + name
	}
	return urls
}

func resultPrints(t *testing.T, b *browsertest.Browser, pages map[string]string) {
	tb := open(t, b, phone)
	sheets := func(width, height float64) int { // inches
		pdf := tb.File("Page.printToPDF", map[string]any{"paperWidth": width, "paperHeight": height})
		// A page's object names its type; the list of pages is /Pages.
		return len(regexp.MustCompile(`/Type\s*/Page\b[^s]`).FindAll(pdf, -1))
	}
	for _, name := range []string{"passed-en", "failed-en", "passed-am"} {
		tb.Visit(pages[name])
		if got := sheets(8.27, 11.69); got != 1 {
			t.Errorf("%s on A4: %d sheets, want 1", name, got)
		}
		if got := sheets(8.5, 11); got != 1 {
			t.Errorf("%s on Letter: %d sheets, want 1", name, got)
		}
	}
	if got := sheets(8.27, 4); got < 2 { // the count must be able to fail
		t.Errorf("on a third of A4: %d sheets, want more than one", got)
	}
	tb.Call("Emulation.setEmulatedMedia", map[string]any{"media": "print"}, nil)
	if got := tb.Eval("getComputedStyle(document.querySelector('.acts')).display"); got != "none" {
		t.Errorf("buttons are printed: display is %v", got)
	}
}

// The tab key reaches the fields and buttons in their order, and what has the
// focus can be seen.
func keyboard(t *testing.T, b *browsertest.Browser, pages map[string]string) {
	tb := open(t, b, desktop)
	tb.Visit(pages["form-en"])
	var order []string
	for range 6 {
		tb.Press(browsertest.KeyTab)
		order = append(order, fmt.Sprint(tb.Eval("document.activeElement.id || document.activeElement.innerText")))
		if got := tb.Eval("getComputedStyle(document.activeElement).outlineStyle"); got != "solid" {
			t.Errorf("%s: the focus is not to be seen: outline is %v", order[len(order)-1], got)
		}
	}
	if got, want := strings.Join(order, ", "), "English, አማርኛ, id, code, Show my result, Save my result as a file"; got != want {
		t.Errorf("got the order %s, want %s", got, want)
	}
}
