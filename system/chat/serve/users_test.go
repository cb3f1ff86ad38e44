package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/valyala/fasthttp"

	"loadstone/block/account"
	"loadstone/block/ratelimit"
	"loadstone/block/route"
	"loadstone/system/chat"
	"loadstone/system/chat/hub"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/oidc/oidctest"
	"loadstone/system/chat/users"
)

const password = "correct horse battery"

// person is somebody with a browser: its cookies, and what it was given.
type person struct {
	f       *fixture
	cookies map[string]string
	token   string
	user    string
}

func (f *fixture) person() *person { return &person{f: f, cookies: map[string]string{}} }

// do is raw with the form of an answer in JSON.
func (p *person) do(method, path, body string, headers ...string) (int, map[string]any, http.Header) {
	p.f.t.Helper()
	status, text, header := p.raw(method, path, body, headers...)
	var form map[string]any
	_ = json.Unmarshal([]byte(text), &form) // what is no JSON has no members
	return status, form, header
}

// raw sends a request as the person, with headers NAME, VALUE.
func (p *person) raw(method, path, body string, headers ...string) (int, string, http.Header) {
	t := p.f.t
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.f.api+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	for name, value := range p.cookies {
		request.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range response.Cookies() {
		if p.cookies[c.Name] = c.Value; c.MaxAge < 0 || c.Value == "" {
			delete(p.cookies, c.Name)
		}
	}
	return response.StatusCode, string(text), response.Header
}

// want is do with the status and a part of the answer that are wanted.
func (p *person) want(status int, part, request, body string, headers ...string) map[string]any {
	p.f.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	var got int
	var form map[string]any
	ask := func() int {
		got, form, _ = p.do(method, path, body, headers...)
		return got
	}
	if status == http.StatusServiceUnavailable {
		ask()
	} else {
		again(ask)
	}
	text, _ := json.Marshal(form)
	if got != status || !strings.Contains(string(text), part) {
		p.f.t.Errorf("%s %s: got %d %s, want %d %s", request, body, got, text, status, part)
	}
	return form
}

func (p *person) take(form map[string]any) {
	p.token, _ = form["token"].(string)
	p.user, _ = form["user"].(string)
}

func signInForm(name string) string {
	return fmt.Sprintf(`{"email":"%s@show.example","password":%q}`, strings.ToLower(name), password)
}

// signedIn is somebody with a role who has signed in.
func (f *fixture) signedIn(name string, role chat.Role) *person {
	f.t.Helper()
	store := f.users()
	_, _, err := store.Add(f.t.Context(), users.New{Email: strings.ToLower(name) + "@show.example", Password: password, Name: name, Role: role})
	if err := errors.Join(err, store.Close()); err != nil {
		f.t.Fatal(err)
	}
	p := f.person()
	p.take(p.want(201, `"role":"`+string(role)+`"`, "POST /api/session", signInForm(name)))
	return p
}

// users opens the file, as the command line does while the server runs.
func (f *fixture) users() *users.Store {
	f.t.Helper()
	c := users.DefaultConfig(UsersFile(f.dir))
	c.PasswordCost = account.MinCost
	store, err := users.Open(f.t.Context(), c)
	if err != nil {
		f.t.Fatal(err)
	}
	return store
}

// entry lets who has an access token join a stream.
func (f *fixture) entry(stream, token string) string {
	f.t.Helper()
	status, form := f.askAgain("POST", f.api+"/api/streams/"+stream+"/enter", token, "")
	entry, ok := form["token"].(string)
	if status != 201 || !ok {
		f.t.Fatalf("got %d %v", status, form)
	}
	return entry
}

func (p *person) join(stream string) *viewer {
	p.f.t.Helper()
	return p.f.letIn(func() url.Values { return url.Values{"stream": {stream}, "token": {p.f.entry(stream, p.token)}} })
}

// Who signs up, twice, signs in, speaks under its name, and is renewed until it signs out.
func TestSignUpInAndOut(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	p := f.person()
	const form = `{"email":"noor@show.example","password":"` + password + `","name":"Noor"}`
	first := p.want(202, "", "POST /api/users", form)
	second := p.want(202, "", "POST /api/users", strings.Replace(form, password, "another password", 1))
	if a, b := fmt.Sprint(first), fmt.Sprint(second); a != b || first["next"] == nil {
		t.Errorf("two answers tell who has an account: %s and %s", a, b)
	}
	p.want(401, "bad_sign_in", "POST /api/session", `{"email":"noor@show.example","password":"another password"}`)
	p.want(401, "bad_sign_in", "POST /api/session", `{"email":"olga@show.example","password":"another password"}`)
	_, granted, header := p.do("POST", "/api/session", signInForm("Noor"))
	p.take(granted)
	set := header.Get("Set-Cookie")
	for _, part := range []string{"HttpOnly", "SameSite=Strict", "path=/api/session", "max-age="} {
		if !strings.Contains(set, part) {
			t.Errorf("the cookie is %q, without %s", set, part)
		}
	}
	if text := fmt.Sprint(granted); strings.Contains(text, p.cookies[cookie]) || strings.Contains(set, "secure") {
		t.Errorf("the page was given the refresh token, or a cookie that its browser does not send: %s, %s", text, set)
	}
	v := p.join("1")
	v.send("a", "hello")
	if v.see(1); v.messages[0].Sender != p.user || v.messages[0].Name != "Noor" || !strings.HasPrefix(p.user, "user-") {
		t.Errorf("got %+v of %s", v.messages[0], p.user)
	}

	old := p.cookies[cookie]
	p.take(p.want(200, `"name":"Noor"`, "POST /api/session/refresh", "", "X-Forwarded-Proto", "https"))
	thief := f.person()
	thief.cookies[cookie] = old
	thief.want(200, "", "POST /api/session/refresh", "") // as after a lost answer: the same cookie
	if thief.cookies[cookie] != p.cookies[cookie] {
		t.Error("two tokens of a session are good at a time")
	}
	p.want(200, "", "POST /api/session/refresh", "")
	thief.cookies[cookie] = old
	thief.want(401, "bad_token", "POST /api/session/refresh", "")
	p.want(401, "bad_token", "POST /api/session/refresh", "")
	p.want(204, "", "POST /api/session/refresh", "") // there is no cookie any more
	if p.cookies[cookie] != "" {
		t.Error("the cookie of a session that is ended is left")
	}
	p.want(401, "bad_token", "GET /api/me", "") // an access token is good no longer than its session

	p.take(p.want(201, "", "POST /api/session", signInForm("Noor")))
	kept, gone := p.cookies[cookie], p.join("1")
	p.want(200, "noor@show.example", "GET /api/me", "")
	p.want(204, "", "DELETE /api/session", "")
	gone.expired()
	p.want(401, "bad_token", "GET /api/me", "")
	p.want(401, "bad_token", "POST /api/streams/1/enter", "")
	p.cookies[cookie] = kept
	p.want(401, "bad_token", "POST /api/session/refresh", "")
}

func TestAccountsAreChecked(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	p := f.signedIn("Noor", chat.Member)
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/api/users", `x`, 400, "bad_request"},
		{"POST", "/api/users", `{"email":"x","password":"` + password + `","name":"X"}`, 400, "bad_email"},
		{"POST", "/api/users", `{"email":"x@show.example","password":"short","name":"X"}`, 400, "bad_password"},
		{"POST", "/api/users", `{"email":"x@show.example","password":"` + password + `","name":""}`, 400, "bad_name"},
		{"POST", "/api/session", `x`, 400, "bad_request"},
		{"POST", "/api/me", `{"name":"<b>Noor</b>","picture":"https://show.example/n.png"}`, 200, `\u003cb\u003eNoor`},
		{"POST", "/api/me", `{"name":"Noor","picture":"javascript:alert(1)"}`, 400, "bad_picture"},
		{"POST", "/api/me", `{"name":"Noor","picture":"http://show.example/n.png"}`, 400, "bad_picture"},
		{"POST", "/api/me", `{"name":"\u001b[31m","picture":""}`, 400, "bad_name"},
		{"POST", "/api/me", `{"name":"Noor","picture":""}`, 200, `"picture":""`},
		{"POST", "/api/me", `{"name":"Noor","picture":""}`, 429, "too_many"},
		{"GET", "/api/ways", "", 200, `"guests":true`},
		{"GET", "/api/oidc", "", 404, "no_such_path"},
		{"GET", "/api/hosts/" + p.user, "", 404, "no_user"},
		{"PUT", "/api/hosts/" + p.user + "/follow", "", 404, "no_user"},
		{"GET", "/api/hosts/x/y", "", 404, "no_such_path"},
	} {
		p.want(c.status, c.want, c.method+" "+c.path, c.body)
	}
	for _, path := range []string{"/api/users", "/api/session", "/api/session/refresh"} {
		p.want(403, "bad_origin", "POST "+path, signInForm("Noor"), "Origin", "https://evil.example")
	}
	p.want(403, "bad_origin", "DELETE /api/session", "", "Origin", "https://evil.example")
}

