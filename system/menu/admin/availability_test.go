package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstone/block/backoffice/backofficetest"
	"loadstone/system/menu"
)

// said is the availability of menu 7, as programs get it.
func (f *fixture) said(t *testing.T) string {
	t.Helper()
	d, err := f.desk.Document(t.Context(), menu.Availability, 7)
	if err != nil && !errors.Is(err, menu.ErrNotFound) {
		t.Fatal(err)
	}
	return string(d.Body)
}

// typedHours are the fields of hours on Monday.
func typedHours(i int, name, from, to string, sections ...string) []string {
	fields := []string{fmt.Sprintf("name-%d", i), name, fmt.Sprintf("from-%d", i), from, fmt.Sprintf("to-%d", i), to, fmt.Sprintf("day-%d", i), "mon"}
	for _, section := range sections {
		fields = append(fields, fmt.Sprintf("section-%d", i), section)
	}
	return fields
}

// hours sends the form of hours that a page has, with as many parts as there are to be.
//
//nolint:revive // what is sent, and what is to come of it
func (b *browser) hours(page, do string, status int, text string, parts int, fields ...string) string {
	b.t.Helper()
	hidden := backofficetest.Hidden(page)[:2] // what the form was made from
	return b.Post("/menus/7/availability", status, text, append(append(hidden, "do", do, "parts", fmt.Sprint(parts)), fields...)...).Body
}

// Each editor says what is sold out; the menu stays as it is, and caches are not told.
func TestSoldOut(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ben := f.as(t, "ben")
	before := f.published(t, 7)
	ben.Get("/menus/7", 200, `<a href="/admin/menus/7/availability">`)
	ben.Get("/menus/7/availability", 200, "Shiro is sold out")
	if got := ben.Post("/menus/7/sold-out", 303, "", "out", "shiro").Header.Get("Location"); got != "/admin/menus/7/availability?done=out#dish-1" {
		t.Errorf("it leads to %q", got)
	}
	ben.Get("/menus/7/availability?done=out", 200, "The dish is sold out.")
	ben.Get("/menus/7/availability", 200, "There is more of Shiro")
	if got := f.said(t); got != `{"dayparts":[],"soldOut":[{"dish":"Shiro"}]}` {
		t.Errorf("got %s", got)
	}
	ben.Post("/menus/7/sold-out", 303, "", "out", "Genfo", "until", "2999-12-31T18:30")
	ben.Get("/menus/7/availability", 200, "sold out until 31 Dec 2999, 18:30")
	ben.Post("/menus/7/sold-out", 303, "", "more", "Shiro", "until", "2000-01-01T00:00") // of what is not sold out
	said := `{"dayparts":[],"soldOut":[{"dish":"Genfo","until":"2999-12-31T18:30:00Z"}]}`
	if got := f.said(t); got != said {
		t.Errorf("got %s, want %s", got, said)
	}
	ben.Post("/menus/7/sold-out", 409, "does not have this dish", "out", "Doro wat")
	ben.Post("/menus/7/sold-out", 409, "does not have this dish")
	for _, until := range []string{"2000-01-01T00:00", "tomorrow", "2999-12-31", "99999-12-31T18:30"} {
		ben.Post("/menus/7/sold-out", 422, "write a time to come", "out", "Shiro", "until", until)
	}
	ben.Post("/menus/8/sold-out", 409, "Nothing was changed", "out", "Shiro")
	if f.said(t) != said {
		t.Errorf("what was refused changed it to %s", f.said(t))
	}
	log := ben.Get("/log", 200, `<a href="/admin/menus/7/availability">Menu 7, availability</a>`).Body
	if n := strings.Count(log, "changed by ben"); n != 3 {
		t.Errorf("the log has %d changes by ben, want 3: %s", n, log)
	}
	page, err := f.desk.Lookup(t.Context(), 7)
	if f.published(t, 7) != before || page.Version != 1 || err != nil || f.told.Load() != 0 {
		t.Errorf("the menu became version %d, %v, and caches were told %d times", page.Version, err, f.told.Load())
	}
	// A dish that the menu does not have any more can still be had again.
	other := strings.Replace(seven, "Genfo", "Chechebsa", 1)
	if _, _, err := f.desk.Replace(t.Context(), menuOf(t, other), menu.Condition{}); err != nil {
		t.Fatal(err)
	}
	ben.Get("/menus/7/availability", 200, "not on the menu")
	ben.Post("/menus/7/sold-out", 303, "", "more", "Genfo")
	if got := f.said(t); got != `{"dayparts":[],"soldOut":[]}` {
		t.Errorf("got %s", got)
	}
}

