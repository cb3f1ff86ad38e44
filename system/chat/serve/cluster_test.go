package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/block/servertest"
	"loadstone/system/chat"
	"loadstone/system/chat/analysis"
	"loadstone/system/chat/broadcast"
	"loadstone/system/chat/reconcile"
	"loadstone/system/chat/registry"
	"loadstone/system/chat/topics"
	"loadstone/system/chat/topics/topicstest"
)

// sharedParts are what several servers share.
type sharedParts struct {
	kafka *servertest.KafkaBroker
	redis *servertest.RedisServer
	db    *servertest.MariaDBServer
	key   []byte // signs the tokens of all servers
}

func startShared(t *testing.T) *sharedParts {
	t.Helper()
	p := &sharedParts{kafka: servertest.Kafka(t), redis: servertest.Redis(t, "--appendonly", "yes", "--appendfsync", "always"), db: servertest.MariaDB(t)}
	c := registry.DefaultConfig()
	c.Address, c.Timeout = p.db.Address(), long
	r, err := registry.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p.key = r.Key()
	streams, err := chat.InventStreams(5)
	if err := errors.Join(err, r.AddStreams(streams), r.Close()); err != nil {
		t.Fatal(err)
	}
	return p
}

// server starts one of several servers.
func (p *sharedParts) server(t *testing.T) *fixture {
	t.Helper()
	return p.serverAt(t, "redis://"+p.redis.Addr(), long)
}

// serverAt is one that finds Redis at an address, and waits so long for an answer of it.
func (p *sharedParts) serverAt(t *testing.T, redis string, timeout time.Duration) *fixture {
	t.Helper()
	f := start(t, "", func(c *Config) {
		c.Cluster.Topics.Brokers = []string{p.kafka.Addr}
		c.Cluster.Broadcast.Address, c.Cluster.Broadcast.Timeout = redis, timeout
		c.Cluster.Registry.Address = p.db.Address()
		c.Cluster.Look, c.Cluster.Registry.Look = 20*time.Millisecond, 20*time.Millisecond
		c.Cluster.Registry.Timeout = long   // a busy machine's database answers
		c.Cluster.Rewind = 10 * time.Minute // all that a test has said
	})
	f.ready()
	return f
}

// ready waits until the server is.
func (f *fixture) ready() {
	f.t.Helper()
	for deadline := time.Now().Add(long); ; time.Sleep(10 * time.Millisecond) {
		response, err := http.Get("http://" + f.api + "/readyz")
		if err != nil {
			f.t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatal("it does not become ready")
		}
	}
}

// in is the server in another test.
func (f *fixture) in(t *testing.T) *fixture {
	t.Helper()
	g := *f
	g.t = t
	return &g
}

// One Kafka, Redis and MariaDB for all: they take seconds to start.
func TestServers(t *testing.T) {
	t.Parallel()
	parts := startShared(t)
	one, two := parts.server(t), parts.server(t)
	t.Run("the books are closed", func(t *testing.T) { closedBooks(t, one.in(t), two.in(t)) })
	t.Run("what is found is told to viewers", func(t *testing.T) { toldResults(t, parts, one.in(t)) })
	t.Run("summaries are asked for, and told", func(t *testing.T) { toldSummaries(t, parts, one.in(t), two.in(t)) })
	t.Run("accounts are another server's", func(t *testing.T) { otherAccounts(t, parts, one.in(t), two.in(t)) })
	t.Run("what was missed is shown once it can be read", func(t *testing.T) { missed(t, parts) })
	t.Run("they are one chat", func(t *testing.T) { oneChat(t, parts, one.in(t), two.in(t)) })
}

