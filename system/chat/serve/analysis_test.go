package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"loadstone/block/browsertest"
	"loadstone/system/chat"
)

// speakMuch has somebody say a message after the other, and waits until all are analysed.
func speakMuch(f *fixture, v *viewer, texts ...string) {
	f.t.Helper()
	for i, text := range texts {
		v.send(fmt.Sprint("much-", i), text)
		v.next("ack")
	}
	v.analysed(uint64(len(texts)))
}

// talkative lets one say much at once.
func talkative(c *Config) { c.Hub.MaxFrames = 10_000 }

// analysed reads until all before an offset is.
func (v *viewer) analysed(next uint64) {
	v.t.Helper()
	for v.totals < next {
		v.next("totals")
	}
}

func labels(totals any) (all map[string]any) {
	form, ok := totals.(map[string]any)
	if !ok {
		return nil
	}
	all, _ = form["labels"].(map[string]any)
	return all
}

// What is said is counted, also over an end of the server, and each message once.
func TestMessagesAreAnalysed(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	f := start(t, dir, talkative)
	noor := f.join("Noor")
	texts := []string{"hahahaha", "ㅋㅋㅋㅋ", "what is this song called?", "이 노래 제목이 뭐예요?", "worst stream ever"}
	speakMuch(f, noor, texts...)
	want := map[string]any{"praise": 0.0, "criticism": 1.0, "laughter": 2.0, "question": 2.0, "advice": 0.0}
	for range 2 {
		status, form := f.ask("GET", f.api+"/api/streams/1/analysis", "", "")
		if got := labels(form["totals"]); status != 200 || !reflect.DeepEqual(got, want) || form["summary"] != nil {
			t.Errorf("got %d %v", status, form)
		}
		if err := f.stop(); err != nil {
			t.Fatal(err)
		}
		f = start(t, dir, talkative)
	}
	olga := f.join("Olga")
	olga.send("last", "worst stream ever")
	olga.analysed(6)
	if _, form := f.ask("GET", f.api+"/api/streams/1/analysis", "", ""); labels(form["totals"])["criticism"] != 2.0 {
		t.Errorf("after two starts and one more: got %v", form)
	}
	if status, _ := f.ask("GET", f.api+"/api/streams/99/analysis", "", ""); status != 404 {
		t.Errorf("of a stream that there is not: got %d", status)
	}
}

// What viewers do not see yet is not counted, and what is deleted until then never is.
func TestWhatIsHeldBackIsNotAnalysed(t *testing.T) {
	t.Parallel()
	dir, host := hosted(t)
	f := start(t, dir, nil)
	f.act(host, `{"action":"settings","settings":{"delay":60}}`, 204)
	noor := f.join("Noor")
	for id, text := range []string{"hahahaha", "worst stream ever"} {
		noor.send(fmt.Sprint(id), text)
		noor.next("ack")
	}
	other := f.signedIn("Olga", chat.Host)
	_, stream, _ := other.do("POST", "/api/streams", `{"title":"x"}`)
	elsewhere := other.join(fmt.Sprint(stream["id"]))
	elsewhere.send("1", "hahahaha")
	elsewhere.analysed(1) // and so would be what was said before, in the same round at the latest
	f.act(host, `{"action":"delete","offset":1}`, 204)
	analysis := f.api + "/api/streams/1/analysis"
	if _, form := f.ask("GET", analysis, "", ""); fmt.Sprint(form["totals"]) != fmt.Sprint(map[string]any{
		"type": "totals", "next": 0, "deleted": 0, "dead": 0, "labels": map[string]any{"praise": 0, "criticism": 0, "laughter": 0, "question": 0, "advice": 0},
	}) {
		t.Errorf("while both are held back: got %v", form)
	}
	f.act(host, `{"action":"settings","settings":{}}`, 204)
	noor.analysed(2)
	if _, form := f.ask("GET", analysis, "", ""); labels(form["totals"])["laughter"] != 1.0 || labels(form["totals"])["criticism"] != 0.0 {
		t.Errorf("got %v", form)
	}
}

// What is held back when a show ends is replayed once viewers see it, and never if it is deleted until then.
func TestWhatIsHeldBackIsNotReplayed(t *testing.T) {
	t.Parallel()
	dir, host := hosted(t)
	f := start(t, dir, nil)
	noor := f.join("Noor")
	noor.send("0", "at once")
	noor.next("ack")
	f.act(host, `{"action":"settings","settings":{"delay":60}}`, 204)
	for i, text := range []string{"late", "gone"} {
		noor.send(fmt.Sprint(i+1), text)
		noor.next("ack")
	}
	if status, form := f.ask("POST", f.admin+"/streams/1/end", adminToken, ""); status != 204 {
		t.Fatalf("got %d %v", status, form)
	}
	replayed := func(path string) (texts []string) {
		t.Helper()
		_, form := f.ask("GET", f.api+"/api/streams/1/replay"+path, "", "")
		messages, _ := form["messages"].([]any)
		for _, m := range messages {
			m, _ := m.(map[string]any)
			texts = append(texts, fmt.Sprint(m["text"]))
		}
		return texts
	}
	if got := replayed(""); !slices.Equal(got, []string{"at once"}) {
		t.Errorf("while it is held back: got %q", got)
	}
	if got := replayed("?offset=1&video=0"); len(got) != 0 {
		t.Errorf("from its offset on: got %q", got)
	}
	f.act(host, `{"action":"delete","offset":2}`, 204)
	f.act(host, `{"action":"settings","settings":{}}`, 204)
	for noor.next("totals").Next < 3 { // all is shown
	}
	if got := replayed(""); !slices.Equal(got, []string{"at once", "late"}) {
		t.Errorf("later: got %q", got)
	}
}

