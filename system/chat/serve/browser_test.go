package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"loadstone/block/browsertest"
	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/logstore"
)

// said are the messages that a tab shows, without a moderator's tools.
const said = `[...document.querySelectorAll("#messages li:not(.waits)")].map(e => [...e.childNodes].filter(n => n.className !== "tools").map(n => n.textContent).join("")).join("|")`

// enter opens a tab in stream 1.
func enter(t *testing.T, b *browsertest.Browser, f *fixture, name string) *browsertest.Tab {
	t.Helper()
	tab := b.Open(t, browsertest.Screen{Width: 390, Height: 800})
	tab.Hear("Runtime", "Log")
	tab.Visit("http://" + f.api + "/app?stream=1")
	tab.Eval(fmt.Sprintf(`document.querySelector("#enter input").value = %q; document.querySelector("#enter button").click()`, name))
	tab.Until("live", `document.querySelector("#state").textContent === "live"`)
	return tab
}

func speak(tab *browsertest.Tab, text string) {
	tab.Eval(fmt.Sprintf(`document.querySelector("#say input").value = %q; document.querySelector("#say button").click()`, text))
}

// Two viewers talk in a browser, through an end of the server: nothing is missed or seen twice,
// and nothing that is said is anything but text.
func TestTwoViewersInABrowser(t *testing.T) {
	dir := seeded(t)
	host := servertest.Host() // where it is each time
	at := func(c *Config) { c.Listen = host + ":8097" }
	f := start(t, dir, at)
	b := browsertest.Start(t, "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE "+host)
	list := b.Open(t, browsertest.Screen{Width: 1000, Height: 700})
	list.Visit("http://" + f.api + "/app")
	list.Until("a page of streams", `document.querySelectorAll("#streams li").length === 12`)
	list.Eval(`document.querySelector("#more").click()`)
	list.Until("the rest", `document.querySelectorAll("#streams li").length === 13`)

	noor, olga := enter(t, b, f, "Noor"), enter(t, b, f, "올가")
	const markup = `<img src=x onerror="document.title='broken in'">`
	speak(noor, "안녕 👋")
	noor.Until("its own", said+` === "Noor안녕 👋"`)
	speak(olga, markup)
	want := "Noor안녕 👋|올가" + markup
	for name, tab := range map[string]*browsertest.Tab{"Noor": noor, "Olga": olga} {
		tab.Until(name+" sees both", fmt.Sprintf("%s === %q", said, want))
		if got := fmt.Sprint(tab.Eval(`document.title + document.querySelectorAll("#messages img").length`)); strings.Contains(got, "broken") || !strings.HasSuffix(got, "0") {
			t.Errorf("%s: got %q", name, got)
		}
		if wrong := fmt.Sprint(tab.Eval(browsertest.Layout)); wrong != "[]" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
	for _, e := range append(noor.Events(), olga.Events()...) {
		if e.IsComplaint() {
			t.Errorf("the page complains: %v", e)
		}
	}

	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	noor.Until("the loss", `document.querySelector("#state").textContent !== "live"`)
	speak(noor, "while it was away")
	f = start(t, dir, at)
	want += "|Noorwhile it was away"
	for name, tab := range map[string]*browsertest.Tab{"Noor": noor, "Olga": olga} {
		tab.Until(name+" is back", fmt.Sprintf("%s === %q", said, want))
	}

	// More was said than a connection may send in a second.
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	noor.Until("the next loss", `document.querySelector("#state").textContent !== "live"`)
	much := DefaultConfig().Hub.MaxFrames + 20
	for i := range much {
		speak(noor, fmt.Sprintf("%d while it was away", i))
	}
	start(t, dir, at)
	const seen = `[...document.querySelectorAll("#messages li:not(.waits)")].filter(e => /\d while it was away/.test(e.textContent)).map(e => e.textContent)`
	olga.Until("all of it", fmt.Sprintf("new Set(%s).size === %d", seen, much))
	if got := fmt.Sprint(olga.Eval(seen + ".length")); got != fmt.Sprint(much) {
		t.Errorf("%s messages are shown, want %d", got, much)
	}
}

// A guest's connection that ends with its token is made again with another one, by the page itself; frames
// are compressed, as browsers offer.
func TestAnExpiryInABrowser(t *testing.T) {
	dir := seeded(t)
	c := logstore.DefaultConfig()
	c.Dir = dir
	log, err := logstore.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	key := log.Key()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	f := start(t, dir, nil)
	tab := browsertest.Start(t).Open(t, browsertest.Screen{Width: 390, Height: 800})
	tab.Hear("Runtime", "Log")
	tab.Visit("http://" + f.api + "/app?stream=1")
	tab.Until("that nobody is signed in", `!$("in").hidden`)
	// The connection ends a minute before the token.
	short, err := chat.NewTokens(key, time.Minute+3*time.Second).Sign(&chat.User{ID: "guest-noor", Name: "Noor"})
	if err != nil {
		t.Fatal(err)
	}
	tab.Eval(fmt.Sprintf(`globalThis.joins = 0; const joinedThen = hear.joined; hear.joined = (m) => { joins++; joinedThen(m); }; token = %q; name = "Noor"; begin()`, short))
	tab.Until("joined again with another token", fmt.Sprintf(`joins === 2 && token !== %q && user === "guest-noor" && socket.readyState === WebSocket.OPEN`, short))
	if agreed := fmt.Sprint(tab.Eval(`socket.extensions`)); !strings.HasPrefix(agreed, "permessage-deflate") {
		t.Errorf("the extensions are %q", agreed)
	}
	speak(tab, "after it")
	tab.Until("what is said after it", said+` === "Noorafter it"`)
	for _, e := range tab.Events() {
		if e.IsComplaint() {
			t.Errorf("the page complains: %v", e)
		}
	}
}