// Who guesses is stopped, for the account that is guessed and for others.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	f.signedIn("Noor", chat.Member)
	p := f.person()
	guess := func(email string) int {
		status, _, _ := p.do("POST", "/api/session", fmt.Sprintf(`{"email":%q,"password":"a wrong guess"}`, email))
		return status
	}
	for i := range triesOfPair {
		if got := guess("noor@show.example"); got != 401 {
			t.Errorf("guess %d: got %d", i, got)
		}
	}
	if got := guess("NOOR@show.example"); got != 429 {
		t.Errorf("one more: got %d", got)
	}
	p.want(429, "too_many", "POST /api/session", signInForm("Noor"))
	refused := 0
	for i := range triesOfNetwork {
		if guess(fmt.Sprint("user", i, "@show.example")) == 429 {
			refused++
		}
	}
	if refused == 0 {
		t.Error("a network may guess at as many accounts as it likes")
	}
	if got := guess(strings.Repeat("x", 300) + "@show.example"); got != 429 {
		t.Errorf("an address that is too long: got %d", got)
	}
}

// What one writes as an e-mail address is no other key: nobody's own attempts run out by it.
func TestKeysOfAttemptsAreApart(t *testing.T) {
	t.Parallel()
	s := &server{tries: ratelimit.New(100)}
	home, elsewhere := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("203.0.113.9")
	for _, email := range []string{home.String() + " ada@show.example", home.String()} {
		for range triesOfPair {
			s.mayTry(elsewhere, email)
		}
	}
	if !s.mayTry(home, "ada@show.example") {
		t.Error("another's address was an account's key")
	}
}

