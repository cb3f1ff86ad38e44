package browsertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"loadstone/block/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	phone = Screen{Width: 360, Height: 740, Dark: true}
	desk  = Screen{Width: 1280, Height: 900}
)

const form = `<!DOCTYPE html><meta name="viewport" content="width=device-width"><title>form</title><link rel="icon" href="data:,">
<form action="/next"><input id="tick" type="checkbox" name="ticked"><button>go</button></form>`

const bad = `<!DOCTYPE html><title>bad</title><link rel="icon" href="data:,"><script>console.error("a word"); throw new Error("worse")</script>`

func serve(t *testing.T) string {
	t.Helper()
	page := func(html string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, html)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", page(form))
	mux.HandleFunc("/bad", page(bad))
	mux.HandleFunc("/next", page(`<!DOCTYPE html><title>next</title>`))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func TestTab(t *testing.T) {
	t.Parallel()
	url := serve(t)
	b := Start(t)
	tab := b.Open(t, phone)
	tab.Visit(url)
	is := func(expression string, want any) {
		t.Helper()
		if got := tab.Eval(expression); got != want {
			t.Errorf("%s: got %v, want %v", expression, got, want)
		}
	}
	is("innerWidth", 360.0)
	is("matchMedia('(prefers-color-scheme: dark)').matches", true)
	tab.Look(desk)
	is("innerWidth + 'x' + innerHeight", "1280x900")
	is("matchMedia('(prefers-color-scheme: dark)').matches", false)
	is("undefined", nil)
	is("Promise.resolve(7)", 7.0)
	var numbers []int
	if tab.Decode("[1, 2]", &numbers); !slices.Equal(numbers, []int{1, 2}) {
		t.Errorf("got %v, want 1 and 2", numbers)
	}
	if got := tab.File("Page.printToPDF", nil); !bytes.HasPrefix(got, []byte("%PDF")) {
		t.Errorf("got %.20q, want a print", got)
	}

	tab.Press(KeyTab)
	tab.Press(KeySpace)
	is("document.getElementById('tick').checked", true)
	tab.Press(KeyTab)
	tab.NextPage(func() { tab.Press(KeyEnter) })
	is("location.pathname + location.search", "/next?ticked=on")
	// It leaves once NextPage has marked it.
	tab.Eval("(function go() { if (window.browsertestOld) location = '/'; else setTimeout(go, 10) })(), undefined")
	tab.NextPage(func() {}) // by itself
	tab.Until("what comes later", "setTimeout(() => { window.later = {here: true} }, 50), later.here")
}

func TestTabsHearTheirOwnComplaints(t *testing.T) {
	t.Parallel()
	url := serve(t)
	b := Start(t)
	good, bad, deaf := b.Open(t, desk), b.Open(t, desk), b.Open(t, desk)
	good.Hear("Runtime", "Log")
	bad.Hear("Runtime", "Log")
	good.Visit(url)
	bad.Visit(url + "/bad")
	deaf.Visit(url + "/bad")
	complaints := func(tab *Tab) []string {
		var all []string
		for _, e := range tab.Events() {
			if e.IsComplaint() {
				all = append(all, e.String())
			}
		}
		return all
	}
	if got := complaints(good); len(got) > 0 {
		t.Errorf("a good page: got %q", got)
	}
	if got := complaints(bad); len(got) != 2 || !strings.Contains(got[0], "a word") || !strings.Contains(got[1], "exceptionThrown") {
		t.Errorf("a bad page: got %q, want its word and its error", got)
	}
	if got := append(bad.Events(), deaf.Events()...); len(got) > 0 {
		t.Errorf("got %q again, or of a tab that does not listen", got)
	}
}

func TestWhatIsAComplaint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, params string
		want           bool
	}{
		{"Log.entryAdded", `{"entry": {"level": "info"}}`, false},
		{"Log.entryAdded", `{"entry": {"level": "verbose"}}`, false},
		{"Log.entryAdded", `{"entry": {"level": "warning"}}`, true},
		{"Log.entryAdded", `{"entry": {"level": "error"}}`, true},
		{"Log.entryAdded", `{}`, true},
		{"Runtime.consoleAPICalled", `{"type": "info"}`, true},
		{"Runtime.exceptionThrown", `{}`, true},
		{"Network.loadingFinished", `{}`, false},
	} {
		if got := (Event{c.method, json.RawMessage(c.params)}).IsComplaint(); got != c.want {
			t.Errorf("%s %s: got %v, want %v", c.method, c.params, got, c.want)
		}
	}
}

// stopped is a test that notes that it was ended.
type stopped struct {
	testing.TB
	with string
}

func (s *stopped) Helper() {}

func (s *stopped) Fatal(args ...any) { s.end(fmt.Sprint(args...)) }

func (s *stopped) Fatalf(format string, args ...any) { s.end(fmt.Sprintf(format, args...)) }

func (s *stopped) end(with string) {
	s.with = with
	runtime.Goexit()
}

// wantStop wants a use of a tab to end its test with some words.
func wantStop(t *testing.T, tab *Tab, words string, use func(*Tab)) {
	t.Helper()
	s := &stopped{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		use(&Tab{tb: s, browser: tab.browser, session: tab.session})
	}()
	<-done
	if !strings.Contains(s.with, words) {
		t.Errorf("got %q, want the test to end with %q", s.with, words)
	}
}

// closedPort returns a URL where nobody listens, and nobody will before the test has
// ended: the port is taken.
func closedPort(t *testing.T) string {
	t.Helper()
	_, address := servertest.Bound(t)
	return "http://" + address
}

func TestWhatFailsEndsTheTest(t *testing.T) {
	t.Parallel()
	gone := closedPort(t)
	b := Start(t)
	tab := b.Open(t, desk)
	wantStop(t, tab, "no.here", func(tab *Tab) { tab.Eval("no.here") })
	wantStop(t, tab, "'a': json: cannot unmarshal", func(tab *Tab) { tab.Decode("'a'", new(int)) })
	wantStop(t, tab, "undefined", func(tab *Tab) { tab.Decode("undefined", new(int)) })
	wantStop(t, tab, "Nothing.such", func(tab *Tab) { tab.Call("Nothing.such", nil, nil) })
	wantStop(t, tab, "ERR_CONNECTION_REFUSED", func(tab *Tab) { tab.Visit(gone) })
	wantStop(t, tab, "ERR_NAME_NOT_RESOLVED", func(tab *Tab) { tab.Visit("http://example.invalid/") })
	wantStop(t, tab, "more than 10000 events", func(tab *Tab) {
		for range mostEvents + 5 {
			tab.keep(Event{})
		}
		tab.Events()
	})
}

func TestABrowserThatEndedSaysSo(t *testing.T) {
	t.Parallel()
	b := Start(t)
	if err := b.call("", "Browser.close", nil, nil); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < callTimeout; { // it may answer some more
		if err := b.call("", "Browser.getVersion", nil, nil); err != nil {
			if !strings.Contains(err.Error(), "ended") && !strings.Contains(err.Error(), "send") {
				t.Errorf("got %v", err)
			}
			return
		}
	}
	t.Error("a closed browser answers")
}