func oneChat(t *testing.T, parts *sharedParts, one, two *fixture) {
	t.Helper()
	noor, olga := one.join("Noor"), two.join("Olga")
	if noor.joined.Epoch != olga.joined.Epoch {
		t.Fatalf("the servers have the epochs %s and %s", noor.joined.Epoch, olga.joined.Epoch)
	}
	// One order for all, whichever server they are at.
	for i := range 5 {
		noor.send(fmt.Sprint(i), fmt.Sprint("noor ", i))
		noor.next("ack")
		olga.send(fmt.Sprint(i), fmt.Sprint("olga ", i))
		olga.next("ack")
	}
	noor.send("0", "noor 0") // again
	noor.next("ack")
	noor.send("last", "last")
	texts := noor.see(11)
	if other := olga.see(11); strings.Join(texts, "|") != strings.Join(other, "|") {
		t.Errorf("one sees %q, another %q", texts, other)
	}
	for i, m := range noor.messages {
		if m.Offset != uint64(i) {
			t.Errorf("message %d has the offset %d", i, m.Offset)
		}
	}
	// What one has not seen it has from the other server.
	back := two.join("Noor", "epoch", noor.joined.Epoch, "offset", "9")
	if got := back.see(2); !back.joined.Recovered || strings.Join(got, "|") != strings.Join(texts[9:], "|") {
		t.Errorf("who comes back elsewhere sees %q", got)
	}
	status, page := two.ask("GET", two.api+"/api/streams/1/messages?before=3", "", "")
	if messages, _ := page["messages"].([]any); status != http.StatusOK || len(messages) != 3 {
		t.Errorf("got %d %v", status, page)
	}
	for _, r := range [][2]string{{"POST", "/api/users"}, {"POST", "/api/session"}, {"GET", "/api/hosts/x"}, {"GET", "/api/streams/1/timeline"}} {
		body := ""
		if r[0] == "POST" {
			body = "{}"
		}
		if status, form := one.ask(r[0], one.api+r[1], "", body); status != http.StatusNotFound || !strings.Contains(fmt.Sprint(form), "not_here") {
			t.Errorf("%s %s: got %d %v", r[0], r[1], status, form)
		}
	}
	// A record that is none stops nobody.
	topicstest.Write(t, parts.kafka.Addr, topics.Raw, []byte("no message"))

	// Redis is killed: what is said is accepted, and shown once it is back, under another epoch.
	parts.redis.Kill()
	noor.send("meanwhile", "meanwhile")
	noor.next("ack")
	parts.redis.Start()
	noor.closed(websocket.CloseGoingAway)
	olga.closed(websocket.CloseGoingAway)
	one.ready()
	two.ready()
	again := two.join("Olga", "epoch", olga.joined.Epoch, "offset", "11")
	if again.joined.Epoch == olga.joined.Epoch || again.joined.Recovered {
		t.Errorf("after another epoch: got %+v", again.joined)
	}
	seen := again.see(12)
	if got := strings.Join(seen[:11], "|"); got != strings.Join(texts, "|") || seen[11] != "meanwhile" {
		t.Errorf("after another epoch one sees %q", seen)
	}
	again.send("after", "after")
	again.next("ack")
	if got := again.see(13); got[12] != "after" {
		t.Errorf("got %q", got)
	}

	// Who was killed between the ack and the place is made good by another: here, nobody placed it.
	raw := chat.Raw{Stream: 1, Message: chat.Message{At: time.Now().UnixMilli(), Sender: "guest-gone", Name: "Gone", ID: "x", Text: "acked by a server that is gone"}}
	topicstest.Write(t, parts.kafka.Addr, topics.Raw, raw.Append(nil))
	topicstest.Write(t, parts.kafka.Addr, topics.Raw, raw.Append(nil))
	again.send("end", "end")
	all := again.see(15)
	if got := strings.Join(all, "|"); strings.Count(got, "gone") != 1 {
		t.Errorf("got %q", got)
	}

	// A Redis that has forgotten everything is given it again, in whatever order.
	parts.redis.Flush()
	parts.redis.Kill()
	parts.redis.Start()
	again.closed(websocket.CloseGoingAway)
	one.ready()
	two.ready()
	seen = two.join("Olga").see(15)
	slices.Sort(seen)
	slices.Sort(all)
	if !slices.Equal(seen, all) {
		t.Errorf("what is shown again is %q, want %q", seen, all)
	}
}

// Who looks on from outside finds all that was acknowledged, at whichever server it looks.
func closedBooks(t *testing.T, one, two *fixture) {
	t.Helper()
	results, failed := make(chan reconcile.Result, 2), make(chan error, 2)
	for _, f := range []*fixture{one, two} {
		c := reconcile.DefaultConfig()
		c.URL, c.Streams, c.Viewers, c.Senders, c.Rate, c.For, c.AdminListen, c.MostSkipped = "http://"+f.api, []int64{2, 3}, 6, 4, 40, time.Second, "127.0.0.1:0", 0
		go func() {
			r, err := reconcile.Run(t.Context(), c)
			results <- r
			failed <- err
		}()
	}
	for range 2 {
		r := <-results
		if err := <-failed; err != nil || !r.Count.Balanced() {
			t.Errorf("got %v, %v, %v", r.Count, r.Wrong, err)
		}
	}
}

