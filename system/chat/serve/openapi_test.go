package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/block/openapitest"
	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/oidc/oidctest"
)

// What the package says that it answers under /api is in the document, and nothing else is.
func TestTheDocumentHasAllPaths(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("serve.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(source), "\npackage serve")
	said := map[string]bool{}
	for _, path := range regexp.MustCompile(`/api/[a-z/{}]*`).FindAllString(comment, -1) {
		said[path] = true
	}
	var document struct {
		Paths map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(openAPI, &document); err != nil {
		t.Fatal(err)
	}
	for path := range document.Paths {
		if strings.HasPrefix(path, "/api/") && !said[path] {
			t.Errorf("the package does not say that there is %s", path)
		}
		delete(said, path)
	}
	if len(said) > 0 {
		t.Errorf("not in the document: %q", slices.Sorted(maps.Keys(said)))
	}
}

// shownWhole stores what was said in a stream that has ended: enough for a summary, and for a highlight.
func shownWhole(t *testing.T, dir string, id int64) {
	t.Helper()
	c := logstore.DefaultConfig()
	c.Dir = dir
	log, err := logstore.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := log.Stream(id)
	if err != nil {
		t.Fatal(err)
	}
	const messages = analysis.SummaryEvery + 1
	done := make(chan error, messages)
	for i := range messages {
		at := 4 * int64(analysis.SpanMillis) // most at once, the first before and the last after it
		switch i {
		case 0:
			at = 0
		case messages - 1:
			at *= 2
		}
		m := chat.Message{At: stream.Started.UnixMilli() + at, Sender: "user-x", Name: "Olga", ID: fmt.Sprint(i), Text: fmt.Sprint("the soup is boiling over ", i%7)}
		err = errors.Join(err, log.Say(&chat.Draft{Stream: id, Message: m, Done: func(s *chat.Said) { done <- s.Err }}))
	}
	for range messages {
		err = errors.Join(err, <-done)
	}
	if err := errors.Join(err, log.EndStream(id, stream.Started.Add(time.Hour)), log.Close()); err != nil {
		t.Fatal(err)
	}
}

// analysed waits until all of a stream that has ended is.
func (f *fixture) analysed(stream string) {
	f.t.Helper()
	for deadline := time.Now().Add(long); ; {
		status, form := f.ask("GET", f.api+"/api/streams/"+stream+"/analysis", "", "")
		totals, ok := form["totals"].(map[string]any)
		if status != 200 || !ok {
			f.t.Fatalf("got %d %v", status, form)
		}
		if totals["next"] == float64(analysis.SummaryEvery+1) {
			break
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("it is not analysed: %v", totals)
		}
	}
	if _, form := f.ask("GET", f.api+"/api/streams/"+stream+"/timeline", "", ""); fmt.Sprint(form["highlights"]) == "[]" {
		f.t.Error("there is no highlight to compare")
	}
}

// Every operation of the document answers as it says.
func TestAnswersAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	document, err := openapitest.Read("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Whole(); err != nil {
		t.Fatal(err)
	}
	provider := oidctest.Start(t)
	dir := seeded(t)
	shownWhole(t, dir, 13)
	f := start(t, dir, func(c *Config) {
		c.OIDC.Issuer, c.OIDC.ClientID, c.OIDC.Secret, c.PublicURL = provider.URL, oidctest.ClientID, oidctest.Secret, "http://127.0.0.1:1"
		c.OIDC.Timeout = long // a busy machine's provider answers
	})
	member, host := f.signedIn("Noor", chat.Member), f.signedIn("Ada", chat.Host)
	path := "/api/hosts/" + host.user
	f.analysed("13")
	seen := map[string]bool{"/ws get 101": true, "/api/viewers get 200": true} // of tests of their own
	for _, c := range []struct {
		as            *person
		request, body string
		status        int
	}{
		{f.person(), "POST /api/guest", `{"name":"Olga"}`, 201},
		{f.person(), "POST /api/guest", `{"name":""}`, 400},
		{f.person(), "GET /api/ways", "", 200},
		{f.person(), "POST /api/users", `{"email":"x@show.example","password":"` + password + `","name":"X"}`, 202},
		{f.person(), "POST /api/session", signInForm("Nobody"), 401},
		{f.person(), "POST /api/session", signInForm("Noor"), 201},
		{f.person(), "POST /api/session", "x", 400},
		{f.person(), "POST /api/session/refresh", "", 204},
		{member, "POST /api/session/refresh", "", 200},
		{&person{f: f, cookies: map[string]string{cookie: "x.y"}}, "POST /api/session/refresh", "", 401},
		{f.signedIn("Olga", chat.Member), "DELETE /api/session", "", 204},
		{f.person(), "GET /api/oidc", "", 303},
		{f.person(), "GET /api/oidc/callback", "", 303},
		{f.person(), "GET /api/me", "", 401},
		{member, "GET /api/me", "", 200},
		{member, "POST /api/me", `{"name":"Noor","picture":"https://show.example/n.png"}`, 200},
		{member, "POST /api/streams", `{"title":"x"}`, 403},
		{host, "POST /api/streams", `{"title":"x"}`, 201},
		{host, "POST /api/streams", `{"title":"x"}`, 409},
		{f.person(), "GET /api/streams", "", 200},
		{f.person(), "GET /api/streams/14", "", 200},
		{f.person(), "GET /api/streams/99", "", 404},
		{f.person(), "GET /api/streams/14/messages", "", 200},
		{f.person(), "GET /api/streams/14/presence", "", 200},
		{member, "POST /api/streams/14/enter", "", 201},
		{member, "POST /api/streams/14/leave", "", 204},
		{host, "POST /api/streams/14/actions", `{"action":"settings","settings":{"slow":5,"words":["bad"]}}`, 204},
		{host, "POST /api/streams/14/actions", fmt.Sprintf(`{"action":"timeout","user":%q,"seconds":60,"reason":"spam"}`, member.user), 204},
		{host, "POST /api/streams/14/actions", `{"action":"pin","offset":0}`, 404},
		{host, "POST /api/streams/14/actions", `{"action":"pin"}`, 400},
		{member, "POST /api/streams/14/actions", `{"action":"unpin"}`, 403},
		{f.person(), "POST /api/streams/14/actions", `{"action":"unpin"}`, 401},
		{f.person(), "GET /api/streams/14/room", "", 200},
		{host, "GET /api/streams/14/room", "", 200},
		{f.person(), "GET /api/streams/99/room", "", 404},
		{host, "GET /api/streams/14/log", "", 200},
		{host, "GET /api/streams/14/log?before=x", "", 400},
		{member, "GET /api/streams/14/log", "", 403},
		{f.person(), "GET /api/streams/13/analysis", "", 200},
		{f.person(), "GET /api/streams/14/analysis", "", 200},
		{f.person(), "GET /api/streams/99/analysis", "", 404},
		{f.person(), "GET /api/streams/13/timeline", "", 200},
		{f.person(), "GET /api/streams/99/timeline", "", 404},
		{f.person(), "GET /api/streams/13/replay?video=10000", "", 200},
		{f.person(), "GET /api/streams/13/replay?offset=999&video=0", "", 200},
		{f.person(), "GET /api/streams/13/replay?video=x", "", 400},
		{f.person(), "GET /api/streams/14/replay", "", 409},
		{f.person(), "GET /api/streams/99/replay", "", 404},
		{host, "POST /api/streams/14/end", "", 200},
		{f.person(), "GET " + path, "", 200},
		{member, "GET " + path, "", 200},
		{member, "PUT " + path + "/follow", "", 204},
		{member, "DELETE " + path + "/follow", "", 204},
		{host, "PUT " + path + "/subscribers/" + member.user, "", 204},
		{host, "DELETE " + path + "/subscribers/" + member.user, "", 204},
		{f.person(), "GET /ws?" + url.Values{"stream": {"1"}, "token": {host.token}}.Encode(), "", 426},
		{f.person(), "GET /api/viewers?streams=x", "", 404},
		{f.person(), "GET /nothing", "", 404},
		{f.person(), "DELETE /api/me", "", 405},
	} {
		method, target, _ := strings.Cut(c.request, " ")
		var text string
		var header http.Header
		status := again(func() (status int) {
			status, text, header = c.as.raw(method, target, c.body)
			return status
		})
		if status != c.status {
			t.Errorf("%s: got %d %s, want %d", c.request, status, text, c.status)
		}
		name, err := document.Check(method, target, openapitest.Answer{Status: status, Header: header, Body: text})
		if err != nil {
			t.Error(err)
		}
		seen[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(document.Names())) {
		if status := name[strings.LastIndexByte(name, ' ')+1:]; status < "4" && !seen[name] {
			t.Errorf("no test has seen %s", name)
		}
	}
	if status, text, _ := f.person().raw(http.MethodGet, "/openapi.json", ""); status != 200 || text != string(openAPI) {
		t.Errorf("the document: got %d %.80s", status, text)
	}
}
