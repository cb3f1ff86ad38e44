package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"loadstone/block/backoffice/backofficetest"
	"loadstone/block/browsertest"
	"loadstone/system/menu"
)

// An editor's day, on every screen: sign in, edit, look, publish, roll back.
func TestBrowser(t *testing.T) {
	b := browsertest.Start(t, "--hide-scrollbars", "--ignore-certificate-errors") // of the photos' server
	photos := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(photos.Close)
	for name, screen := range map[string]browsertest.Screen{
		"narrow":  {Width: 320, Height: 640, Dark: true},
		"desktop": {Width: 1280, Height: 900},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, openDesk(t), func(c *Config) { c.Search = finder{} })
			p := backofficetest.NewPerson(t, b, screen, f.url, name)
			p.Goes("/menus/7")
			p.Sees("Sign in", "Name", "Password")
			p.Types("name", "ada")
			p.Types("password", "a wrong password")
			p.Presses("Sign in")
			p.Sees("There is no account with this name and password.")
			p.Types("name", "ada")
			p.Types("password", backofficetest.Password)
			p.Presses("Sign in")
			p.Sees("Menus", "ada, publisher", "Menu 7", "Published: version 1", "Shiro", "12.50 EUR")

			p.Presses("Edit")
			p.Sees("Edit menu 7", "Dishes", "Dish 3", "Add a dish")
			p.Presses("Move dish 3 up")
			p.Presses("Add a dish below dish 1")
			p.Until("one goes on at the dish", "document.activeElement.id == 'type-2'")
			p.Types("name-2", "Doro wat")
			p.Types("price-2", "so much")
			p.Types("price-1", "13.75")
			p.Types("photo-1", "javascript:alert(1)")
			p.Presses("Save and review")
			p.Sees("Nothing is saved yet", "write an https address such as", "such as 12.55")
			p.Types("photo-1", photos.URL+"/shiro.jpg")
			if got := p.Eval("document.getElementById('price-1').value + document.getElementById('name-2').value"); got != "13.75Doro wat" {
				t.Errorf("what was typed became %v", got)
			}
			p.Types("price-2", "18.00")
			p.Types("ingredients-2", "chicken\negg")
			p.Presses("Save and review")
			p.Sees("The draft is saved", "What the draft changes", "changed", "Shiro", "12.50 EUR", "13.75 EUR", "photo", photos.URL, "added", "Doro wat", "order", "Published: version 1", "Draft")
			p.Presses("Preview")
			p.Sees("This is the draft by ada. Guests do not see it yet.", "Shiro", "€13.75", "chicken, egg")
			if got := p.Eval("document.images.length + document.images[0].src"); got != "1"+photos.URL+"/shiro.jpg" {
				t.Errorf("the preview has the pictures %v", got)
			}
			p.Presses("Back")
			if strings.Contains(f.published(t, 7), "Doro") {
				t.Error("guests see the draft")
			}
			other := menuOf(t, strings.Replace(seven, "Genfo", "Chechebsa", 1))
			if _, _, err := f.desk.Replace(menu.WithEditor(t.Context(), "ben"), other, menu.Condition{}); err != nil {
				t.Fatal(err)
			}
			p.Presses("Publish")
			p.Sees("Nothing was published", "Published in the meantime", "Version 2 came by ben", "Chechebsa", "What the draft changes")
			p.Presses("Publish over version 2")
			p.Sees("The menu is published.", "Published: version 3", "Doro wat")
			p.Visit(f.url + "/restaurants/7")
			p.Sees("Shiro", "€13.75", "Doro wat")

			p.Goes("/menus/7")
			p.Presses("Availability")
			p.Sees("Menu 7: availability", "Sold out", "Shiro", "Hours")
			p.Presses("Shiro is sold out")
			p.Sees("The dish is sold out.", "Shiro", "sold out", "There is more")
			p.Presses("Add hours")
			p.Types("zone", "Europe/Berlin")
			p.Types("name-1", "evening")
			p.Types("from-1", "18:00")
			p.Types("to-1", "late")
			p.Eval(`document.querySelector("input[value=dinner]").click()`)
			p.Presses("Save the hours")
			p.Sees("Nothing is saved yet", "Hours 1", "Mon", "Sun", "dinner", "breakfast")
			p.Types("to-1", "01:00")
			p.Presses("Save the hours")
			p.Sees("The hours are saved.", "Hours 1")

			p.Goes("/menus/7/history")
			p.Sees("Version 3", "Version 2", "Chechebsa", "Version 1", "by a program")
			p.Presses("Roll back to version 1")
			p.Sees("The menu is rolled back", "Version 4", "Published by ada")
			p.Presses("Changes")
			p.Sees("Menu 7, version 4", "published by ada", "version 2", "ben", "version 1")
			p.Presses("Menus")
			p.Sees("Find a menu", "Drafts", "There are none.", "Last changes")
			p.Types("q", "shiro")
			p.Presses("Find")
			p.Sees("Dishes", "shiro of 50", "12.50 EUR")
			p.Goes("/nothing")
			p.Sees("That did not work", "There is no such page.")

			// What is typed outlives the session: after signing in elsewhere it is sent again.
			p.Goes("/menus/7/edit")
			p.Types("name-1", "Typed for long")
			accounts := f.accounts.Load()
			f.accounts.Store(accountsOf(t, "ben:editor"))
			p.Presses("Save the draft")
			p.Sees("You are signed out")
			f.accounts.Store(accounts)
			p.NextPage(func() { p.Call("Page.reload", nil, nil) })
			p.Sees("The draft is saved")
			if got := p.Eval("document.getElementById('name-1').value"); got != "Typed for long" {
				t.Errorf("what was typed became %v", got)
			}
			p.Presses("Sign out")
			p.Sees("Sign in")
			p.Complains()
		})
	}
}
