package admin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/browsertest"
	"loadstone/system/menu"
)

// person uses the admin in a real browser, without script.
type person struct {
	*browsertest.Tab

	t         *testing.T
	url, name string
	pictures  int
}

// sees wants texts, in their order, and a page that is laid out well. With VIEWS naming a
// directory, a picture of each page is written there for people to look at.
func (p *person) sees(texts ...string) {
	p.t.Helper()
	shown, from := fmt.Sprint(p.Eval("document.body.innerText")), 0
	for _, text := range texts {
		at := strings.Index(shown[from:], text)
		if at < 0 {
			p.t.Fatalf("the browser shows %q, which lacks %q at its place", shown, text)
		}
		from += at
	}
	if wrong := fmt.Sprint(p.Eval(browsertest.Layout)); wrong != "[]" {
		p.t.Errorf("%v: %s", p.Eval("location.pathname"), wrong)
	}
	if views := os.Getenv("VIEWS"); views != "" {
		p.pictures++
		picture := p.File("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true})
		if err := os.WriteFile(filepath.Join(views, fmt.Sprintf("%s-%02d.png", p.name, p.pictures)), picture, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}

// types puts a text into a field.
func (p *person) types(id, text string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf("document.getElementById(%q).select()", id))
	p.Call("Input.insertText", map[string]any{"text": text}, nil)
}

// presses follows the link or presses the button with the name, the first of those.
func (p *person) presses(name string) {
	p.t.Helper()
	p.NextPage(func() {
		p.t.Helper()
		p.Eval(fmt.Sprintf(`[...document.querySelectorAll("a,button")].find(e => (e.ariaLabel || e.textContent) == %q).click()`, name))
	})
}

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
			p := &person{Tab: b.Open(t, screen), t: t, url: f.url, name: name}
			p.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
			p.Hear("Log")
			p.Visit(f.url + Path + "/menus/7")
			p.sees("Sign in", "Name", "Password")
			p.types("name", "ada")
			p.types("password", "a wrong password")
			p.presses("Sign in")
			p.sees("There is no account with this name and password.")
			p.types("name", "ada")
			p.types("password", password)
			p.presses("Sign in")
			p.sees("Menus", "ada, publisher", "Menu 7", "Published: version 1", "Shiro", "12.50 EUR")

			p.presses("Edit")
			p.sees("Edit menu 7", "Dishes", "Dish 3", "Add a dish")
			p.presses("Move dish 3 up")
			p.presses("Add a dish below dish 1")
			if got := p.Eval("document.activeElement.id"); got != "type-2" {
				t.Errorf("one goes on at %v", got)
			}
			p.types("name-2", "Doro wat")
			p.types("price-2", "so much")
			p.types("price-1", "13.75")
			p.types("photo-1", "javascript:alert(1)")
			p.presses("Save and review")
			p.sees("Nothing is saved yet", "write an https address such as", "such as 12.55")
			p.types("photo-1", photos.URL+"/shiro.jpg")
			if got := p.Eval("document.getElementById('price-1').value + document.getElementById('name-2').value"); got != "13.75Doro wat" {
				t.Errorf("what was typed became %v", got)
			}
			p.types("price-2", "18.00")
			p.types("ingredients-2", "chicken\negg")
			p.presses("Save and review")
			p.sees("The draft is saved", "What the draft changes", "changed", "Shiro", "12.50 EUR", "13.75 EUR", "photo", photos.URL, "added", "Doro wat", "order", "Published: version 1", "Draft")
			p.presses("Preview")
			p.sees("This is the draft by ada. Guests do not see it yet.", "Shiro", "€13.75", "chicken, egg")
			if got := p.Eval("document.images.length + document.images[0].src"); got != "1"+photos.URL+"/shiro.jpg" {
				t.Errorf("the preview has the pictures %v", got)
			}
			p.presses("Back")
			if strings.Contains(f.published(t, 7), "Doro") {
				t.Error("guests see the draft")
			}
			other := menuOf(t, strings.Replace(seven, "Genfo", "Chechebsa", 1))
			if _, _, err := f.desk.Replace(menu.WithEditor(t.Context(), "ben"), other, menu.Condition{}); err != nil {
				t.Fatal(err)
			}
			p.presses("Publish")
			p.sees("Nothing was published", "Published in the meantime", "Version 2 came by ben", "Chechebsa", "What the draft changes")
			p.presses("Publish over version 2")
			p.sees("The menu is published.", "Published: version 3", "Doro wat")
			p.Visit(f.url + "/restaurants/7")
			p.sees("Shiro", "€13.75", "Doro wat")

			p.Visit(f.url + Path + "/menus/7")
			p.presses("Availability")
			p.sees("Menu 7: availability", "Sold out", "Shiro", "Hours")
			p.presses("Shiro is sold out")
			p.sees("The dish is sold out.", "Shiro", "sold out", "There is more")
			p.presses("Add hours")
			p.types("zone", "Europe/Berlin")
			p.types("name-1", "evening")
			p.types("from-1", "18:00")
			p.types("to-1", "late")
			p.Eval(`document.querySelector("input[value=dinner]").click()`)
			p.presses("Save the hours")
			p.sees("Nothing is saved yet", "Hours 1", "Mon", "Sun", "dinner", "breakfast")
			p.types("to-1", "01:00")
			p.presses("Save the hours")
			p.sees("The hours are saved.", "Hours 1")

			p.Visit(f.url + Path + "/menus/7/history")
			p.sees("Version 3", "Version 2", "Chechebsa", "Version 1", "by a program")
			p.presses("Roll back to version 1")
			p.sees("The menu is rolled back", "Version 4", "Published by ada")
			p.presses("Changes")
			p.sees("Menu 7, version 4", "published by ada", "version 2", "ben", "version 1")
			p.presses("Menus")
			p.sees("Find a menu", "Drafts", "There are none.", "Last changes")
			p.types("q", "shiro")
			p.presses("Find")
			p.sees("Dishes", "shiro of 50", "12.50 EUR")
			p.Visit(f.url + Path + "/nothing")
			p.sees("That did not work", "There is no such page.")

			// What is typed outlives the session: after signing in elsewhere it is sent again.
			p.Visit(f.url + Path + "/menus/7/edit")
			p.types("name-1", "Typed for long")
			accounts := f.accounts.Load()
			f.accounts.Store(accountsOf(t, "ben:editor"))
			p.presses("Save the draft")
			p.sees("You are signed out")
			f.accounts.Store(accounts)
			p.NextPage(func() { p.Call("Page.reload", nil, nil) })
			p.sees("The draft is saved")
			if got := p.Eval("document.getElementById('name-1').value"); got != "Typed for long" {
				t.Errorf("what was typed became %v", got)
			}
			p.presses("Sign out")
			p.sees("Sign in")
			for _, e := range p.Events() {
				if e.IsComplaint() && !strings.Contains(e.String(), "the server responded with a status") {
					t.Errorf("the browser complains: %v", e)
				}
			}
		})
	}
}