// A publisher sets the hours, an editor sees them, and what is sold out in the meantime stays so.
func TestHours(t *testing.T) {
	t.Parallel()
	f := start(t, openDesk(t), nil)
	ben, ada := f.as(t, "ben"), f.as(t, "ada")
	empty := ada.Get("/menus/7/availability", 200, "Add hours").Body
	added := ada.hours(empty, "add", 200, `name="name-0"`, 0)
	ada.hours(added, "remove 0", 200, `name="parts" value="0"`, 1)
	breakfast := append([]string{"zone", "Europe/Berlin"}, typedHours(0, "breakfast", "07:00", "11:00", "breakfast")...)
	ben.Post("/menus/7/sold-out", 303, "", "out", "Shiro")
	ada.hours(added, "save", 303, "", 1, breakfast...)
	const said = `{"timeZone":"Europe/Berlin","dayparts":[{"name":"breakfast","days":["mon"],"from":"07:00","to":"11:00","sections":["breakfast"]}],"soldOut":[{"dish":"Shiro"}]}`
	if got := f.said(t); got != said {
		t.Errorf("got %s, want %s", got, said)
	}
	ben.Get("/menus/7/availability", 200, "breakfast: Mon 07:00\u201311:00 (Europe/Berlin)")
	ben.hours(added, "save", 403, "Ask a publisher", 1, breakfast...)

	// Who comes second is told, and nothing is lost.
	evening := append([]string{"zone", "Europe/Berlin"}, typedHours(0, "evening", "18:00", "00:00", "dinner", "Lunch")...)
	again := ada.hours(added, "save", 409, `value="evening"`, 1, evening...)
	if f.said(t) != said {
		t.Errorf("the other's hours became %s", f.said(t))
	}
	ada.hours(again, "save", 303, "", 1, evening...)
	now := ada.Get("/menus/7/availability", 200, "Lunch, not on the menu").Body
	if !strings.Contains(f.said(t), `"to":"00:00","sections":["dinner","Lunch"]`) {
		t.Errorf("got %s", f.said(t))
	}

	kept := f.said(t)
	for problem, fields := range map[string][]string{
		"write a time of day from 00:00": append([]string{"zone", "UTC"}, typedHours(0, "x", "25:00", "11:00", "dinner")...),
		"00:00 and 24:00 for a whole":    append([]string{"zone", "UTC"}, typedHours(0, "x", "11:00", "11:00", "dinner")...),
		"name is empty":                  append([]string{"zone", "UTC"}, typedHours(0, "", "10:00", "11:00", "dinner")...),
		"tick a section":                 append([]string{"zone", "UTC"}, typedHours(0, "x", "10:00", "11:00")...),
		"such as Europe/Berlin":          append([]string{"zone", "Mars"}, typedHours(0, "x", "10:00", "11:00", "dinner")...),
		"timeZone is missing":            append([]string{"zone", ""}, typedHours(0, "x", "10:00", "11:00", "dinner")...),
	} {
		ada.hours(now, "save", 422, problem, 1, fields...)
	}
	for _, do := range []string{"", "remove", "remove 1", "remove -1", "nothing"} {
		ada.hours(now, do, 400, "There is no such button", 1, evening...)
	}
	ada.hours(now, "save", 400, "not the form", menu.MaxDayparts+1)
	ada.Post("/menus/7/availability", 400, "not the form", "do", "save")
	if f.said(t) != kept {
		t.Errorf("what was refused changed it to %s", f.said(t))
	}
	ada.hours(now, "save", 303, "", 0)
	if got := f.said(t); got != `{"dayparts":[],"soldOut":[{"dish":"Shiro"}]}` {
		t.Errorf("got %s", got)
	}
}

// Several who say something of one menu at a time do not undo each other's.
func TestChangesOfAnAvailabilityAtOnce(t *testing.T) {
	t.Parallel()
	desk := openDesk(t)
	failed := make(chan error)
	dishes := []string{"Shiro", "Kitfo", "Genfo"}
	for _, dish := range dishes {
		go func() {
			d := menu.Document{ID: 7, Editor: "ben"}
			failed <- menu.ChangeOverlay(t.Context(), desk, &d, menu.Condition{}, menu.SoldOutChange(menu.SoldOut{Dish: dish}, true))
		}()
	}
	for range dishes {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	o, _, err := menu.FindOverlay(t.Context(), desk, 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, dish := range dishes {
		if !o.At(time.Now()).SoldOut(dish) {
			t.Errorf("%s is not sold out", dish)
		}
	}
}
