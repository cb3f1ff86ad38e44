package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"loadstone/block/account"
	"loadstone/block/backoffice"
	"loadstone/block/backoffice/backofficetest"
	"loadstone/block/browsertest"
	"loadstone/system/feed"
	"loadstone/system/feed/feedtest"
	"loadstone/system/feed/sqlitestore"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

type fixture struct {
	url      string
	desk     feed.Desk
	accounts atomic.Pointer[account.Accounts]
}

// start serves the admin of a desk with posts 1 to 30, of whom mod may take down and ada may write.
func start(t *testing.T, change func(feed.Desk) feed.Desk) *fixture {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "feed.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := store.Fill(t.Context(), feedtest.Generator(t, 1, 30), nil); err != nil {
		t.Fatal(err)
	}
	f := &fixture{desk: store}
	f.accounts.Store(backofficetest.Accounts(t, Roles(), "mod:moderator", "ada:editor"))
	if change != nil {
		f.desk = change(store)
	}
	a, err := New(Config{Desk: f.desk, Office: backoffice.Config{
		Accounts: f.accounts.Load, Key: backofficetest.Key, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	f.url = browsertest.Serve(t, func(ctx *fasthttp.RequestCtx) { _ = a.Handle(ctx) }) // always nil
	return f
}

func (f *fixture) as(t *testing.T, name string) *backofficetest.Browser {
	t.Helper()
	return backofficetest.NewBrowser(t, f.url, "feed").As(name)
}

// entry is a post as the desk has it.
func (f *fixture) entry(t *testing.T, id int64) feed.Kept {
	t.Helper()
	k, err := f.desk.Entry(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// fields are those of a form that a page has, with some that are typed.
func fields(page string, typed ...string) []string {
	return append(backofficetest.Hidden(page), typed...)
}

// id is that of the post that a form is for.
func id(page string) (n int64) {
	hidden := backofficetest.Hidden(page)
	for i := range hidden {
		if hidden[i] == "post" {
			n = number([]byte(hidden[i+1]))
		}
	}
	return n
}

// What somebody else did to the author meanwhile is not undone by the way; and who edits what was erased is told.
func TestProfilesAndErasure(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ada := f.as(t, "ada")
	k := f.entry(t, 7)
	apply := func(action feed.Action, e *feed.Entry) {
		t.Helper()
		if _, err := f.desk.Apply(t.Context(), feed.Change{Action: action, Editor: "bob", Post: 7}, e, feed.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	typed := func(role string) []string {
		return []string{"do", "save", "title", "New", "text", "x", "author", nameOf(&k.Author), "role", role, "team", k.Author.Team, "about", k.Author.About, "photo", k.Author.Photo}
	}
	path := postPath(7) + "/edit"
	page := ada.Get(path, 200, "").Body
	changed := k.Entry // by another post of the author
	changed.ID, changed.Author.Role = 1_000_000, "Chef"
	if err := f.desk.Put(t.Context(), &changed); err != nil {
		t.Fatal(err)
	}
	ada.Post(path, 303, "", fields(page, typed(k.Author.Role)...)...)
	if got := f.entry(t, 7); got.Title != "New" || got.Author != changed.Author {
		t.Errorf("got %+v", got.Entry)
	}
	page = ada.Get(path, 200, "Chef").Body
	changed.ID, changed.Author.Role = 1_000_001, "King"
	if err := f.desk.Put(t.Context(), &changed); err != nil {
		t.Fatal(err)
	}
	page = ada.Post(path, 409, "somebody has changed the author", fields(page, typed("Queen")...)...).Body
	ada.Post(path, 303, "", fields(page, typed("Queen")...)...) // who has been told
	if got := f.entry(t, 7); got.Author.Role != "Queen" {
		t.Errorf("got %+v", got.Author)
	}
	page = ada.Get(path, 200, "").Body
	apply(feed.Erased, nil)
	ada.Post(path, 409, "the post was erased while you wrote", fields(page, typed("Queen")...)...)
}

// A post is written, edited, taken down and put back, and the log says who did it.
func TestAPost(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ada, mod := f.as(t, "ada"), f.as(t, "mod")
	page := ada.Get("/new", 200, "New post").Body
	typed := []string{
		"do", "save", "title", "The canteen", "text", "It is open\r\nagain.", "pinned", "on", "author", "Noor", "role", "Cook", "team", "Kitchen",
		"kind", "image", "url", "https://a.example/1.jpg", "alt", "A pot", "width", "800", "height", "600",
		"kind", "video", "url", "https://a.example/1.mp4", "alt", "", "width", "", "height", "",
	}
	ada.Post("/new", 303, "", fields(page, typed...)...)
	post := id(page)
	k := f.entry(t, post)
	want := feed.Entry{
		Post:   feed.Post{ID: post, Published: k.Published, Title: "The canteen", Text: "It is open\nagain.", Pinned: true},
		Author: feed.Author{ID: 301, Name: "Noor", Role: "Cook", Team: "Kitchen"},
		Media:  []feed.Medium{{Kind: "image", URL: "https://a.example/1.jpg", Alt: "A pot", Width: 800, Height: 600}, {Kind: "video", URL: "https://a.example/1.mp4"}},
	}
	want.Author.ID = k.Author.ID
	want.Complete()
	feedtest.Want(t, f.desk, &want)
	path := postPath(post)
	for _, part := range []string{"The canteen", "Noor, Cook · Kitchen", "Picture: A pot", "800 × 600", "Film", "written by ada", "pinned"} {
		mod.Get(path, 200, part)
	}
	again := ada.Post("/new", 409, "This form was saved before", fields(page, typed...)...).Body
	if id(again) == post {
		t.Error("to save again would be in vain for ever")
	}

	page = ada.Get(path+"/edit", 200, `value="Noor (`).Body
	mod.Get(path+"/edit", 403, "Ask an editor")
	mod.Post(path+"/edit", 403, "Ask an editor", fields(page, typed...)...)
	mod.Post("/new", 403, "Ask an editor", fields(page, typed...)...)
	mod.Get("/new", 403, "Ask an editor")
	typed[3], typed[9], typed[11] = "The new canteen", fmt.Sprintf("Noor N. (%d)", want.Author.ID), "Chef"
	ada.Post(path+"/edit", 303, "", fields(page, typed[:14]...)...)
	want.Title, want.Author.Name, want.Author.Role, want.Media = "The new canteen", "Noor N.", "Chef", nil
	want.Complete()
	feedtest.Want(t, f.desk, &want)
	conflict := ada.Post(path+"/edit", 409, "somebody has changed the post while you wrote", fields(page, typed...)...).Body
	if !strings.Contains(conflict, "https://a.example/1.mp4") {
		t.Error("what was typed is lost")
	}
	ada.Post(path+"/edit", 303, "", fields(conflict, typed...)...) // who has been told

	mod.Post(path+"/take-down", 303, "")
	mod.Post(path+"/take-down", 303, "") // again does no harm
	mod.Get(path, 200, "nobody sees it in the feed")
	mod.Get("/down", 200, "taken down by mod")
	if page, err := f.desk.Page(t.Context(), feed.Start, 100); err != nil || len(page) != 30 {
		t.Errorf("got %d posts and %v", len(page), err)
	}
	page = ada.Get(path+"/edit", 200, "").Body
	ada.Post(path+"/edit", 409, "Put it back first", fields(page, typed...)...)
	mod.Post(path+"/put-back", 303, "")
	mod.Post(path+"/put-back", 303, "")
	if k := f.entry(t, post); k.Down || len(k.Media) != 2 {
		t.Errorf("got %+v", k)
	}
	log := mod.Get("/log", 200, "").Body
	for _, part := range []string{"put back by mod", "taken down by mod", "edited by ada", "written by ada"} {
		at := strings.Index(log, part)
		if at < 0 {
			t.Fatalf("the log lacks %q at its place", part)
		}
		log = log[at:]
	}
}

func TestComments(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	e := feedtest.Odd(40, 1, 30)
	if err := f.desk.Put(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	mod := f.as(t, "mod")
	page := mod.Get("/posts/40", 200, "comment 29 &amp; &lt;more&gt;").Body // also those that readers do not see
	version := fmt.Sprint(f.entry(t, 40).Version)
	if hidden := backofficetest.Hidden(page); len(hidden) != 4*30 || hidden[1] != version {
		t.Errorf("got %v", hidden)
	}
	mod.Post("/posts/40/comment", 303, "", "version", version, "comment", "1")
	k := f.entry(t, 40)
	if len(k.Comments) != 29 || k.Comments[0] != e.Comments[0] || k.Comments[1] != e.Comments[2] {
		t.Errorf("got %+v", k.Comments)
	}
	mod.Post("/posts/40/comment", 409, "the post has changed", "version", version, "comment", "1")
	mod.Post("/posts/40/comment", 404, "no such comment", "version", fmt.Sprint(k.Version), "comment", "29")
	mod.Post("/posts/40/comment", 404, "no such comment", "version", fmt.Sprint(k.Version), "comment", "-1")
	mod.Post("/posts/40/comment", 400, "not the form", "version", fmt.Sprint(k.Version))
	mod.Get("/log", 200, "a comment taken down by mod")
}

// Posts are found by title, text, author and number, page by page, and none is missed.
func TestFinding(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	mod := f.as(t, "mod")
	e := feedtest.Odd(50, 5, 0) // the oldest
	e.Text, e.Author.Name = "Straße & needle", "Ünal"
	if err := f.desk.Put(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	next := "?q="
	for pages := 0; next != "" && pages < 5; pages++ {
		page := mod.Get("/posts"+next, 200, "Posts").Body
		for part := range strings.SplitSeq(page, `<li><a href="/admin/posts/`) {
			if number, _, ok := strings.Cut(part, `"`); ok && !strings.Contains(number, "<") {
				seen[number] = true
			}
		}
		_, rest, _ := strings.Cut(page, `&amp;behind=`)
		behind, _, more := strings.Cut(rest, `"`)
		if next = ""; more {
			next = "?q=&behind=" + behind
		}
	}
	if len(seen) != 31 {
		t.Errorf("got %d posts", len(seen))
	}
	for _, word := range []string{"NEEDLE", "stra%C3%9Fe", "%C3%BCnal"} {
		mod.Get("/posts?q="+word, 200, `<li><a href="/admin/posts/50">`)
	}
	mod.Get("/posts?q=nothing-of-the-kind", 200, "There are none.")
	if got := mod.Get("/posts?q=50", 303, "").Header.Get("Location"); got != "/admin/posts/50" {
		t.Errorf("got %q", got)
	}
	mod.Get("/posts?q="+strings.Repeat("a", 201), 200, "too long")
	mod.Get("/posts?behind=x", 400, "no such place")
	mod.Get("/posts/51", 404, "There is no such post.")
	for _, path := range []string{"/posts/x", "/posts/0", "/posts/1/take-down", "/nothing"} {
		mod.Get(path, 404, "no such page")
	}
	if err := f.desk.Delete(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	mod.Get("/posts/50", 200, "There is no such post any more.") // who did that is to be seen
}

// Buttons change the form and nothing else, and mistakes stand beside what was typed.
func TestTheForm(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	ada := f.as(t, "ada")
	before := f.entry(t, 7)
	page := ada.Get("/posts/7/edit", 200, "").Body
	medium := func(url, width string) []string {
		return []string{"kind", "image", "url", url, "alt", "", "width", width, "height", ""}
	}
	send := func(do string, status int, text string, more ...string) string {
		t.Helper()
		return ada.Post("/posts/7/edit", status, text, fields(page, append([]string{"do", do, "title", "T", "text", "x", "author", "Noor"}, more...)...)...).Body
	}
	two := append(medium("https://a.example/1", ""), medium("https://a.example/2", "")...)
	if got := send("up 1", 200, "", two...); strings.Index(got, "example/2") > strings.Index(got, "example/1") {
		t.Error("it was not moved")
	}
	if got := send("remove 0", 200, "example/2", two...); strings.Contains(got, "example/1") {
		t.Error("it was not removed")
	}
	if got := send("add", 200, "Number 3", two...); strings.Count(got, `name="url"`) != 3 {
		t.Error("none was added")
	}
	var most []string
	for range feed.MaxMedia {
		most = append(most, medium("https://a.example/1", "")...)
	}
	send("add", 200, "A post has no more", most...)
	send("save", 400, "not the form", append(most, medium("", "")...)...)
	for _, button := range []string{"", "up", "up 9", "remove -1", "nothing 0"} {
		send(button, 400, "no such button", two...)
	}
	wrong := send("save", 422, "Nothing is saved yet", append(medium("javascript:alert(1)", "wide"), "photo", "http://a.example/")...)
	for _, part := range []string{
		`id="url-1-problem">url is &#34;javascript:alert(1)&#34;: write an https address`, `id="width-1-problem">write a number of pixels`, `id="photo-problem">photo is`,
	} {
		if !strings.Contains(wrong, part) {
			t.Errorf("%q is missing in %s", part, wrong)
		}
	}
	ada.Post("/posts/7/edit", 422, `id="title-problem"`, fields(page, "do", "save", "title", "", "text", "", "author", "")...)
	ada.Post("/posts/8/edit", 400, "not the form", fields(page, "do", "save")...)
	ada.Post("/posts/7/edit", 400, "not the form", "do", "save")
	if now := f.entry(t, 7); now.Version != before.Version || now.Title != before.Title {
		t.Errorf("it became %+v", now)
	}
}

// Authors are found by their names, by their numbers where there are several, and made otherwise.
func TestAuthors(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	for i, name := range []string{"Twin", "Twin", "Sole"} {
		e := feedtest.Odd(int64(100+i), 1, 0)
		e.Author = feed.Author{ID: int64(900 + i), Name: name, Role: "Cook"}
		if err := f.desk.Put(t.Context(), &e); err != nil {
			t.Fatal(err)
		}
	}
	ada := f.as(t, "ada")
	page := ada.Get("/new", 200, `<option value="Sole (902)">`).Body
	save := func(author string, status int, text string) {
		t.Helper()
		ada.Post("/new", status, text, fields(page, "do", "save", "title", "T", "text", "x", "author", author, "role", "King")...)
	}
	save("Twin", 422, "there are several of this name")
	save("Twin (902)", 422, "nobody with this name and number")
	save("Twin (901)", 303, "")
	if got := f.entry(t, id(page)).Author; got != (feed.Author{ID: 901, Name: "Twin", Role: "Cook"}) {
		t.Errorf("got %+v", got)
	}
	page = ada.Get("/new", 200, "").Body
	save("Sole", 303, "")
	if got := f.entry(t, id(page)).Author; got.ID != 902 || got.Role != "Cook" {
		t.Errorf("got %+v", got)
	}
	page = ada.Get("/new", 200, "").Body
	save("Newcomer", 303, "")
	if got := f.entry(t, id(page)).Author; got != (feed.Author{ID: 903, Name: "Newcomer", Role: "King"}) {
		t.Errorf("got %+v", got)
	}
}

// Nobody gets in without an account, or from another page.
func TestStrangers(t *testing.T) {
	t.Parallel()
	f := start(t, nil)
	b := backofficetest.NewBrowser(t, f.url, "feed")
	writes := []string{"/new", "/posts/7/edit", "/posts/7/take-down", "/posts/7/put-back", "/posts/7/comment"}
	title := f.entry(t, 7).Title
	for _, path := range []string{"", "/posts/7", "/posts/7/edit", "/new", "/down", "/log", "/posts?q=a"} {
		if got := b.Get(path, 401, "Sign in"); strings.Contains(got.Body, title) {
			t.Errorf("%s shows a post", path)
		}
	}
	for _, path := range writes {
		b.Post(path, 401, "so nothing was done")
	}
	ada := f.as(t, "ada")
	ada.Headers = []string{"Sec-Fetch-Site: cross-site"}
	for _, path := range writes {
		ada.Post(path, 403, "did not come from a page of this address")
	}
	if k := f.entry(t, 7); k.Down || k.Version != 0 {
		t.Errorf("it became %+v", k)
	}
}

// What people type is text, wherever it is shown.
func TestHostileText(t *testing.T) {
	t.Parallel()
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}'`
	f := start(t, nil)
	e := feedtest.Odd(60, 1<<41, 1)
	e.Title, e.Text, e.Author.Name, e.Author.Role, e.Media[0].Alt, e.Comments[0].Text, e.Comments[0].Author = hostile, hostile, hostile, hostile, hostile, hostile, hostile
	if err := f.desk.Put(t.Context(), &e); err != nil {
		t.Fatal(err)
	}
	ada := f.as(t, "ada")
	page := ada.Get("/posts/60/edit", 200, "").Body
	shown := []string{page, ada.Post("/posts/60/edit", 422, "", fields(page, "do", "save", "title", hostile, "text", hostile, "author", hostile+"2", "photo", hostile)...).Body}
	for _, path := range []string{"", "/posts/60", "/log", "/posts?q=%22%3E%3Cscript%3E", "/new"} {
		shown = append(shown, ada.Get(path, 200, "").Body)
	}
	for _, page := range shown {
		if strings.Contains(page, "<script") || strings.Contains(page, "<img") {
			t.Errorf("it runs what was typed: %s", page)
		}
	}
}

// failing is a desk whose changes fail.
type failing struct {
	feed.Desk

	err error
}

func (f failing) Apply(context.Context, feed.Change, *feed.Entry, feed.Condition) (feed.Change, error) {
	return feed.Change{}, f.err
}

// The store's failures are said, and not what they are.
func TestFailuresOfTheStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{feed.ErrOverloaded, 503, "Nothing was changed"},
		{fmt.Errorf("secret host: %w", feed.ErrUnavailable), 503, "may or may not be stored"},
		{errors.New("secret host"), 500, "made a mistake"},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			t.Parallel()
			f := start(t, func(d feed.Desk) feed.Desk { return failing{d, c.err} })
			if got := f.as(t, "mod").Post("/posts/7/take-down", c.status, c.text); strings.Contains(got.Body, "secret") {
				t.Errorf("it said %s", got.Body)
			}
		})
	}
	if _, err := New(Config{}); err == nil {
		t.Error("an admin of nothing was made")
	}
}
