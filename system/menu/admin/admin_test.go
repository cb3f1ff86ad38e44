package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"loadstone/block/backoffice/backofficetest"
	"loadstone/system/menu"
)

// From a draft to a menu and back again; guests see nothing before it is published, caches
// are told, and the log says who did it.
func TestFromADraftToTheMenuAndBack(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ben, ada := f.as(t, "ben"), f.as(t, "ada")
	before := f.published(t, 7)
	ben.Get("", 200, "There are none.")
	ben.Get("/menus/7", 200, "Published: version 1")
	ben.save("7", "Doro wat", "18.00")
	if f.published(t, 7) != before || f.told.Load() != 0 {
		t.Error("a draft was published")
	}
	for _, want := range []string{"Doro wat", "18.00", "added", "Kitfo", "removed", "A publisher can publish"} {
		ben.Get("/menus/7", 200, want)
	}
	ben.Get("", 200, `<a href="/admin/menus/7">Menu 7</a> <span>by ben</span>`)
	ben.Get("/menus/7/preview", 200, "Guests do not see it yet.")
	ben.Get("/menus/7/preview", 200, "€18.00")
	ben.Post("/menus/7/publish", 403, "Ask a publisher", backofficetest.Hidden(ada.Get("/menus/7", 200, "").Body)[:4]...)
	ada.publish("7", 303, "")
	if got := f.published(t, 7); !strings.Contains(got, `"dish":"Doro wat","price":18.00`) || f.told.Load() != 1 {
		t.Errorf("got %s, and caches told %d times", got, f.told.Load())
	}
	ada.Get("/menus/7/preview", 404, "no draft")
	ada.Get("/log", 200, "published by ada")
	ada.Get("/log", 200, "published by a program, through the interface")
	history := ada.Get("/menus/7/history", 200, "Roll back to version 1").Body
	for _, want := range []string{"Version 2", "Version 1", "by ada", "Doro wat", "Kitfo"} {
		if !strings.Contains(history, want) {
			t.Errorf("the history lacks %q", want)
		}
	}
	if strings.Contains(history, "Roll back to version 2") {
		t.Error("one may roll back to what there is")
	}
	back := backofficetest.Hidden(history)[:4]
	ben.Post("/menus/7/roll-back", 403, "Ask a publisher", back...)
	ada.Post("/menus/7/roll-back", 303, "", back...)
	if got := f.published(t, 7); got != before {
		t.Errorf("got %s, want %s", got, before)
	}
	ada.Post("/menus/7/roll-back", 409, "has changed since", back...) // what they saw is not there any more
	changes, err := f.desk.LastChanges(t.Context(), "", 1)
	if err != nil || len(changes) != 1 || changes[0].Editor != "ada" || changes[0].Version != 3 {
		t.Errorf("got %v and %v, want version 3 by ada", changes, err)
	}
}