// Who has many networks of IPv6 has a few times the attempts of one.
func TestWiderNetworksAreBounded(t *testing.T) {
	t.Parallel()
	s := &server{tries: ratelimit.New(10_000)}
	may := func(format string) (n int) {
		for i := range 256 {
			for j := range triesOfNetwork {
				if s.mayTry(netip.MustParseAddr(fmt.Sprintf(format, i)), fmt.Sprint(i, "-", j, "@show.example")) {
					n++
				}
			}
		}
		return n
	}
	const more = 100 // while the test takes its time
	if got, want := may("2001:db8:0:%x::"), triesOfNetwork*widerNetworks[56]; got < want || got > want+more {
		t.Errorf("a /56: %d attempts, want %d", got, want)
	}
	if got, want := may("2001:db8:1:%x00::"), triesOfNetwork*widerNetworks[48]; got < want || got > want+more {
		t.Errorf("a /48: %d attempts, want %d", got, want)
	}
	if !s.mayTry(netip.MustParseAddr("2001:db8:2::"), "ada@show.example") {
		t.Error("everybody is refused")
	}
}

// Who leaves has everybody in the room looked at: not often.
func TestLeavingIsBounded(t *testing.T) {
	t.Parallel()
	p := start(t, seeded(t), func(c *Config) { c.GuestsPerNetwork = 1 }).signedIn("Noor", chat.Member)
	refused := false
	for range 1000 {
		if status, _, _ := p.do("POST", "/api/streams/1/leave", ""); status == 429 {
			refused = true
			break
		}
	}
	if !refused {
		t.Error("one may leave as often as one likes")
	}
}

