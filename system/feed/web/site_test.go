package web

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"loadstone/block/browsertest"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
)

// newSite has a site of posts 1 to 25, and of one that is hard to show.
func newSite(t *testing.T) (*Site, *feedtest.Memory) {
	t.Helper()
	store := &feedtest.Memory{}
	if _, err := store.Fill(t.Context(), feedtest.Generator(t, 1, 25), nil); err != nil {
		t.Fatal(err)
	}
	hard := feedtest.Odd(26, time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC).UnixMilli(), 2)
	hard.Pinned, hard.Title, hard.Text = true, strings.Repeat("W", feed.MaxTitle), "<script>document.title='run'</script>\nsecond line"
	if err := store.Put(t.Context(), &hard); err != nil {
		t.Fatal(err)
	}
	reader := &feed.Reader{Store: store, Cursors: feed.NewCursors([]byte("key"), time.Hour), Asked: func(string) {}}
	s, err := New(Config{Reader: reader, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s, store
}

// ask returns the status and the page at a query.
func ask(t *testing.T, s *Site, query string) (int, string) {
	t.Helper()
	var ctx fasthttp.RequestCtx
	var req fasthttp.Request
	req.SetRequestURI(Path + query)
	ctx.Init(&req, nil, nil)
	if err := s.Handle(&ctx); err != nil {
		t.Fatal(err)
	}
	return ctx.Response.StatusCode(), string(ctx.Response.Body())
}

func TestProblemsArePages(t *testing.T) {
	t.Parallel()
	s, store := newSite(t)
	if status, page := ask(t, s, "?cursor=x"); status != 400 || !strings.Contains(page, "not one of ours") {
		t.Errorf("got %d and %s", status, page)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if status, page := ask(t, s, ""); status != 503 || !strings.Contains(page, "cannot be shown now") {
		t.Errorf("got %d and %s", status, page)
	}
}

// People read the feed on every screen, without script, from the newest post to the oldest.
func TestBrowser(t *testing.T) {
	b := browsertest.Start(t, "--hide-scrollbars")
	s, _ := newSite(t)
	url := browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) { _ = s.Handle(ctx) }) + Path // always nil
	for name, screen := range map[string]browsertest.Screen{
		"phone": {Width: 320, Height: 640}, "night": {Width: 320, Height: 640, Dark: true}, "desktop": {Width: 1280, Height: 900},
	} {
		t.Run(name, func(t *testing.T) {
			tab := b.Open(t, screen)
			tab.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
			tab.Visit(url)
			look := func(want ...string) {
				t.Helper()
				text := fmt.Sprint(tab.Eval("document.body.innerText"))
				for _, part := range want {
					if !strings.Contains(text, part) {
						t.Errorf("the browser shows %.800q, which lacks %q", text, part)
					}
				}
				if wrong := fmt.Sprint(tab.Eval(browsertest.Layout)); wrong != "[]" {
					t.Error(wrong)
				}
				if got := tab.Eval("document.title"); got != "Feed" {
					t.Errorf("the title is %v: a script in a post was run", got)
				}
			}
			look("Pinned", strings.Repeat("W", feed.MaxTitle), "Åsa \"O'Neill\"", "31 January 2026, 08:00 UTC", "<script>document.title='run'</script>\nsecond line",
				"Film", "Picture: <>", "🎉 1000000000", "Comments")
			older := "document.querySelector('a.act[href*=cursor]').href"
			for posts := 10; posts < 26; posts += 10 {
				tab.Visit(fmt.Sprint(tab.Eval(older)))
				look("Newest posts")
			}
			if n := tab.Eval("document.querySelectorAll('article').length"); fmt.Sprint(n) != "6" {
				t.Errorf("the last page has %v posts, want 6 of 26", n)
			}
			if more := tab.Eval("document.querySelectorAll('a.act').length"); fmt.Sprint(more) != "1" {
				t.Errorf("the last page has %v links, want that back alone", more)
			}
		})
	}
}