func TestAStreamIsReplayedOnceItHasEnded(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), talkative)
	noor := f.join("Noor")
	speakMuch(f, noor, slices.Repeat([]string{"hahahaha", "love this"}, 30)...)
	if status, form := f.ask("GET", f.api+"/api/streams/1/replay", "", ""); status != 409 {
		t.Errorf("while it is live: got %d %v", status, form)
	}
	if status, form := f.ask("POST", f.admin+"/streams/1/end", adminToken, ""); status != 204 {
		t.Fatalf("got %d %v", status, form)
	}
	path, said := "/api/streams/1/replay", 0
	for {
		status, form := f.ask("GET", f.api+path, "", "")
		messages, ok := form["messages"].([]any)
		if status != 200 || !ok {
			t.Fatalf("%s: got %d %v", path, status, form)
		}
		if len(messages) == 0 {
			break
		}
		said += len(messages)
		path = fmt.Sprintf("/api/streams/1/replay?offset=%.0f&video=%.0f", form["offset"], form["video"])
	}
	if said != 60 {
		t.Errorf("%d messages were replayed", said)
	}
	_, form := f.ask("GET", f.api+"/api/streams/1/timeline", "", "")
	spans, _ := form["spans"].([]any)
	if length, _ := form["length"].(float64); len(spans) == 0 || length <= 0 {
		t.Errorf("got %v", form)
	}
	for path, want := range map[string]int{"replay?video=x": 400, "replay?video=-1": 400, "replay?offset=x": 400, "replay?video=99999999999999": 200, "timelines": 404} {
		if status, form := f.ask("GET", f.api+"/api/streams/1/"+path, "", ""); status != want {
			t.Errorf("%s: got %d %v, want %d", path, status, form, want)
		}
	}
}

// In a browser: totals and a summary appear as things are said, and the replay shows what was said
// at its time; nothing that anybody said is anything but text.
func TestAnalysisAndReplayInABrowser(t *testing.T) {
	// A language model may say what a viewer wanted it to.
	const wanted = `<img src=x onerror=document.title='broken in'> <script>document.title='broken in'</script>`
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]string{"content": wanted}}}})
	}))
	t.Cleanup(model.Close)
	f := start(t, seeded(t), func(c *Config) {
		talkative(c)
		c.Summaries.URL, c.Summaries.Model = model.URL, "small"
	})
	b := browsertest.Start(t, "--hide-scrollbars")
	tab := enter(t, b, f, "Noor")
	const markup = `<img src=x onerror="document.title='broken in'"> the soup is boiling over`
	texts := slices.Repeat([]string{"hahahaha", "the soup is boiling over!", markup, "what is this song called?"}, 25)
	speakMuch(f, f.join("올가"), texts...)
	tab.Until("totals", `document.querySelector('#totals [data-label="laughter"] dd')?.textContent === "25"`)
	tab.Until("a summary", `document.querySelector("#summary").textContent.includes("boiling over")`)
	tab.Until("the model's text", fmt.Sprintf(`document.querySelector("#summary p").textContent === %q`, wanted))
	intact(t, tab)

	if status, form := f.ask("POST", f.admin+"/streams/1/end", adminToken, ""); status != 204 {
		t.Fatalf("got %d %v", status, form)
	}
	watch := b.Open(t, browsertest.Screen{Width: 390, Height: 800})
	watch.Hear("Runtime", "Log")
	watch.Visit("http://" + f.api + "/app/replay?stream=1")
	watch.Until("the time line", `document.querySelectorAll("#line rect").length > 0`)
	watch.Until("nothing yet", `document.querySelectorAll("#messages li").length === 0 && Number(document.querySelector("#clock [type=range]").max) > 0`)
	// The stream began long before anybody said anything: the last message is at the end of the time line.
	watch.Eval(`const r = document.querySelector("#clock [type=range]"); r.value = r.max; r.dispatchEvent(new Event("input"))`)
	watch.Eval(`$("clock").elements.speed.value = "60"; ask(path + "/timeline").then((line) => seek(line.spans[0].at * line.span)).then(() => $("play").click()).catch(complain)`)
	watch.Until("what was said", `document.querySelectorAll("#messages li").length === 100`)
	if got := fmt.Sprint(watch.Eval(`document.querySelector("#messages li:nth-child(3)").textContent`)); !strings.Contains(got, markup) {
		t.Errorf("the third message is %q", got)
	}
	watch.Until("its end", `document.querySelector("#play").textContent === "Play"`)
	intact(t, watch)
}

// intact checks that nothing ran that somebody said, and that the page fits.
func intact(t *testing.T, tab *browsertest.Tab) {
	t.Helper()
	if got := fmt.Sprint(tab.Eval(`document.title + document.querySelectorAll("img[src=x]").length`)); strings.Contains(got, "broken") || !strings.HasSuffix(got, "0") {
		t.Errorf("got %q", got)
	}
	if wrong := fmt.Sprint(tab.Eval(browsertest.Layout)); wrong != "[]" {
		t.Error(wrong)
	}
	for _, e := range tab.Events() {
		if e.IsComplaint() {
			t.Errorf("the page complains: %v", e)
		}
	}
}