// Signing out is a write, and whoever comes with any cookie may ask for it.
func TestSigningOutIsLimited(t *testing.T) {
	t.Parallel()
	p := start(t, seeded(t), func(c *Config) { c.GuestsPerNetwork = 1 }).signedIn("Noor", chat.Member)
	refused := false
	for i := 0; i < 1000 && !refused; i++ {
		p.cookies[cookie] = "nobody's.secret"
		status, _, _ := p.do("DELETE", sessionPath, "")
		refused = status == 429
	}
	if !refused {
		t.Error("one may sign out as often as one likes")
	}
}

// Nobody but who has the right token does what is for its user.
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	f := start(t, dir, nil)
	p := f.signedIn("Noor", chat.Member)
	refresh := p.cookies[cookie]
	entry, _ := p.want(201, `"follows":false`, "POST /api/streams/1/enter", "")["token"].(string)
	header, body, _ := strings.Cut(p.token, ".")
	body, _, _ = strings.Cut(body, ".")
	coded := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, token := range map[string]string{
		"no token":        "",
		"a refresh token": refresh,
		"an entry":        entry,
		"alg none":        coded(`{"alg":"none","typ":"JWT"}`) + "." + body + ".",
		"no signature":    header + "." + body + ".",
		"another role":    header + "." + coded(`{"use":"access","sub":"`+p.user+`","role":"admin","name":"x","iat":1,"exp":9999999999}`) + p.token[strings.LastIndexByte(p.token, '.'):],
		"another's key":   foreign(t, p.user),
	} {
		bad := f.person()
		bad.token = token
		for _, path := range []string{"GET /api/me", "POST /api/me", "POST /api/streams", "POST /api/streams/1/end", "POST /api/streams/1/enter", "POST /api/streams/1/leave", "PUT /api/hosts/x/follow"} {
			method, path, _ := strings.Cut(path, " ")
			sent := "{}"
			if method == "GET" {
				sent = ""
			}
			if status, form, _ := bad.do(method, path, sent); status != 401 {
				t.Errorf("%s, %s %s: got %d %v", name, method, path, status, form)
			}
		}
		if name == "an entry" {
			continue
		}
		if _, status, err := f.dial(url.Values{"stream": {"1"}, "token": {token}}, nil); err == nil || status != 401 {
			t.Errorf("%s: joined, %d", name, status)
		}
	}
	if _, status, err := f.dial(url.Values{"stream": {"1"}, "token": {p.token}}, nil); err == nil || status != 401 {
		t.Errorf("an access token in an address: got %d", status)
	}
	if _, status, err := f.dial(url.Values{"stream": {"2"}, "token": {entry}}, nil); err == nil || status != 401 {
		t.Errorf("an entry for another stream: got %d", status)
	}
	entry = f.entry("1", p.token) // the first one may be too old by now
	if v, status, err := f.dial(url.Values{"stream": {"1"}, "token": {entry}}, nil); err != nil || v.joined.User != p.user {
		t.Errorf("an entry: got %d, %v", status, err)
	}
	guest := f.person()
	guest.token = f.guest("Olga")
	guest.want(403, "not_allowed", "GET /api/me", "")
	guest.want(403, "not_allowed", "POST /api/streams", `{"title":"x"}`)
	guest.want(403, "not_allowed", "PUT /api/hosts/x/follow", "")
	p.want(401, "bad_token", "POST /api/guest", "") // an access token makes no other

	store := f.users()
	if err := errors.Join(store.SetDisabled(t.Context(), p.user, true), store.Close()); err != nil {
		t.Fatal(err)
	}
	p.want(401, "bad_token", "GET /api/me", "")
	p.want(401, "bad_sign_in", "POST /api/session", signInForm("Noor"))
	if _, status, err := f.dial(url.Values{"stream": {"1"}, "token": {p.token}}, nil); err == nil || status != 401 {
		t.Errorf("who is disabled joined: %d", status)
	}
}

