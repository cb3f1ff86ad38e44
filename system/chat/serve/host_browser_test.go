package serve

import (
	"fmt"
	"strings"
	"testing"

	"loadstone/block/browsertest"
)

// press clicks a tool at the message that has a text.
func press(tab *browsertest.Tab, text, tool string) {
	tab.Until(tool+" at "+text, fmt.Sprintf(`[...document.querySelectorAll("#messages li")].some(e => e.textContent.includes(%q) && [...e.querySelectorAll(".tools button")].some(b => b.textContent === %q))`, text, tool))
	tab.Eval(fmt.Sprintf(`[...[...document.querySelectorAll("#messages li")].find(e => e.textContent.includes(%q)).querySelectorAll(".tools button")].find(b => b.textContent === %q).click()`, text, tool))
}

// texts are what a tab shows of messages, without tools.
const texts = `[...document.querySelectorAll("#messages li:not(.waits) > span:not(.tools)")].map(e => e.textContent).join("|")`

// A host moderates two viewers in a browser, and nothing that anybody says, is called or is told as
// a reason is anything but text.
func TestAHostAndTwoViewersInABrowser(t *testing.T) {
	dir, token := hosted(t)
	f := start(t, dir, nil)
	b := browsertest.Start(t, "--hide-scrollbars")
	const markup = `<img src=x onerror="document.title='broken in'">`
	noor, olga, forger := enter(t, b, f, "Noor"), enter(t, b, f, markup[:40]), enter(t, b, f, "Ada")
	host := b.Open(t, browsertest.Screen{Width: 390, Height: 800})
	host.Hear("Runtime", "Log")
	host.Visit("http://" + f.api + "/app?stream=1")
	host.Until("that nobody is signed in", `!$("in").hidden`)
	host.Eval(fmt.Sprintf(`signedIn({ token: %q }); $("enter").hidden = true; $("say").hidden = $("react").hidden = false; connect()`, token))
	host.Until("the host's view", `!document.querySelector("#rulesForm").hidden`)
	all := map[string]*browsertest.Tab{"Noor": noor, "Olga": olga, "the host": host}

	// Who is called what the host is does not look like the host.
	speak(host, "of the host")
	speak(forger, "of a forger")
	for name, tab := range all {
		tab.Until(name+" sees who the host is", `(() => {
			const item = (text) => [...document.querySelectorAll("#messages li")].find(e => e.textContent.includes(text));
			const mark = (e) => getComputedStyle(e.querySelector("b"), "::before").content;
			const own = item("of the host"), others = item("of a forger");
			return Boolean(own && others) && own.querySelector("b").textContent === others.querySelector("b").textContent && mark(own) === '"host"' && mark(others) === "none";
		})()`)
	}

	speak(noor, "a secret")
	noor.Until("that it is known", texts+`.includes("a secret")`) // who has not spoken cannot be mentioned
	speak(olga, "@Noor "+markup)
	for name, tab := range all {
		tab.Until(name+" sees both", texts+`.includes("a secret") && `+texts+fmt.Sprintf(`.includes(%q)`, "@Noor "+markup))
	}
	noor.Until("being mentioned", `document.querySelectorAll("#messages .mentioned").length === 1`)
	olga.Until("not being mentioned", `document.querySelectorAll("#messages .mentioned").length === 0`)

	press(host, "@Noor", "Pin")
	press(host, "a secret", "Delete")
	noor.Eval(`document.querySelector("#react button").click()`)
	for name, tab := range all {
		tab.Until(name+" sees what is pinned", fmt.Sprintf(`document.querySelector("#pinned").textContent.includes(%q)`, markup))
		tab.Until(name+" sees the deletion", `!document.body.innerText.includes("a secret") && `+texts+`.includes("deleted by a moderator")`)
		tab.Until(name+" sees the reaction", `document.querySelector("#react button span").textContent === "1"`)
	}

	host.Eval(`$("rulesForm").elements.slow.value = 600; $("rulesForm").elements.words.value = "bad*\n"; document.querySelector("#rulesForm button").click()`)
	noor.Until("the rules", `document.querySelector("#rules").textContent === "a message every 600 s"`)
	speak(noor, "baddest")
	noor.Until("the word refused", `document.querySelector("#state").textContent.includes("not said here")`)
	speak(noor, "good")
	noor.Until("what is accepted", texts+`.includes("good")`)
	speak(noor, "more")
	noor.Until("slow mode", `/this chat is slow.*\(\d+ s\)/.test(document.querySelector("#state").textContent)`)

	press(host, "@Noor", "Ban")
	olga.Until("the ban", `document.querySelector("#state").textContent === "you are banned from this chat" && socket.readyState === WebSocket.CLOSED`)
	host.Until("who is barred", `document.querySelectorAll("#barred li").length === 1`)
	host.Until("the log", `/Ada: ban guest-/.test(document.querySelector("#log").textContent) && /Ada: delete/.test(document.querySelector("#log").textContent)`)
	host.Eval(`document.querySelector("#barred button").click()`)
	host.Until("nobody is barred", `document.querySelectorAll("#barred li").length === 0`)

	for name, tab := range all {
		if got := fmt.Sprint(tab.Eval(`document.title + document.querySelectorAll("img:not(#present img), script[src]").length`)); strings.Contains(got, "broken") || !strings.HasSuffix(got, "0") {
			t.Errorf("%s: got %q", name, got)
		}
		if wrong := fmt.Sprint(tab.Eval(browsertest.Layout)); wrong != "[]" {
			t.Errorf("%s: %s", name, wrong)
		}
		for _, e := range tab.Events() {
			if e.IsComplaint() {
				t.Errorf("%s: the page complains: %v", name, e)
			}
		}
	}
}

// What is held back from viewers a host sees, and can delete before they do.
func TestADelayInABrowser(t *testing.T) {
	dir, token := hosted(t)
	f := start(t, dir, nil)
	f.act(token, `{"action":"settings","settings":{"delay":60}}`, 204)
	b := browsertest.Start(t, "--hide-scrollbars")
	noor, olga := enter(t, b, f, "Noor"), enter(t, b, f, "Olga")
	host := b.Open(t, browsertest.Screen{Width: 1000, Height: 800})
	host.Visit("http://" + f.api + "/app?stream=1")
	host.Until("that nobody is signed in", `!$("in").hidden`)
	host.Eval(fmt.Sprintf(`signedIn({ token: %q }); connect()`, token))
	speak(noor, "one")
	noor.Until("its own, which waits", `document.querySelectorAll("#messages .waits").length === 1`)
	host.Until("what is held back", `document.querySelectorAll("#messages .held").length === 1`)
	press(host, "one", "Delete")
	speak(olga, "two")
	host.Until("both", `document.querySelectorAll("#messages .held").length === 2`)
	f.act(token, `{"action":"settings","settings":{}}`, 204)
	for name, tab := range map[string]*browsertest.Tab{"Noor": noor, "Olga": olga, "the host": host} {
		tab.Until(name+" sees the second", texts+` === "deleted by a moderator|two"`)
	}
	noor.Until("nothing waits", `document.querySelectorAll("#messages .waits").length === 0`)
}