// The server loses its subscription, something is said elsewhere, and Redis does not answer for longer than the server waits: the
// last message comes, though none follows it.
func missed(t *testing.T, parts *sharedParts) {
	t.Helper()
	one := parts.serverAt(t, "redis://"+parts.redis.Addr(), broadcast.DefaultConfig().Timeout)
	noor := one.join("Noor", "stream", "3")
	c := broadcast.DefaultConfig()
	c.Address, c.Timeout = "redis://"+parts.redis.Addr(), long
	elsewhere, err := broadcast.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	parts.redis.Command("CLIENT", "KILL", "TYPE", "pubsub")
	m := chat.Raw{Stream: 3, Message: chat.Message{At: time.Now().UnixMilli(), Sender: "guest-a", Name: "A", ID: "missed", Text: "the last"}}
	if p := elsewhere.Place(t.Context(), []*chat.Raw{&m})[0]; p.Err != nil {
		t.Fatal(p.Err)
	}
	parts.redis.Command("CLIENT", "PAUSE", "5000", "WRITE") // scripts among them
	for !slices.Contains(noor.see(len(noor.messages)+1), "the last") {
	}
}

func toldResults(t *testing.T, parts *sharedParts, one *fixture) {
	t.Helper()
	noor := one.join("Noor")
	for _, bad := range []string{"", "{}", `{"stream":99,"type":"totals"}`, `{"stream":1,"type":"joined"}`} {
		topicstest.Write(t, parts.kafka.Addr, topics.Analysis, []byte(bad))
	}
	lagging(t, parts, one)
	result := `{"stream":1,"type":"totals","next":3,"labels":{"praise":1,"criticism":0,"laughter":2,"question":0,"advice":0},"deleted":0,"dead":0}`
	// The server hears from when it has asked where the end of the topic is.
	told := make(chan told, 1)
	go func() { told <- noor.next("totals") }()
	for wrote := false; ; wrote = true {
		topicstest.Write(t, parts.kafka.Addr, topics.Analysis, []byte(result))
		select {
		case got := <-told:
			if got.Next != 3 {
				t.Errorf("got %+v", got)
			}
			_, form := one.ask("GET", one.api+"/api/streams/1/analysis", "", "")
			totals, err := json.Marshal(form["totals"])
			if err != nil || !strings.Contains(string(totals), `"laughter":2`) {
				t.Errorf("got %s, %v", totals, err)
			}
			return
		case <-time.After(100 * time.Millisecond):
			if wrote && t.Failed() {
				return
			}
		}
	}
}

