package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/system/chat"
	"loadstone/system/chat/hub"
	"loadstone/system/chat/logstore"
	"loadstone/system/chat/users"
)

// hosted is a directory with a stream whose host has signed up, and the token of that host.
func hosted(t *testing.T) (dir, token string) {
	t.Helper()
	dir = t.TempDir()
	c := logstore.DefaultConfig()
	c.Dir = dir
	log, err := logstore.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: dir}
	store := f.users()
	host, _, err := store.Add(t.Context(), users.New{Email: "ada@show.example", Password: password, Name: "Ada", Role: chat.Host})
	if err != nil {
		t.Fatal(err)
	}
	err = log.AddStreams([]chat.Stream{{ID: 1, Title: "Chess", Host: "Ada", HostID: host.ID, Started: time.Now()}})
	if err == nil {
		_, err = store.Begin(t.Context(), host)
	}
	if err == nil {
		u := host.Token()
		token, err = chat.NewTokens(log.Key(), time.Hour).Sign(&u)
	}
	if err := errors.Join(err, store.Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
	return dir, token
}

// dialAs joins stream 1 with a token.
func (f *fixture) dialAs(token string) *viewer {
	f.t.Helper()
	v, _, err := f.dial(url.Values{"stream": {"1"}, "token": {f.entry("1", token)}}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

// act asks for an action over HTTP.
func (f *fixture) act(token, action string, want int) map[string]any {
	f.t.Helper()
	status, form := f.askAgain("POST", f.api+"/api/streams/1/actions", token, action)
	if status != want {
		f.t.Fatalf("%s: got %d %v, want %d", action, status, form, want)
	}
	return form
}

func (v *viewer) write(text string) {
	v.t.Helper()
	if err := v.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		v.t.Fatal(err)
	}
}

// refusedWith says something and wants it refused.
func (v *viewer) refusedWith(id, text, code string) told {
	v.t.Helper()
	v.send(id, text)
	got := v.next("error")
	if got.Code != code || got.ID != id {
		v.t.Errorf("%q: got %+v, want %s", text, got, code)
	}
	return got
}

func TestAHostModerates(t *testing.T) {
	t.Parallel()
	dir, host := hosted(t)
	f := start(t, dir, nil)
	olgaToken := f.guest("Olga")
	h, noor, olga := f.dialAs(host), f.join("Noor"), f.dialAs(olgaToken)
	if h.joined.Role != "host" || noor.joined.Role != "" {
		t.Errorf("got the roles %q and %q", h.joined.Role, noor.joined.Role)
	}
	noor.send("1", "a secret of Olga's")
	noor.next("ack")
	olga.send("1", "@noor why?")
	olga.next("ack")
	h.see(2)
	if m := h.messages[1].Mentions; len(m) != 1 || m[0] != noor.joined.User {
		t.Errorf("got the mentions %v", m)
	}

	// Over WebSocket: who may not, what is wrong, and what is done.
	noor.write(`{"type":"act","id":"a","action":"unpin"}`)
	if got := noor.next("error"); got.Code != "not_moderator" || got.ID != "a" {
		t.Errorf("a viewer's action: got %+v", got)
	}
	h.write(`{"type":"act","id":"b","action":"timeout","user":"x","seconds":0}`)
	if got := h.next("error"); got.Code != "bad_action" || !strings.Contains(string(got.Message), "seconds is 0: write 1 to") {
		t.Errorf("a wrong action: got %+v", got)
	}
	h.write(`{"type":"act","id":"c","action":"delete","offset":0}`)
	if got := h.next("done"); got.ID != "c" {
		t.Errorf("got %+v", got)
	}
	if got := olga.next("deleted"); len(got.Offsets) != 1 || got.Offsets[0] != 0 {
		t.Errorf("got %+v", got)
	}
	f.act(host, `{"action":"delete","offset":7}`, 404)
	f.act(host, `{"action":"delete"}`, 400)
	f.act("nonsense", `{"action":"unpin"}`, 401)
	f.act(f.guest("Mallory"), `{"action":"unpin"}`, 403)

	f.act(host, `{"action":"pin","offset":1}`, 204)
	if got := noor.next("pinned"); !strings.Contains(string(got.Message), "why?") {
		t.Errorf("got %s", got.Message)
	}
	f.act(host, `{"action":"settings","settings":{"slow":3600,"words":["bаd"]}}`, 204)
	if got := noor.next("settings"); got.Slow != 3600 {
		t.Errorf("got %+v", got)
	}
	noor.refusedWith("2", "so BAD", "blocked_word")
	noor.send("3", "good")
	noor.next("ack")
	if got := noor.refusedWith("4", "more", "slow_mode"); got.Seconds < 3500 {
		t.Errorf("got %d seconds", got.Seconds)
	}
	f.act(host, fmt.Sprintf(`{"action":"appoint","user":%q}`, olga.joined.User), 204)
	if got := olga.next("role"); got.Role != "moderator" {
		t.Errorf("got %+v", got)
	}
	olga.write(fmt.Sprintf(`{"type":"act","id":"t","action":"timeout","user":%q,"seconds":60,"reason":"spam"}`, noor.joined.User))
	olga.next("done")
	if got := noor.refusedWith("5", "more", "timed_out"); got.Seconds < 1 || got.Seconds > 60 {
		t.Errorf("got %d seconds", got.Seconds)
	}
	noor.write(`{"type":"react","kind":"heart"}`)
	if got := noor.next("error"); got.Code != "timed_out" {
		t.Errorf("got %+v", got)
	}
	f.act(host, fmt.Sprintf(`{"action":"timeout","user":%q,"seconds":3600}`, olga.joined.User), 204)
	f.act(olgaToken, `{"action":"unpin"}`, 403) // a moderator who has to wait does
}

// What is set, banned, deleted and pinned stays so after the server is started again, and who is
// connected is disconnected.
func TestModerationStays(t *testing.T) {
	t.Parallel()
	dir, host := hosted(t)
	f := start(t, dir, nil)
	noorToken := f.guest("Noor")
	noor, olga := f.dialAs(noorToken), f.join("Olga")
	noor.send("1", "a secret")
	noor.next("ack")
	olga.send("1", "to be pinned")
	olga.next("ack")
	olga.see(2)
	f.act(host, `{"action":"delete","offset":0}`, 204)
	f.act(host, `{"action":"pin","offset":1}`, 204)
	f.act(host, `{"action":"settings","settings":{"emotes":true,"words":["bad"]}}`, 204)
	f.act(host, fmt.Sprintf(`{"action":"ban","user":%q,"reason":"spam"}`, noor.joined.User), 204)
	noor.closed(int(hub.Forbidden))
	check := func(f *fixture) {
		t.Helper()
		if _, status, _ := f.dial(url.Values{"stream": {"1"}, "token": {noorToken}}, nil); status != 403 {
			t.Errorf("who is banned comes back: got %d", status)
		}
		back := f.join("Olga", "epoch", olga.joined.Epoch, "offset", "1")
		if got := back.next("settings"); !got.Emotes {
			t.Errorf("got %+v", got)
		}
		back.next("pinned")
		if got := back.next("deleted"); len(got.Offsets) != 1 {
			t.Errorf("who comes back is told %+v", got)
		}
		back.refusedWith("w", "words", "emotes_only")
		fresh := f.join("Ada")
		if got := fresh.see(2); got[0] != "" || !fresh.messages[0].Deleted || got[1] != "to be pinned" {
			t.Errorf("who joins sees %q", got)
		}
		_, page := f.ask("GET", f.api+"/api/streams/1/messages", "", "")
		if text, _ := json.Marshal(page); strings.Contains(string(text), "secret") || !strings.Contains(string(text), `"deleted":true`) {
			t.Errorf("the history is %s", text)
		}
		_, room := f.ask("GET", f.api+"/api/streams/1/room", "", "")
		if text, _ := json.Marshal(room); !strings.Contains(string(text), "to be pinned") || strings.Contains(string(text), "words") || strings.Contains(string(text), "barred") {
			t.Errorf("a viewer's room is %s", text)
		}
		_, room = f.ask("GET", f.api+"/api/streams/1/room", host, "")
		if text, _ := json.Marshal(room); !strings.Contains(string(text), `"words":["bad"]`) || !strings.Contains(string(text), `"reason":"spam"`) {
			t.Errorf("the host's room is %s", text)
		}
		if status, _ := f.ask("GET", f.api+"/api/streams/1/log", noorToken, ""); status != 403 {
			t.Errorf("a viewer's log: got %d", status)
		}
		_, log := f.ask("GET", f.api+"/api/streams/1/log?before=4", host, "")
		entries, _ := log["entries"].([]any)
		if text, _ := json.Marshal(log); len(entries) != 4 || !strings.Contains(string(text), `"action":"ban"`) || strings.Contains(string(text), `"bad"`) {
			t.Errorf("the log is %s", text)
		}
	}
	check(f)
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	check(start(t, dir, nil))
}

func TestADelayIsForViewers(t *testing.T) {
	t.Parallel()
	dir, host := hosted(t)
	f := start(t, dir, nil)
	f.act(host, `{"action":"settings","settings":{"delay":60}}`, 204)
	h, noor := f.dialAs(host), f.join("Noor")
	noor.send("1", "wait for it")
	noor.next("ack")
	if got := h.next("held"); len(got.Messages) != 1 || got.Messages[0].Text != "wait for it" {
		t.Errorf("got %+v", got)
	}
	late := f.dialAs(host)
	if got := late.next("held"); len(got.Messages) != 1 {
		t.Errorf("a host who joins: got %+v", got)
	}
	fresh := f.join("Olga")
	if _, page := f.ask("GET", f.api+"/api/streams/1/messages", "", ""); fmt.Sprint(page["messages"]) != "[]" || page["next"] != 0.0 || fresh.joined.Next != 0 {
		t.Errorf("got %v and %+v", page, fresh.joined)
	}
	f.act(host, `{"action":"settings","settings":{}}`, 204)
	for _, v := range []*viewer{noor, fresh} {
		if got := v.see(1); len(got) != 1 || got[0] != "wait for it" {
			t.Errorf("got %q", got)
		}
	}
}

func TestReactionsAndRates(t *testing.T) {
	t.Parallel()
	dir, _ := hosted(t)
	f := start(t, dir, func(c *Config) { c.MessagesPerRoom = 1 })
	noor, olga := f.join("Noor"), f.join("Olga")
	noor.write(`{"type":"react","kind":"heart"}`)
	if got := olga.next("reactions"); got.Counts["heart"] != 1 {
		t.Errorf("got %+v", got)
	}
	noor.write(`{"type":"react","kind":"<script>"}`)
	if got := noor.next("error"); got.Code != "bad_reaction" {
		t.Errorf("got %+v", got)
	}
	refused := 0
	for i := range 12 { // five at once of all together
		noor.send(fmt.Sprint(i), "text")
	}
	for range 12 {
		var s told
		for s.Type != "ack" && s.Type != "error" {
			s = told{}
			if err := noor.ReadJSON(&s); err != nil {
				t.Fatal(err)
			}
		}
		if s.Code == "too_many" {
			refused++
		}
	}
	if refused == 0 {
		t.Error("a room takes more than it may")
	}
}

// Who follows, or is a subscriber, may speak from then on, without coming back.
func TestOnlyFollowersOrSubscribersSpeak(t *testing.T) {
	t.Parallel()
	dir, host := hosted(t)
	f := start(t, dir, nil)
	noor, guest := f.signedIn("Noor", chat.Member), f.join("Olga")
	v := noor.join("1")
	ada := f.person()
	ada.token = host
	_, me, _ := ada.do("GET", "/api/me", "")
	hostPath := "/api/hosts/" + fmt.Sprint(me["user"])
	for i, c := range []struct{ settings, code, method, path string }{
		{`{"followers":true}`, "followers_only", "PUT", hostPath + "/follow"},
		{`{"subscribers":true}`, "subscribers_only", "PUT", hostPath + "/subscribers/" + noor.user},
	} {
		f.act(host, `{"action":"settings","settings":`+c.settings+`}`, 204)
		v.refusedWith(fmt.Sprint("a", i), "hello", c.code)
		guest.refusedWith(fmt.Sprint("a", i), "hello", c.code)
		who := noor
		if i == 1 {
			who = ada
		}
		if status, form, _ := who.do(c.method, c.path, ""); status != 204 {
			t.Fatalf("%s: got %d %v", c.path, status, form)
		}
		v.send(fmt.Sprint("b", i), "hello again")
		v.next("ack")
	}
	if status, form, _ := noor.do("DELETE", hostPath+"/follow", ""); status != 204 {
		t.Fatalf("got %d %v", status, form)
	}
	f.act(host, `{"action":"settings","settings":{"followers":true}}`, 204)
	v.send("c", "a subscriber is a follower, too")
	v.next("ack")
}
