package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/block/account"
	"loadstone/system/chat"
	"loadstone/system/chat/hub"
	"loadstone/system/chat/logstore"
)

const (
	long       = time.Minute // more than anything takes that does not hang
	adminToken = "a token of the operator"
)

// fixture is a running server with two streams.
type fixture struct {
	t          *testing.T
	dir        string
	api, admin string
	stop       func() error
}

func start(t *testing.T, dir string, change func(*Config)) *fixture {
	t.Helper()
	return startAs(t, dir, Run, change)
}

// startAs is start of what run serves.
func startAs(t *testing.T, dir string, run func(context.Context, Config, *slog.Logger) error, change func(*Config)) *fixture {
	t.Helper()
	c := DefaultConfig()
	c.Data, c.Listen, c.AdminListen, c.AdminToken, c.Drain, c.Hub.Tick = dir, "127.0.0.1:0", "127.0.0.1:0", adminToken, 0, 0
	c.MessagesPerUser, c.PasswordCost = 1000, account.MinCost // tests say more than anybody
	addresses := make(chan [2]net.Addr, 1)
	c.Listening = func(api, admin net.Addr) { addresses <- [2]net.Addr{api, admin} }
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c, slog.New(slog.DiscardHandler)) }()
	f := &fixture{t: t, dir: dir}
	stopped := false
	f.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-addresses:
		f.api, f.admin = a[0].String(), a[1].String()
	case err := <-ended:
		stopped = true
		cancel()
		t.Fatal(err)
	}
	return f
}

