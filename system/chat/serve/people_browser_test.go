package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"loadstone/block/browsertest"
	"loadstone/system/chat"
)

// fill writes texts into the fields of a form and sends it.
func fill(tab *browsertest.Tab, form string, fields ...string) {
	for i := 0; i < len(fields); i += 2 {
		tab.Eval(fmt.Sprintf(`document.querySelector("#%s [name=%s]").value = %q`, form, fields[i], fields[i+1]))
	}
	tab.Eval(fmt.Sprintf(`document.querySelector("#%s button").click()`, form))
}

// Somebody signs up on a phone, becomes a host, starts a stream and ends it; another follows. Names
// and pictures that are markup, or scripts, are only ever text.
func TestPeopleInABrowser(t *testing.T) {
	const markup = `<img src=x onerror=document.title=1>`
	f := start(t, seeded(t), nil)
	b := browsertest.Start(t, "--hide-scrollbars")
	tab := b.Open(t, browsertest.Screen{Width: 390, Height: 800})
	tab.Hear("Runtime", "Log")
	tab.Visit("http://" + f.api + "/app")
	tab.Until("the forms", `!document.querySelector("#in").hidden && document.querySelectorAll("#streams li").length === 12`)
	tab.Eval(`document.querySelector("#in").open = true`)
	fits(t, tab, "the forms")
	fill(tab, "signup", "name", markup, "email", "ada@show.example", "password", password)
	tab.Until("signed in", fmt.Sprintf(`document.querySelector("#name b")?.textContent === %q`, markup))

	store := f.users()
	ada, err := store.Find(t.Context(), "ada@show.example")
	if err == nil {
		err = errors.Join(store.SetRole(t.Context(), ada.ID, chat.Host), store.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	tab.Visit("http://" + f.api + "/app") // the session is the cookie's
	tab.Until("a host", `!document.querySelector("#start").hidden`)
	fill(tab, "profile", "name", markup, "picture", `https://show.invalid/"onerror="document.title=1`)
	tab.Until("no picture", `document.querySelector("#state").textContent.startsWith("a picture")`)
	fits(t, tab, "a host")
	if got := fmt.Sprint(tab.Eval(`document.querySelector("#name .face").textContent + document.querySelectorAll("img").length`)); got != "<0" {
		t.Errorf("in place of a picture: got %q", got)
	}
	fill(tab, "start", "title", markup)
	tab.Until("in one's own stream", `document.querySelector("#state").textContent === "live" && document.querySelector("#watching").textContent === "1 watching"`)
	speak(tab, "안녕")
	tab.Until("its own", said+fmt.Sprintf(` === %q`, markup+"안녕"))
	tab.Until("its own name among those here", fmt.Sprintf(`document.querySelector("#present span")?.textContent === %q`, markup))
	fits(t, tab, "the stream")

	other := browsertest.Start(t, "--hide-scrollbars").Open(t, browsertest.Screen{Width: 1000, Height: 700}) // with cookies of its own
	other.Hear("Runtime", "Log")
	olga := f.signedIn("Olga", chat.Member)
	other.Visit("http://" + f.api + "/app?stream=14")
	other.Until("a guest may enter", `!document.querySelector("#enter").hidden`)
	fill(other, "signin", "email", "olga@show.example", "password", "a wrong password")
	other.Until("refused", `document.querySelector("#state").textContent.startsWith("there is no account")`)
	fill(other, "signin", "email", "olga@show.example", "password", password)
	other.Until("live", `document.querySelector("#state").textContent === "live"`)
	other.Until("two watch", `document.querySelector("#watching").textContent === "2 watching"`)
	other.Until("it may follow", `document.querySelector("#follow").textContent.endsWith("(0)")`)
	other.Eval(`document.querySelector("#follow").click()`)
	other.Until("it follows", `document.querySelector("#follow").textContent.startsWith("Unfollow") && document.querySelector("#follow").textContent.endsWith("(1)")`)
	store = f.users()
	relation, err := store.Relation(t.Context(), olga.user, ada.ID)
	if err := errors.Join(err, store.Close()); err != nil || !relation.Follows {
		t.Errorf("got %+v, %v", relation, err)
	}
	if fmt.Sprint(other.Eval(`document.querySelector("#end").hidden`)) != "true" {
		t.Error("who is no host may end the stream")
	}
	tab.Eval(`document.querySelector("#end").click()`)
	other.Until("the end", `document.querySelector("#watching").textContent === "ended"`)
	tab.Eval(`document.querySelector("#out").click()`)
	tab.Until("signed out", `document.querySelector("#who").hidden && !document.querySelector("#in").hidden`)

	for _, one := range []*browsertest.Tab{tab, other} {
		if got := fmt.Sprint(one.Eval(`document.title + document.querySelectorAll("img[src=x]").length`)); got == "10" || !strings.HasSuffix(got, "0") {
			t.Errorf("got %q", got)
		}
	}
}

// fits checks that nothing is cut off or too small to touch.
func fits(t *testing.T, tab *browsertest.Tab, what string) {
	t.Helper()
	if wrong := fmt.Sprint(tab.Eval(browsertest.Layout)); wrong != "[]" {
		t.Errorf("%s: %s", what, wrong)
	}
}