func foreign(t *testing.T, user string) string {
	t.Helper()
	token, err := chat.NewTokens([]byte(strings.Repeat("o", 32)), time.Hour).Sign(&chat.User{ID: user, Name: "x", Role: chat.Admin})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// The connection of who has signed up ends with the access token, and comes back with another.
func TestAnAccessTokenEndsDuringAConnection(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	f := start(t, dir, nil)
	p := f.signedIn("Noor", chat.Member)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
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
	f = start(t, dir, nil)
	tokens := chat.NewTokens(key, time.Minute+5*time.Second)
	noor, err := tokens.Check(p.token)
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.Sign(&noor)
	if err != nil {
		t.Fatal(err)
	}
	p.f, p.token = f, token
	v := p.join("1")
	if _, _, err := v.ReadMessage(); !websocket.IsCloseError(err, int(hub.Expired)) {
		t.Errorf("got %v", err)
	}
	p.take(p.want(200, "", "POST /api/session/refresh", ""))
	p.join("1")
}

// expired reads until the connection ends, as one whose session or token has.
func (v *viewer) expired() {
	v.t.Helper()
	for {
		if _, _, err := v.ReadMessage(); err != nil {
			if !websocket.IsCloseError(err, int(hub.Expired)) {
				v.t.Errorf("got %v", err)
			}
			return
		}
	}
}

// Who is disabled, or has another password, by a command in another process, is out at once:
// with what it says, with its tokens, and with an entry that was given before.
func TestWhatIsTakenFromAUserIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	store := f.users()
	other := f.signedIn("Olga", chat.Member)
	stays := other.join("1")
	for name, take := range map[string]func(user string) error{
		"disabled":         func(user string) error { return store.SetDisabled(t.Context(), user, true) },
		"another password": func(user string) error { return store.SetPassword(t.Context(), user, "another password") },
	} {
		p := f.signedIn(strings.ReplaceAll(name, " ", ""), chat.Member)
		entry := f.entry("2", p.token)
		one, two := p.join("1"), p.join("2")
		if err := take(p.user); err != nil {
			t.Fatal(err)
		}
		p.want(401, "bad_token", "GET /api/me", "")
		p.want(401, "bad_token", "POST /api/streams/1/enter", "")
		p.want(401, "bad_token", "POST /api/session/refresh", "")
		if _, status, err := f.dial(url.Values{"stream": {"2"}, "token": {entry}}, nil); err == nil || status != 401 {
			t.Errorf("%s: joined with an entry from before, %d", name, status)
		}
		one.expired()
		two.expired()
	}
	stays.send("a", "still here")
	stays.next("ack")
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

// A host starts one stream at a time and ends it; others do not.
func TestAStreamIsItsHosts(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	member, host, other, admin := f.signedIn("Noor", chat.Member), f.signedIn("Ada", chat.Host), f.signedIn("Olga", chat.Host), f.signedIn("Root", chat.Admin)
	member.want(403, "not_allowed", "POST /api/streams", `{"title":"mine"}`)
	host.want(400, "bad_title", "POST /api/streams", `{"title":""}`)
	host.want(400, "bad_request", "POST /api/streams", `x`)
	host.want(201, `"host":"Ada"`, "POST /api/streams", `{"title":"<script>alert(1)</script>","id":1,"host_id":"`+other.user+`"}`)
	host.want(200, `"host_id":"`+host.user+`"`, "GET /api/streams/14", "")
	host.want(409, "already_live", "POST /api/streams", `{"title":"a second"}`)
	for _, p := range []*person{member, other} {
		p.want(403, "not_allowed", "POST /api/streams/14/end", "")
	}
	host.want(403, "not_allowed", "POST /api/streams/1/end", "") // nobody's
	host.want(404, "no_stream", "POST /api/streams/99/end", "")
	host.want(404, "no_such_path", "POST /api/streams/14/begin", "")
	v := member.join("14")
	host.want(200, `"ended"`, "POST /api/streams/14/end", "")
	v.send("late", "too late")
	if got := v.next("error"); got.Code != "stream_ended" {
		t.Errorf("got %+v", got)
	}
	there := host.join("14")
	other.want(201, `"id":15`, "POST /api/streams", `{"title":"mine"}`)
	admin.want(200, `"ended"`, "POST /api/streams/15/end", "")

	store := f.users() // what a token says of a role counts as long as it is so
	if err := errors.Join(store.SetRole(t.Context(), host.user, chat.Member), store.Close()); err != nil {
		t.Fatal(err)
	}
	host.want(403, "not_allowed", "POST /api/streams", `{"title":"again"}`)
	there.expired() // and comes back as what it is now
	host.join("14")
}

func TestFollowersAndSubscribers(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	member, host, other := f.signedIn("Noor", chat.Member), f.signedIn("Ada", chat.Host), f.signedIn("Olga", chat.Host)
	path := "/api/hosts/" + host.user
	host.want(201, "", "POST /api/streams", `{"title":"mine"}`)
	member.want(204, "", "PUT "+path+"/follow", "")
	member.want(200, `"followers":1,"name":"Ada","picture":"","relation":{"follows":true,"subscribes":false}`, "GET "+path, "")
	member.want(201, `"relation":{"follows":true,"subscribes":false}`, "POST /api/streams/14/enter", "")
	member.want(204, "", "DELETE "+path+"/follow", "")
	f.person().want(200, `"followers":0`, "GET "+path, "")
	subscriber := path + "/subscribers/" + member.user
	for _, p := range []*person{member, other} {
		p.want(403, "not_allowed", "PUT "+subscriber, "")
	}
	host.want(400, "write 1 to 366", "PUT "+subscriber+"?days=0", "")
	host.want(404, "no_user", "PUT "+path+"/subscribers/user-x", "")
	host.want(204, "", "PUT "+subscriber+"?days=7", "")
	member.want(200, `"subscribes":true`, "GET "+path, "")
	host.want(204, "", "DELETE "+subscriber, "")
	member.want(200, `"subscribes":false`, "GET "+path, "")
}

func TestWithoutGuests(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	f := start(t, dir, nil)
	token := f.guest("Olga")
	p := f.signedIn("Noor", chat.Member)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	f = start(t, dir, func(c *Config) { c.Guests = false })
	p.f = f
	p.want(403, "no_guests", "POST /api/guest", `{"name":"Olga"}`)
	p.want(200, `"guests":false`, "GET /api/ways", "")
	if _, status, err := f.dial(url.Values{"stream": {"1"}, "token": {token}}, nil); err == nil || status != 403 {
		t.Errorf("a guest from before joined: %d", status)
	}
	p.join("1")
}

// events are those that a server sends, until stop is called.
type events struct {
	*bufio.Scanner

	stop context.CancelFunc
}

// events follows the counts of streams.
func (f *fixture) events(t *testing.T, streams string) events {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.api+"/api/viewers?streams="+streams, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = response.Body.Close() // it may have ended
	})
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %v", response.StatusCode, response.Header)
	}
	return events{bufio.NewScanner(response.Body), cancel}
}