func seeded(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := logstore.DefaultConfig()
	c.Dir = dir
	log, err := logstore.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	streams, err := chat.InventStreams(13)
	if err := errors.Join(err, log.AddStreams(streams), log.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// ask sends a request and reads the answer's JSON.
func (f *fixture) ask(method, address, token, body string) (int, map[string]any) {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+address, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	var form map[string]any
	_ = json.Unmarshal(text, &form) // what is no JSON has no members
	return response.StatusCode, form
}

// again asks until the status is not that a part of the chat did not answer in time, as on a busy machine.
func again(ask func() (status int)) (status int) {
	for deadline := time.Now().Add(long); ; time.Sleep(100 * time.Millisecond) {
		if status = ask(); status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return status
		}
	}
}

// askAgain is ask where all parts are there.
func (f *fixture) askAgain(method, address, token, body string) (status int, form map[string]any) {
	f.t.Helper()
	again(func() int {
		status, form = f.ask(method, address, token, body)
		return status
	})
	return status, form
}

func (f *fixture) guest(name string) string {
	f.t.Helper()
	status, form := f.askAgain("POST", f.api+"/api/guest", "", fmt.Sprintf(`{"name":%q}`, name))
	token, ok := form["token"].(string)
	if status != 201 || !ok {
		f.t.Fatalf("got %d %v", status, form)
	}
	return token
}

// told is what a viewer is told.
type told struct {
	Type      string         `json:"type"`
	Epoch     string         `json:"epoch"`
	Next      uint64         `json:"next"`
	Recovered bool           `json:"recovered"`
	User      string         `json:"user"`
	Messages  []chat.Message `json:"messages"`
	Count     uint64         `json:"count"`
	ID        string         `json:"id"`
	Offset    uint64         `json:"offset"`
	Code      string         `json:"code"`

	Role    string          `json:"role"`
	Message json.RawMessage `json:"message"` // of an error a text
	Offsets []uint64        `json:"offsets"`
	Seconds int             `json:"seconds"`
	Slow    int             `json:"slow"`
	Emotes  bool            `json:"emotes"`
	Counts  map[string]int  `json:"counts"`
}

type viewer struct {
	t *testing.T
	*websocket.Conn

	joined   told
	messages []chat.Message
	refused  int
	totals   uint64 // what is before that offset is analysed, as far as it was told
}

// ReadJSON and ReadMessage wait for long each, however long ago the viewer joined.
func (v *viewer) ReadJSON(to any) error {
	_ = v.SetReadDeadline(time.Now().Add(long))
	return v.Conn.ReadJSON(to) //nolint:wrapcheck // IsCloseError does not unwrap
}

func (v *viewer) ReadMessage() (kind int, payload []byte, err error) {
	_ = v.SetReadDeadline(time.Now().Add(long))
	return v.Conn.ReadMessage() //nolint:wrapcheck // IsCloseError does not unwrap
}

// dial tries to join; the status is that of the handshake. Where a part of the chat does not answer in
// time, it tries again, as viewers do.
func (f *fixture) dial(query url.Values, header http.Header) (v *viewer, status int, err error) {
	f.t.Helper()
	for deadline := time.Now().Add(long); ; time.Sleep(100 * time.Millisecond) {
		v, status, err = f.dialOnce(query, header)
		if !websocket.IsCloseError(err, websocket.CloseTryAgainLater) || time.Now().After(deadline) {
			return v, status, err
		}
	}
}

func (f *fixture) dialOnce(query url.Values, header http.Header) (*viewer, int, error) {
	conn, response, err := websocket.DefaultDialer.DialContext(f.t.Context(), "ws://"+f.api+"/ws?"+query.Encode(), header)
	status := 0
	if response != nil {
		status = response.StatusCode
		_ = response.Body.Close()
	}
	if err != nil {
		return nil, status, err
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	v := &viewer{t: f.t, Conn: conn}
	v.joined, err = v.read("joined")
	return v, status, err
}

func (f *fixture) join(name string, more ...string) *viewer {
	f.t.Helper()
	query := url.Values{"stream": {"1"}, "token": {f.guest(name)}}
	for i := 0; i < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	return f.letIn(func() url.Values { return query })
}

// letIn is dial of who is to be let in, with its query at that time.
func (f *fixture) letIn(query func() url.Values) (v *viewer) {
	f.t.Helper()
	var err error
	status := again(func() (status int) {
		v, status, err = f.dial(query(), nil)
		return status
	})
	if err != nil {
		f.t.Fatalf("got %d, %v", status, err)
	}
	return v
}

// next reads until there is something of the type. Messages on the way are kept.
func (v *viewer) next(kind string) told {
	v.t.Helper()
	s, err := v.read(kind)
	if err != nil {
		v.t.Fatalf("waiting for %s: %v", kind, err)
	}
	return s
}

func (v *viewer) read(kind string) (told, error) {
	for {
		var s told
		if err := v.ReadJSON(&s); err != nil {
			return told{}, err //nolint:wrapcheck // IsCloseError does not unwrap
		}
		v.messages = append(v.messages, s.Messages...)
		if s.Type == "totals" {
			v.totals = max(v.totals, s.Next)
		}
		if s.Type == kind {
			return s, nil
		}
	}
}

// closed reads what was told before the connection ended, and checks why it did.
func (v *viewer) closed(code int) {
	v.t.Helper()
	var err error
	for err == nil {
		_, _, err = v.ReadMessage()
	}
	if !websocket.IsCloseError(err, code) {
		v.t.Errorf("got %v, want the end with %d", err, code)
	}
}

func (v *viewer) send(id, text string) {
	v.t.Helper()
	if err := v.WriteJSON(map[string]string{"type": "send", "id": id, "text": text}); err != nil {
		v.t.Fatal(err)
	}
}

// see reads until there are so many messages, and returns their texts.
func (v *viewer) see(n int) (texts []string) {
	v.t.Helper()
	for len(v.messages) < n {
		v.next("messages")
	}
	for _, m := range v.messages {
		texts = append(texts, m.Text)
	}
	return texts
}

func TestTwoTalk(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	noor, olga, other := f.join("Noor"), f.join("Olga"), f.join("Samir", "stream", "2")
	noor.send("a", "안녕 👋")
	if got := noor.next("ack"); got.ID != "a" || got.Offset != 0 {
		t.Errorf("got %+v", got)
	}
	olga.send("a", "hello")
	noor.send("a", "안녕 👋") // again
	if got := noor.next("ack"); got.Offset != 0 {
		t.Errorf("sent again: got %+v", got)
	}
	for _, v := range []*viewer{noor, olga} {
		if got := v.see(2); strings.Join(got, "|") != "안녕 👋|hello" {
			t.Errorf("got %q", got)
		}
		if m := v.messages[1]; m.Name != "Olga" || m.Sender != olga.joined.User || m.ID != "a" || m.Offset != 1 || m.At == 0 {
			t.Errorf("got %+v", m)
		}
	}
	other.send("b", "elsewhere")
	if got := other.see(1); got[0] != "elsewhere" {
		t.Errorf("another room: got %q", got)
	}
	for body, code := range map[string]string{
		`{"type":"send","id":"x","text":""}`: "bad_text", `{`: "bad_request", `{"type":"send","id":"` + strings.Repeat("x", 65) + `","text":"a"}`: "bad_id",
	} {
		_ = noor.WriteMessage(websocket.TextMessage, []byte(body))
		if got := noor.next("error"); got.Code != code {
			t.Errorf("%s: got %+v", body, got)
		}
	}
	// What the payload claims is not believed.
	_ = noor.WriteMessage(websocket.TextMessage, []byte(`{"type":"send","id":"f","text":"forged","sender":"`+olga.joined.User+`","stream":2,"offset":99}`))
	if got := noor.next("ack"); got.Offset != 2 {
		t.Errorf("got %+v", got)
	}
	olga.see(3)
	if m := olga.messages[2]; m.Sender != noor.joined.User || m.Name != "Noor" {
		t.Errorf("a forged sender: got %+v", m)
	}
}

// A viewer that lost its connection has what it missed, also over a restart, and nothing twice.
func TestWhoComesBackMissesNothing(t *testing.T) {
	t.Parallel()
	dir := seeded(t)
	f := start(t, dir, nil)
	v := f.join("Noor")
	for i := range 5 {
		v.send(fmt.Sprint(i), fmt.Sprint("text ", i))
		v.next("ack")
	}
	v.see(5)
	epoch := v.joined.Epoch
	back := f.join("Olga", "epoch", epoch, "offset", "2")
	if got := back.see(3); !back.joined.Recovered || back.joined.Next != 2 || got[0] != "text 2" {
		t.Errorf("got %+v and %q", back.joined, got)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	v.closed(websocket.CloseGoingAway)
	f = start(t, dir, nil)
	back = f.join("Olga", "epoch", epoch, "offset", "4")
	back.send("new", "after")
	if got := back.see(2); !back.joined.Recovered || strings.Join(got, "|") != "text 4|after" || back.messages[1].Offset != 5 {
		t.Errorf("got %+v and %q", back.joined, got)
	}
	other := f.join("Ada", "epoch", "0123456789abcdef", "offset", "4")
	if got := other.see(6); other.joined.Recovered || other.joined.Next != 0 || len(got) != 6 {
		t.Errorf("of another log: got %+v and %q", other.joined, got)
	}
}

// A connection ends while its token is good for another one.
func TestATokenIsRenewedWhenItsConnectionEnds(t *testing.T) {
	t.Parallel()
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
	token, err := chat.NewTokens(key, time.Minute+5*time.Second).Sign(&chat.User{ID: "guest-noor", Name: "Noor"})
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := f.dial(url.Values{"stream": {"1"}, "token": {token}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.ReadMessage(); !websocket.IsCloseError(err, int(hub.Expired)) {
		t.Errorf("got %v", err)
	}
	status, form := f.ask("POST", f.api+"/api/guest", token, "")
	again, _ := form["token"].(string)
	if user, err := checkedBy(t, f, again); status != 201 || user != "guest-noor" || err != nil {
		t.Errorf("got %d %v, %v, and joined as %q", status, form, err, user)
	}
}

func TestRatesAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), func(c *Config) { c.MessagesPerUser, c.GuestsPerNetwork = 1, 1 })
	began := time.Now()
	v := f.join("Noor")
	const messages = 40
	for i := range messages {
		v.send(fmt.Sprint(i), "text")
	}
	acks := 0
	for acks+v.refused < messages {
		var s told
		if err := v.ReadJSON(&s); err != nil {
			t.Fatal(err)
		}
		switch {
		case s.Type == "ack":
			acks++
		case s.Type == "error" && s.Code == "too_many":
			v.refused++
		}
	}
	made := 1
	for range 30 {
		if status, _ := f.ask("POST", f.api+"/api/guest", "", `{"name":"Olga"}`); status == 201 {
			made++
		} else if status != 429 {
			t.Fatalf("got %d", status)
		}
	}
	most := 6 + int(time.Since(began)/time.Second)
	if acks < 5 || acks > most || made < 5 || made > most {
		t.Errorf("got %d messages and %d guests, want 5 to %d", acks, made, most)
	}
}

func TestWhoMayNotJoinIsTold(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), func(c *Config) {
		c.Origins = []string{"https://show.example"}
		c.Hub.MaxPerRoom = 1
	})
	good := url.Values{"stream": {"1"}, "token": {f.guest("Noor")}}
	f.join("Olga", "stream", "2")
	for name, c := range map[string]struct {
		query  []string
		origin string
		want   int
	}{
		"no token":          {[]string{"token", ""}, "", 401},
		"alg none":          {[]string{"token", "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0."}, "", 401},
		"no such room":      {[]string{"stream", "99"}, "", 404},
		"a room of letters": {[]string{"stream", "x"}, "", 404},
		"a full room":       {[]string{"stream", "2"}, "", 503},
		"another origin":    {nil, "https://evil.example", 403},
		"a bad place":       {[]string{"epoch", "x", "offset", "-1"}, "", 400},
		"a known origin":    {nil, "https://show.example", 101},
	} {
		query := maps.Clone(good)
		for i := 0; i < len(c.query); i += 2 {
			query.Set(c.query[i], c.query[i+1])
		}
		header := http.Header{}
		if c.origin != "" {
			header.Set("Origin", c.origin)
		}
		_, status, err := f.dial(query, header)
		if status != c.want {
			t.Errorf("%s: got %d, %v, want %d", name, status, err, c.want)
		}
	}
	if status, _ := f.ask("GET", f.api+"/ws?"+good.Encode(), "", ""); status != 426 {
		t.Errorf("no handshake: got %d", status)
	}
}

