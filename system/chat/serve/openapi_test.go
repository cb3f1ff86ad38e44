package serve

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"loadstone/block/openapitest"
	"loadstone/system/chat"
	"loadstone/system/chat/oidc/oidctest"
)

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
	f := start(t, seeded(t), func(c *Config) {
		c.OIDC.Issuer, c.OIDC.ClientID, c.OIDC.Secret, c.PublicURL = provider.URL, oidctest.ClientID, oidctest.Secret, "http://127.0.0.1:1"
	})
	member, host := f.signedIn("Noor", chat.Member), f.signedIn("Ada", chat.Host)
	path := "/api/hosts/" + host.user
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
		{member, "DELETE /api/session", "", 204},
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
		status, text, header := c.as.raw(method, target, c.body)
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