// until reads events until one is that.
func until(t *testing.T, events events, want string) {
	t.Helper()
	late := time.AfterFunc(long, events.stop)
	defer late.Stop()
	for events.Scan() {
		if events.Text() == "data: "+want {
			return
		}
	}
	t.Fatalf("the events ended without %s: %v", want, events.Err())
}

// Counts follow the connections, and are right again after a crash: they are nowhere else.
func TestCountsOfViewers(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	f := start(t, dir, func(c *Config) { c.MaxCounters, c.MaxCountersPerNetwork = 5, 2 })
	events := f.events(t, "2,1")
	until(t, events, `[{"stream":2,"viewers":0},{"stream":1,"viewers":0}]`)
	p := f.signedIn("Noor", chat.Member)
	first, second := p.join("1"), p.join("1")
	guest := f.join("Olga")
	until(t, events, `[{"stream":2,"viewers":0},{"stream":1,"viewers":3}]`)
	// Who leaves ends its own connections, and nobody else's.
	p.want(204, "", "POST /api/streams/1/leave", "")
	for _, v := range []*viewer{first, second} {
		if _, _, err := v.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("got %v", err)
		}
	}
	until(t, events, `[{"stream":2,"viewers":0},{"stream":1,"viewers":1}]`)
	guest.send("a", "still here")
	guest.next("ack")
	if status, _ := f.ask("POST", f.admin+"/streams/2/end", adminToken, ""); status != 204 {
		t.Errorf("got %d", status)
	}
	until(t, events, `[{"stream":2,"viewers":0,"ended":true},{"stream":1,"viewers":1}]`)

	f.events(t, "1")
	p.want(429, "too_many", "GET /api/viewers?streams=1", "")
	p.want(404, "no_stream", "GET /api/viewers", "")
	p.want(400, "write 1 to 60", "GET /api/viewers?streams=1"+strings.Repeat(",1", maxCounted), "")
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	for events.Scan() { // ends with the server
	}
	f = start(t, dir, nil)
	events = f.events(t, "1")
	until(t, events, `[{"stream":1,"viewers":0}]`)
	f.join("Olga")
	until(t, events, `[{"stream":1,"viewers":1}]`)
}