func TestSocketsEndWithTheirCodes(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), nil)
	v := f.join("Noor")
	_ = v.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte("x"), chat.MaxRequest+1))
	if _, _, err := v.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
		t.Errorf("too big: got %v", err)
	}
	v = f.join("Noor")
	_ = v.WriteMessage(websocket.BinaryMessage, []byte("x"))
	if _, _, err := v.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseUnsupportedData) {
		t.Errorf("binary: got %v", err)
	}
	if hub.Expired != 3000 {
		t.Error("the page knows another code")
	}
}

func TestInterface(t *testing.T) {
	t.Parallel()
	f := start(t, seeded(t), func(c *Config) { c.Hub.MaxFrames = 1000 })
	v := f.join("Noor")
	for i := range 60 {
		v.send(fmt.Sprint(i), fmt.Sprint("text ", i))
		v.next("ack")
	}
	token := f.guest("Olga")
	status, form := f.ask("POST", f.api+"/api/guest", token, "")
	again, _ := form["token"].(string)
	user, err := checkedBy(t, f, again)
	if old, err2 := checkedBy(t, f, token); status != 201 || errors.Join(err, err2) != nil || old != user {
		t.Errorf("another token: got %d %v", status, form)
	}
	for _, c := range []struct {
		method, path, token, body string
		status                    int
		want                      string
	}{
		{"POST", "/api/guest", "", `{"name":""}`, 400, "bad_name"},
		{"POST", "/api/guest", "", `x`, 400, "bad_request"},
		{"POST", "/api/guest", "nonsense", ``, 401, "bad_token"},
		{"GET", "/api/streams", "", "", 200, `"pages":2`},
		{"GET", "/api/streams?page=2", "", "", 200, `"id":1,`},
		{"GET", "/api/streams?page=3", "", "", 400, "write 1 to 2"},
		{"GET", "/api/streams/1", "", "", 200, `"viewers":3`},
		{"GET", "/api/streams/99", "", "", 404, "no_stream"},
		{"GET", "/api/streams/1/messages", "", "", 200, `"text 59"`},
		{"GET", "/api/streams/1/messages?before=10", "", "", 200, `"text 9"`},
		{"GET", "/api/streams/1/messages?before=x", "", "", 400, "write a number"},
		{"GET", "/api/streams/1/other", "", "", 404, "no_such_path"},
		{"DELETE", "/api/streams", "", "", 405, "method_not_allowed"},
		{"GET", "/readyz", "", "", 200, "ok"},
	} {
		status, form := f.ask(c.method, f.api+c.path, c.token, c.body)
		text, _ := json.Marshal(form)
		if status != c.status || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: got %d %s, want %d %s", c.method, c.path, status, text, c.status, c.want)
		}
	}
	for _, c := range []struct {
		path, token, body string
		status            int
	}{
		{"/streams", "", `{"id":50,"title":"new"}`, 401},
		{"/streams", adminToken, `{"id":50,"title":"new","host":"Noor"}`, 204},
		{"/streams", adminToken, `{"id":50,"title":"another","host":"Noor"}`, 409},
		{"/streams", adminToken, `{"id":51,"title":" ","host":"Noor"}`, 400},
		{"/streams", adminToken, `{"id":0,"title":"new"}`, 400},
		{"/streams/50/end", adminToken, "", 204},
		{"/streams/51/end", adminToken, "", 404},
		{"/streams/1/end", adminToken, "", 204},
	} {
		if status, _ := f.ask("POST", f.admin+c.path, c.token, c.body); status != c.status {
			t.Errorf("%s %s: got %d, want %d", c.path, c.body, status, c.status)
		}
	}
	v.send("late", "too late")
	if got := v.next("error"); got.Code != "stream_ended" || got.ID != "late" {
		t.Errorf("after the end: got %+v", got)
	}
}