// How far the analysis is behind is by what viewers are told of it, wherever the others wait.
func lagging(t *testing.T, parts *sharedParts, one *fixture) {
	t.Helper()
	noor := one.join("Noor", "stream", "5")
	for i := range 3 {
		noor.send(fmt.Sprint(i), "something")
	}
	noor.see(3)
	for next := 1; next <= 4; next++ {
		want, found := fmt.Sprint(max(0, 3-next)), ""
		for deadline := time.Now().Add(long); found != want; {
			if time.Now().After(deadline) {
				t.Fatalf("the analysis is %q behind, want %s", found, want)
			}
			topicstest.Write(t, parts.kafka.Addr, topics.Analysis, fmt.Appendf(nil, `{"stream":5,"type":"totals","next":%d}`, next))
			response, err := http.Get("http://" + one.admin + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if m := regexp.MustCompile(`(?m)^chat_analysis_lag_messages (.*)$`).FindSubmatch(text); m != nil {
				found = string(m[1])
			}
		}
	}
}

// Who signs up and in does so at a server of accounts, and is known at all chat servers, also while there is neither
// that server nor the database.
func otherAccounts(t *testing.T, parts *sharedParts, one, two *fixture) {
	t.Helper()
	accounts := startAs(t, "", func(ctx context.Context, c Config, logger *slog.Logger) error {
		return RunAccounts(ctx, Accounts{c}, logger)
	}, func(c *Config) {
		c.Cluster.Registry.Address, c.Cluster.Registry.Timeout = parts.db.Address(), long
	})
	p := accounts.person()
	p.want(202, "sign in", "POST /api/users", `{"email":"ada@show.example","password":"`+password+`","name":"Ada"}`)
	p.take(p.want(201, `"role":"member"`, "POST /api/session", signInForm("Ada")))
	p.want(404, "no_such_path", "POST /api/guest", `{"name":"Noor"}`)
	p.want(200, `"provider":""`, "GET /api/ways", "")
	at := func(f *fixture) *person {
		return &person{f: f, token: p.token, user: p.user, cookies: map[string]string{}}
	}
	const stream = "4"
	at(one).want(200, `"name":"Ada"`, "GET /api/me", "")
	ada, olga := at(one).join(stream), two.join("Olga", "stream", stream)
	if ada.joined.User != p.user {
		t.Errorf("she joined as %+v", ada.joined)
	}
	ada.send("hello", "hello")
	ada.next("ack")
	for olga.see(len(olga.messages) + 1); olga.messages[len(olga.messages)-1].Sender != p.user; {
		olga.see(len(olga.messages) + 1)
	}
	if m := olga.messages[len(olga.messages)-1]; m.Name != "Ada" || m.Text != "hello" {
		t.Errorf("another server shows %+v", m)
	}
	parts.db.Kill()
	late := at(two).join(stream)
	p.want(503, "accounts", "POST /api/session", signInForm("Ada"))
	parts.db.Start()
	p.take(p.want(200, p.user, "POST /api/session/refresh", ""))
	tokens := chat.NewTokens(parts.key, time.Hour)
	user, err := tokens.Check(p.token)
	if err != nil {
		t.Fatal(err)
	}
	p.want(204, "", "DELETE /api/session", "")
	ada.expired()
	late.expired()
	at(one).want(401, "bad_token", "GET /api/me", "")
	// What has ended does not begin again when the database cannot be asked, nor at a server that started since.
	three := parts.server(t)
	parts.db.Kill()
	for name, f := range map[string]*fixture{"a server that saw it": one, "one that started later": three} {
		entry, err := tokens.SignEntry(&user, 4) // as she had it before: none is good for long
		if err != nil {
			t.Fatal(err)
		}
		if _, status, err := f.dialOnce(url.Values{"stream": {stream}, "token": {entry}}, nil); status != http.StatusServiceUnavailable {
			t.Errorf("%s: who had signed out before the database was away joins with %d, %v", name, status, err)
		}
	}
	parts.db.Start()
	if err := accounts.stop(); err != nil {
		t.Error(err)
	}
}

// Every hundredth message one server asks for a summary of those that are there; what comes back viewers are told,
// and who comes later is shown.
func toldSummaries(t *testing.T, parts *sharedParts, one, two *fixture) {
	t.Helper()
	const stream = 4 // of which nobody speaks but here
	for i := range analysis.SummaryEvery {
		raw := chat.Raw{Stream: stream, Message: chat.Message{At: time.Now().UnixMilli(), Sender: "guest-much", Name: "Noor", ID: fmt.Sprint(i), Text: fmt.Sprint("<", i, ">")}}
		topicstest.Write(t, parts.kafka.Addr, topics.Raw, raw.Append(nil))
	}
	var request struct {
		Stream   int64          `json:"stream"`
		Messages []chat.Message `json:"messages"`
	}
	asked := topicstest.Read(t, parts.kafka.Addr, topics.Requests, 1)
	if err := json.Unmarshal(asked[0].Value, &request); err != nil || len(asked) != 1 || request.Stream != stream || len(request.Messages) != analysis.SummaryEvery {
		t.Fatalf("%d were asked for; the first is %.2000s, %v", len(asked), asked[0].Value, err)
	}
	for i, m := range request.Messages {
		if m.Offset != uint64(i) || m.Name != "Noor" || !strings.HasPrefix(m.Text, "<") {
			t.Errorf("message %d is %+v", i, m)
		}
	}
	noor := one.join("Noor", "stream", fmt.Sprint(stream))
	for _, bad := range []string{"", "{}", `{"stream":4,"type":"totals"}`} {
		topicstest.Write(t, parts.kafka.Addr, topics.Summaries, []byte(bad))
	}
	if status, form := two.ask("GET", two.api+"/api/streams/4/analysis", "", ""); status != http.StatusOK || form["summary"] != nil {
		t.Errorf("before there is one: got %d %v", status, form)
	}
	heard := make(chan told, 1)
	go func() { heard <- noor.next("summary") }()
	for {
		topicstest.Write(t, parts.kafka.Addr, topics.Summaries, []byte(`{"stream":4,"type":"summary","from":0,"next":100,"lines":[{"offset":7,"name":"Noor","text":"<7>"}],"text":""}`))
		select {
		case got := <-heard:
			status, form := two.ask("GET", two.api+"/api/streams/4/analysis", "", "") // its own server keeps it before it tells
			if summary, _ := form["summary"].(map[string]any); got.Next != 100 || status != http.StatusOK || summary["next"] != 100.0 {
				t.Errorf("one hears %+v, and another is shown %d %v", got, status, form)
			}
			return
		case <-time.After(100 * time.Millisecond): // it hears from when it has asked where the end of the topic is
			if t.Failed() {
				return
			}
		}
	}
}

// sentinel starts one that makes a replica the primary once it takes that for down, see down, and returns its host and port.
func sentinel(t *testing.T, primary *servertest.RedisServer) string {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	dir, own := t.TempDir(), servertest.Host()
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("bind %s\nport 26379\ndir %s\nprotected-mode no\nsentinel monitor chat %s %s 1\nsentinel down-after-milliseconds chat 600000\nsentinel failover-timeout chat 10000\n", own, dir, host, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		servertest.Missing(t, "Redis is not installed: apt-get install redis-server")
	}
	address := net.JoinHostPort(own, "26379")
	servertest.New(t, servertest.Program{
		Command: []string{path, file, "--sentinel"}, Dir: dir, Log: filepath.Join(dir, "log"),
		Ready: func(ctx context.Context) error {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", address)
			if err == nil {
				err = conn.Close()
			}
			return err
		},
	}).Start()
	return address
}

// down has a sentinel take a primary for down that does not answer for three seconds. Before, one that merely stood still
// is none. A replica that has not heard of its primary for ten times as long is not made the primary.
func down(t *testing.T, sentinel string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", sentinel, long)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(long))
	if _, err := io.WriteString(conn, "SENTINEL SET chat down-after-milliseconds 3000\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := bufio.NewReader(conn).ReadString('\n'); err != nil || answer != "+OK\r\n" {
		t.Fatalf("the sentinel answers %q, %v", answer, err)
	}
}

// The primary of Redis is killed for good: a sentinel makes its replica the primary, under another epoch. What was said
// meanwhile is accepted, and viewers who come back see all of it.
func TestAReplicaOfRedisTakesOver(t *testing.T) {
	t.Parallel()
	parts := startShared(t)
	host, port, err := net.SplitHostPort(parts.redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := servertest.Redis(t, "--repl-diskless-sync-delay", "0")
	own, _, err := net.SplitHostPort(replica.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica.Command("CONFIG", "SET", "replica-announce-ip", own) // it connects from another of this machine's
	replica.Command("REPLICAOF", host, port)
	for deadline := time.Now().Add(long); !strings.Contains(replica.Command("INFO", "replication"), "master_link_status:up"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the replica does not reach the primary")
		}
	}
	watches := sentinel(t, parts.redis)
	one := parts.serverAt(t, "redis-sentinel://"+watches+"/chat", long)
	noor := one.join("Noor")
	for i := range 5 {
		noor.send(fmt.Sprint(i), fmt.Sprint("noor ", i))
		noor.next("ack")
	}
	before := noor.see(5)
	parts.redis.Kill()
	noor.send("meanwhile", "meanwhile")
	noor.next("ack")
	down(t, watches)
	noor.closed(websocket.CloseGoingAway)
	one.ready()
	again := one.join("Noor", "epoch", noor.joined.Epoch, "offset", "5")
	if again.joined.Epoch == noor.joined.Epoch || again.joined.Recovered {
		t.Errorf("after another epoch: got %+v", again.joined)
	}
	seen, want := again.see(6), slices.Concat(before, []string{"meanwhile"})
	slices.Sort(seen) // what the replica did not have yet has its place anew
	slices.Sort(want)
	if !slices.Equal(seen, want) {
		t.Errorf("after another epoch one sees %q, want %q", seen, want)
	}
	again.send("after", "after")
	again.next("ack")
	if got := again.see(7); got[6] != "after" {
		t.Errorf("got %q", got)
	}
}

func TestAClusterNeedsAllItsAddresses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"redis without kafka":    func(c *Config) { c.Cluster.Broadcast.Address = "redis://a" },
		"kafka without the rest": func(c *Config) { c.Cluster.Topics.Brokers = []string{"a:1"} },
	} {
		c := DefaultConfig()
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s: it is valid", name)
		}
	}
}