// No picture has browsers ask a server that the operator did not name.
func TestPicturesAreOfNamedOrigins(t *testing.T) {
	t.Parallel()
	for want, pictures := range map[string][]string{"img-src 'none';": nil, "img-src https://a.example https://b.example;": {"https://a.example", "https://b.example"}} {
		p := start(t, seeded(t), func(c *Config) { c.Pictures = pictures }).person()
		if _, _, header := p.raw("GET", "/app", ""); !strings.Contains(header.Get("Content-Security-Policy"), want) {
			t.Errorf("%q: got %q", pictures, header.Get("Content-Security-Policy"))
		}
		text, err := json.Marshal(append([]string{}, pictures...))
		if err != nil {
			t.Fatal(err)
		}
		p.want(200, string(text), "GET /api/ways", "")
	}
	for _, bad := range []string{"http://a.example", "a.example", "https://", "https:", "https://a.example/", "https://a.example;script-src", "*"} {
		c := DefaultConfig()
		if c.Pictures = []string{bad}; c.Validate() == nil {
			t.Errorf("pictures of %q", bad)
		}
	}
}

// A connection that ends before it is handed over takes no place.
func TestACounterIsCountedOnceItIsThere(t *testing.T) {
	t.Parallel()
	c := logstore.DefaultConfig()
	c.Dir = seeded(t)
	log, err := logstore.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	s := &server{log: log, counters: newCounters(&cfg)}
	var ctx fasthttp.RequestCtx
	ctx.Request.SetRequestURI("/api/viewers?streams=1")
	if err := s.viewers(&ctx); err != nil || !ctx.Hijacked() || s.counters.all != 0 {
		t.Errorf("got %v, %d", err, s.counters.all)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// A fault of the server is logged, and what a client does wrong is not.
func TestFaultsAreLogged(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"disk": fmt.Errorf("%w: disk", chat.ErrAccounts), "log": fmt.Errorf("%w: log", chat.ErrUnavailable), "unknown": errors.New("unknown"),
		"": errors.Join(chat.ErrFull, chat.ErrTooMany),
	} {
		var lines bytes.Buffer
		s := &server{failures: route.NewErrorLog(slog.New(slog.NewTextHandler(&lines, nil)), "failed")}
		s.failed(failure(err))
		if got := lines.String(); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: got %q", err, got)
		}
	}
}