// checkedBy joins with a token and returns whose it is.
func checkedBy(t *testing.T, f *fixture, token string) (string, error) {
	t.Helper()
	v, _, err := f.dial(url.Values{"stream": {"1"}, "token": {token}}, nil)
	if err != nil {
		return "", err
	}
	return v.joined.User, nil
}

func TestConnectionsFitTheDescriptors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		descriptors   uint64
		http, viewers int // 0 if it is refused
	}{
		{1 << 63, 10_000, 50_000}, {62_000, 10_000, 50_000}, {20_000, 9_000, 9_000}, {2_003, 1, 2}, {2_001, 0, 0}, {1_024, 0, 0},
	} {
		cfg := DefaultConfig()
		cfg.MaxConns, cfg.Hub.MaxConns = 10_000, 50_000
		switch cfg, err := cfg.fit(c.descriptors); {
		case c.http == 0:
			if err == nil || !strings.Contains(err.Error(), "allow it 2002 or more") {
				t.Errorf("%d descriptors: got %v", c.descriptors, err)
			}
		case err != nil || cfg.MaxConns != c.http || cfg.Hub.MaxConns != c.viewers:
			t.Errorf("%d descriptors: got %d connections and %d viewers, %v, want %d and %d", c.descriptors, cfg.MaxConns, cfg.Hub.MaxConns, err, c.http, c.viewers)
		}
	}
}