// Who publishes what was changed in the meantime is shown both, and nothing is lost.
func TestTwoWhoChangeAMenu(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ben, ada := f.as(t, "ben"), f.as(t, "ada")
	ben.save("7", "Doro wat", "18.00")
	seen := backofficetest.Hidden(ada.Get("/menus/7", 200, "").Body)[:4]
	other := strings.Replace(seven, "12.50", "13.75", 1)
	if _, _, err := f.desk.Replace(t.Context(), menuOf(t, other), menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	conflict := ada.Post("/menus/7/publish", 409, "Nothing was published", seen...).Body
	for _, want := range []string{"Published in the meantime", "Version 2", "13.75", "12.50", "Doro wat", "Publish over version 2"} {
		if !strings.Contains(conflict, want) {
			t.Errorf("the answer lacks %q", want)
		}
	}
	if !strings.Contains(f.published(t, 7), "13.75") {
		t.Error("the other's change is lost")
	}
	// The draft is another one by the time that it is published.
	seen = backofficetest.Hidden(conflict)[:4]
	ben.save("7", "Doro wat", "19.00")
	ada.Post("/menus/7/publish", 409, "19.00", seen...)
	ada.Post("/menus/7/discard", 409, "Nothing was discarded", seen[:2]...)
	ada.publish("7", 303, "")
	if !strings.Contains(f.published(t, 7), "19.00") {
		t.Error("the draft was not published")
	}
	// Two write a draft at a time.
	first, second := backofficetest.Hidden(ben.Get("/menus/7/edit", 200, "").Body), backofficetest.Hidden(ada.Get("/menus/7/edit", 200, "").Body)
	dish := []string{"do", "save", "currency", "EUR", "link", "", "type", "t", "subtype", "s", "price", "1.00", "ingredients", "", "photo", "", "name"}
	ben.Post("/menus/7/edit", 303, "", append(slices.Concat(first, dish), "by ben")...)
	again := ada.Post("/menus/7/edit", 409, "ben has saved another draft", append(slices.Concat(second, dish), "by ada")...).Body
	if !strings.Contains(again, `value="by ada"`) {
		t.Error("what was typed is lost")
	}
	ada.Post("/menus/7/edit", 303, "", append(slices.Concat(backofficetest.Hidden(again), dish), "by ada")...)
	ada.Get("/menus/7", 200, "by ada")
	ada.Post("/menus/7/discard", 303, "", backofficetest.Hidden(ada.Get("/menus/7", 200, "").Body)[4:6]...)
	ada.Get("/menus/7/preview", 404, "no draft")
}

func TestANewMenu(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ada := f.as(t, "ada")
	ada.Get("/menus?q=8", 303, "")
	ada.Get("/menus/8", 200, "There is no menu.")
	ada.Get("/menus/8/history", 200, "There are no versions.")
	hidden := backofficetest.Hidden(ada.Get("/menus/8/edit", 200, `value="USD"`).Body)
	ada.Post("/menus/8/edit", 303, "", append(hidden, "do", "review", "currency", "usd", "link", "https://eight.example/menu",
		"type", "", "subtype", "", "name", "", "price", "", "ingredients", "", "photo", "")...)
	ada.publish("8", 303, "")
	if got := f.published(t, 8); got != `{"id":8,"dishes":[],"link":"https://eight.example/menu","currency":"USD"}` {
		t.Errorf("got %s", got)
	}
}

// Buttons change the form and nothing else, and mistakes stand beside what was typed.
func TestTheForm(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ben := f.as(t, "ben")
	page := ben.Get("/menus/7/edit", 200, "chickpeas\ngarlic, roasted</textarea>").Body
	photos := map[string]string{"A": "https://a.example/1.jpg", "Good <b>": "javascript:alert(1)"}
	send := func(button string, status int, names, prices []string) string {
		t.Helper()
		fields := append(backofficetest.Hidden(page), "do", button, "currency", "EUR", "link", "")
		for i := range names {
			ingredients := "a\r\nb, c\r\n"
			if names[i] == "" {
				ingredients = ""
			}
			fields = append(fields, "type", "dinner", "subtype", "main", "name", names[i], "price", prices[i], "ingredients", ingredients, "photo", photos[names[i]])
		}
		return ben.Post("/menus/7/edit", status, "", fields...).Body
	}
	order := func(page string) string {
		var names []string
		for part := range strings.SplitSeq(page, ` name="name" value="`) {
			name, _, _ := strings.Cut(part, `"`)
			names = append(names, name)
		}
		return strings.Join(names[1:], " ")
	}
	abc, prices := []string{"A", "B", "C"}, []string{"1.00", "2.00", "3.00"}
	for button, want := range map[string]string{
		"add": "A B C ", "below 0": "A  B C", "up 0": "A B C", "up 2": "A C B", "down 0": "B A C", "down 2": "A B C", "remove 1": "A C",
	} {
		if got := order(send(button, 200, abc, prices)); got != want {
			t.Errorf("%s: got %q, want %q", button, got, want)
		}
	}
	for _, button := range []string{"", "up", "up x", "up 3", "remove -1", "remove 3", "nothing 1", "up 99999999999999999999"} {
		send(button, 400, abc, prices)
	}
	for price, want := range map[string]string{"": "price is", "x": "such as 12.55", "1,50": "price is", "-1": "price is", "1.005": "price is", "1e999": "price is"} {
		wrong := send("save", 422, []string{"Good <b>", strings.Repeat("x", menu.MaxText+1)}, []string{price, "2.00"})
		for _, part := range []string{"Good &lt;b&gt;", want, "at most 200", `aria-describedby="price-1-problem"`, `aria-describedby="name-2-problem"`, `aria-describedby="photo-1-problem"`, "write an https address", "b, c</textarea>", "Nothing is saved yet"} {
			if !strings.Contains(wrong, part) {
				t.Errorf("price %q: %q is missing", price, part)
			}
		}
	}
	if _, err := f.desk.Document(t.Context(), menu.Drafts, 7); !errors.Is(err, menu.ErrNotFound) {
		t.Errorf("got %v, want no draft", err)
	}
	send("save", 303, append(abc, ""), append(prices, "")) // who added a dish and wrote none
	ben.Get("/menus/7", 200, `<a href="https://a.example/1.jpg" rel="noopener noreferrer nofollow">Photo</a>`)
	ben.Get("/menus/7/edit", 200, `name="photo" value="https://a.example/1.jpg"`)
	ben.Get("/menus/7/preview", 200, `<img src="https://a.example/1.jpg" alt=""`)
}

func TestFieldsThatDoNotBelongTogether(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ben := f.as(t, "ben")
	for name, fields := range map[string][]string{
		"nothing":       {"do", "save"},
		"no version":    {"do", "save", "version", "x"},
		"half a dish":   {"do", "save", "version", "1", "type", "a"},
		"too many":      append([]string{"do", "save", "version", "1"}, slices.Repeat([]string{"type", "a", "subtype", "b", "name", "c", "price", "1", "ingredients", "", "photo", ""}, menu.MaxDishes+2)...),
		"a strange tag": {"do", "discard", "version", "1", "draft", "zz"},
	} {
		if got := ben.Post("/menus/7/edit", 400, "That did not work", fields...); got.Status != 400 {
			t.Errorf("%s was taken", name)
		}
	}
	ben.Post("/menus/7/discard", 409, "Nothing was discarded", "draft", "no tag")
}

// The store's failures are said, and not what they are.
func TestFailuresOfTheStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		text   string
	}{
		{menu.ErrOverloaded, 503, "Nothing was changed"},
		{menu.ErrUntold, 503, "Nothing was changed"},
		{fmt.Errorf("secret host: %w", menu.ErrUnavailable), 503, "may or may not be stored"},
		{context.DeadlineExceeded, 503, "may or may not be stored"},
		{errors.New("secret host"), 500, "made a mistake"},
	} {
		t.Run(c.err.Error(), func(t *testing.T) {
			t.Parallel()
			f := start(t, openDesk(t), func(cfg *Config) {
				cfg.Writer.Changing = func(context.Context, int64) error { return nil }
				cfg.Writer.Database = failing{cfg.Desk, c.err}
			})
			ada := f.as(t, "ada")
			ada.save("7", "Doro wat", "18.00")
			seen := backofficetest.Hidden(ada.Get("/menus/7", 200, "").Body)[:4]
			if got := ada.Post("/menus/7/publish", c.status, c.text, seen...); strings.Contains(got.Body, "secret") {
				t.Errorf("it said %s", got.Body)
			}
			ada.Get("/menus/7", 200, "Doro wat") // the draft is there
		})
	}
}