// Room for counts is free again when somebody goes.
func TestCountersAreBounded(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.MaxCounters, c.MaxCountersPerNetwork = 2, 1
	all := newCounters(&c)
	first, second, third := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")
	if err := errors.Join(all.enter(first), all.enter(second)); err != nil {
		t.Fatal(err)
	}
	if err := all.enter(third); !errors.Is(err, chat.ErrFull) {
		t.Errorf("a third: got %v", err)
	}
	all.leave(first)
	if err := all.enter(second); !errors.Is(err, chat.ErrTooMany) {
		t.Errorf("a second time: got %v", err)
	}
	if err := all.enter(third); err != nil || len(all.byNetwork) != 2 {
		t.Errorf("after one has gone: got %v, %v", err, all.byNetwork)
	}
}

func TestPresence(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	ada, noor := f.signedIn("Ada", chat.Member), f.signedIn("Noor", chat.Host)
	noor.want(200, "", "POST /api/me", `{"name":"Noor <script>","picture":"https://show.example/n.png"}`)
	f.join("Guest")
	ada.join("1")
	noor.join("1")
	noor.join("1")
	noor.join("2")
	form := ada.want(200, `"viewers":4`, "GET /api/streams/1/presence", "")
	people, _ := form["users"].([]any)
	names := []string{}
	for _, one := range people {
		p, _ := one.(map[string]any)
		names = append(names, fmt.Sprint(p["name"], p["picture"], p["role"]))
	}
	if want := []string{"Noor <script>https://show.example/n.pnghost", "Adamember"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	ada.want(200, `"viewers":0`, "GET /api/streams/3/presence", "")
	ada.want(404, "no_stream", "GET /api/streams/99/presence", "")
}

// Somebody signs in at a provider, and is the same user the next time.
func TestSignInElsewhere(t *testing.T) {
	t.Parallel()
	provider := oidctest.Start(t)
	f := start(t, seeded(t), func(c *Config) {
		c.OIDC.Issuer, c.OIDC.ClientID, c.OIDC.Secret, c.PublicURL = provider.URL, oidctest.ClientID, oidctest.Secret, "http://127.0.0.1:1"
		c.OIDC.Timeout = long // a busy machine's provider answers
	})
	come := func(p *person, change func(back url.Values)) string {
		t.Helper()
		status, _, header := p.do("GET", "/api/oidc", "")
		if status != 303 || !strings.Contains(header.Get("Set-Cookie"), "SameSite=Lax") || !strings.Contains(header.Get("Set-Cookie"), "HttpOnly") {
			t.Fatalf("got %d %v", status, header)
		}
		_, _, header = (&person{f: &fixture{t: t, api: strings.TrimPrefix(provider.URL, "http://")}, cookies: map[string]string{}}).do("GET", strings.TrimPrefix(header.Get("Location"), provider.URL), "")
		back, err := url.Parse(header.Get("Location"))
		if err != nil || back.Path != callbackPath {
			t.Fatalf("got %v, %v", back, err)
		}
		query := back.Query()
		if change != nil {
			change(query)
		}
		status, _, header = p.do("GET", callbackPath+"?"+query.Encode(), "")
		if status != 303 || p.cookies[providerCookie] != "" {
			t.Errorf("got %d %v", status, header)
		}
		return header.Get("Location")
	}
	var all []string
	for range 2 {
		p := f.person()
		if got := come(p, nil); got != "/app" {
			t.Fatalf("got %s", got)
		}
		p.take(p.want(200, `"picture":"https://id.example/42.png"`, "POST /api/session/refresh", ""))
		p.join("1")
		all = append(all, p.user)
	}
	if all[0] != all[1] || all[0] == "" {
		t.Errorf("got %v, want one user", all)
	}
	bad := f.person()
	if got := come(bad, func(back url.Values) { back.Set("state", "x") }); got != "/app?failed" || bad.cookies[cookie] != "" {
		t.Errorf("the answer to another question: got %s", got)
	}
	f.person().want(200, `"provider":"your provider"`, "GET /api/ways", "")
}