type failing struct {
	menu.Database

	err error
}

func (f failing) Replace(context.Context, *menu.Menu, menu.Condition) (menu.Page, bool, error) {
	return menu.Page{}, false, f.err
}

// found finds a dish whatever is asked for.
type finder struct{}

func (finder) Search(_ context.Context, query string, limit int) ([]menu.Found, error) {
	return []menu.Found{{ID: 7, Dish: menu.Dish{Type: "dinner", SubType: "main", Name: fmt.Sprintf("%s of %d", query, limit), Price: 1250}, Currency: "EUR"}}, nil
}

func TestFinding(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), func(c *Config) { c.Search = finder{} })
	ben := f.as(t, "ben")
	if got := ben.Get("/menus?q=7", 303, "").Header.Get("Location"); got != "/admin/menus/7" {
		t.Errorf("got %q", got)
	}
	ben.Get("/menus?q=shiro", 200, "shiro of 50")
	ben.Get("/menus?q="+strings.Repeat("a", 201), 200, "too long")
	ben.Get("/menus?q=", 200, "Find a menu")
	start(t, f.desk, nil).as(t, "ben").Get("/menus?q=shiro", 200, "by their number")
}

// The log goes on page by page, the newest first, and so does a history.
func TestPagesOfTheLog(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	const count = 110
	for i := range count {
		m := menuOf(t, seven)
		m.Dishes[0].Price = int64(i)
		if _, _, err := f.desk.Replace(menu.WithEditor(t.Context(), "ben"), m, menu.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
	ben := f.as(t, "ben")
	for path, want := range map[string]struct{ pages, versions int }{"/log": {3, count + 1}, "/menus/7/history": {menu.KeptRevisions / listedHistory, menu.KeptRevisions}} {
		next, pages, last, seen := path, 0, count+2, 0
		for next != "" && pages < 20 {
			page := ben.Get(next, 200, "").Body
			pages++
			for part := range strings.SplitSeq(strings.ToLower(page), "version ") {
				var version int
				if n, _ := fmt.Sscanf(part, "%d", &version); n == 1 && version == last-1 {
					last, seen = version, seen+1
				}
			}
			_, rest, ok := strings.Cut(page, `<a href="`+Path+path+`?before=`)
			before, _, _ := strings.Cut(rest, `">Older`)
			if next = ""; ok && !strings.Contains(before, "<") {
				next = path + "?before=" + before
			}
		}
		if pages != want.pages || seen != want.versions {
			t.Errorf("%s: got %d pages with %d versions in order, want %d and %d", path, pages, seen, want.pages, want.versions)
		}
	}
	ben.Get("/log?before=%00nonsense%ff", 400, "That did not work")
}
