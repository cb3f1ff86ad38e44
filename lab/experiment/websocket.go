package experiment

import (
	"slices"
	"strings"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

// WebSocket is what a WebSocket client does, in full. {name} in the path, a header value,
// room, hello and message takes a value of the feed of that name, or what login
// extracted under it: one for each client, and another when it has left and joins again.
type WebSocket struct {
	// A request that each client makes once, before it connects for the first time, and
	// what is taken from its answer.
	Login *Login `key:"login" eg:"{request: POST /login, extract: {token: token}}"`
	// The path and query that it connects to, such as /chat?room={room}.
	Path string `key:"path,need" eg:"/chat" form:"socket"`
	// Header fields of the handshake, by name.
	Headers map[string]string `key:"headers" eg:"{Authorization: Bearer x}" list:"a mapping" names:"header"`
	// The subprotocols that it offers, best first.
	Subprotocols []string `key:"subprotocols" eg:"[chat.v1]" lone:""`

	// What a client is in: with deliver: all a message must arrive at those whose room is
	// the same text. If not given, all are in one.
	Room string `key:"room" eg:"'{room}'"`
	// What a client sends once, when it has connected.
	Hello string `key:"hello" eg:"'{\"type\": \"join\"}'"`
	// What is in the message by which the server tells a client that it has joined: from
	// then on what is sent to all is due at it. If not given, that is so half a second
	// after the handshake.
	Joined string `key:"joined" eg:"'\"type\":\"joined\"'"`
	// How long a client stays before it leaves and joins again: 1m, or [30s, 2m] to draw it
	// between the two. If not given, it stays to the end.
	Lifetime Think `key:"lifetime" eg:"[30s, 2m]"`
	// How often a client sends a ping frame, whose answer is timed as ws_ping.
	Ping time.Duration `key:"ping" eg:"10s" min:"1ms"`

	// What a client sends, as text. {id} in it is replaced by the message's id,
	// by which it is known again where it arrives. Without a message clients
	// only listen.
	Message string `key:"message" eg:"'{\"id\": \"{id}\", \"text\": \"hello\"}'"`
	// What is in the message by which the server tells a sender that it has accepted a
	// message: the id in it says which, and it is no delivery. It is timed as
	// ws_ack_duration.
	Ack string `key:"ack" eg:"'\"type\":\"ack\"'" beside:"message"`
	// What is in the message by which the server tells a sender that it has not.
	Refused string `key:"refused" eg:"'\"type\":\"error\"'" beside:"ack"`
	// What is in the message by which the server tells a client how many messages it left
	// out for it, with {count} for the number. So many that do not arrive count as
	// skipped and not as lost.
	Skipped string `key:"skipped" eg:"'\"type\":\"skipped\",\"count\":{count}'" beside:"message"`
	// How many messages each sending client sends: 5/s, 300/m or 1/h.
	Rate Rate `key:"rate" eg:"1/s" default:"1/s" beside:"message"`
	// poisson spaces messages as independent people do; uniform spaces them
	// evenly.
	Arrivals string `key:"arrivals" eg:"poisson" default:"poisson" beside:"message" enum:"poisson|uniform"`
	// How many of the clients send, the first of them: all if not given.
	Senders int `key:"senders" eg:"10" beside:"message" max:"100000" min:"1"`
	// Where a message must arrive: at the client that sent it (echo), at every
	// client of its room that had joined (all), or nowhere (none). Each delivery is one
	// latency. Who was thrown out is due what is sent until it is back. echo if there is
	// a message.
	Deliver string `key:"deliver" eg:"all" beside:"message" enum:"echo|all|none"`

	// How many connections are opened per second at most.
	ConnectRate Rate `key:"connectRate" eg:"500/s" default:"500/s"`
	// Has a client whose connection ends open another after a pause; {} for the
	// usual pauses. Without it the client stays away.
	Reconnect *Reconnect `key:"reconnect" eg:"{after: 1s, most: 30s}"`

	// How many of the clients, the last of them, read slowly.
	SlowClients int `key:"slowClients" eg:"10" max:"100000" min:"1"`
	// How many bytes a slow client reads per second: 1000/s.
	SlowRate Rate `key:"slowRate" eg:"1000/s" default:"1000/s" beside:"slowClients"`
}

// Login is a request whose answer has values that a client needs.
type Login struct {
	// The request: "POST /path", or method, path, headers and body, with placeholders of
	// feeds.
	Request Request `key:"request,need" eg:"POST /login" each:"the request"`
	// Values to take from the answer, by the name of their placeholder: a path into a
	// JSON body, {json: path}, or {header: Name}.
	Extract map[string]Extract `key:"extract" eg:"{token: user.token}" each:"what is extracted" list:"a mapping from names to paths" names:"placeholder"`
}

// Reconnect says how long a client waits before it connects again.
type Reconnect struct {
	// The first pause, which doubles with each try that fails.
	After time.Duration `key:"after" eg:"1s" default:"1s" min:"1ms"`
	// The longest pause.
	Most time.Duration `key:"most" eg:"30s" default:"30s" min:"1ms"`
	// What a client that comes back tells the server of what it has seen, by the name of a
	// placeholder in path, headers or hello: in which text of a received message the value
	// is, with {value} for it, or {value+1} for one more than the whole number there. Of
	// several texts the last one received counts; until there is one the placeholder is
	// empty.
	Recover map[string]Marks `key:"recover" eg:"{offset: '\"offset\":{value+1},'}" each:"what is recovered" list:"a mapping from names to texts" names:"placeholder"`
	// Whether a client that comes back sends again, with the same {id}, what has no ack: for
	// servers that take a message once by its id. Without it that is lost.
	Resend bool `key:"resend" eg:"true" default:"false"`
}

// Marks are texts in which a value is.
type Marks []string

func (to *Marks) read(f field) {
	items := []*node{f.n}
	if f.n.kind == list {
		items = f.n.items
	}
	if len(items) == 0 {
		f.wrong("a text")
	}
	for _, n := range items {
		item := f.item(f.key, n)
		if !item.given() {
			continue
		}
		text := item.string()
		before, after, found := strings.Cut(text, load.RecoverValue)
		if !found {
			before, after, found = strings.Cut(text, load.RecoverNext)
		}
		if text != "" && (!found || before == "" || after == "") {
			f.errorf(n, "recover says between which texts a value is, and %s does not; write {value} or {value+1} between them, such as '\"offset\":{value+1},'", spelling.Quote(text))
		}
		*to = append(*to, text)
	}
}

func (*Marks) describe(*generator, tag) *schema {
	one := &schema{Type: "string", Pattern: `.\{value(\+1)?\}.`}
	return either(one, &schema{Type: "array", Items: one, MinItems: count64(1)})
}

const (
	// messageID is the placeholder of a WebSocket message that no feed supplies.
	messageID = "{id}"
	// skipCount stands for the number in a message that announces what was left out.
	skipCount = "{count}"
	// Bounds of the load generator on what it does per second.
	minSocketRate = 1e-6
	maxSocketRate = 1e6
)

// short reads a path.
func (w *WebSocket) short(f field) bool {
	if f.n.kind == mapping {
		return false
	}
	fillIn(w)
	w.Path = f.socketPath()
	return true
}

func (*WebSocket) prepare(s *section) {
	s.hints = map[string]hint{"url": {"write path: /chat", "path"}}
}

func (w *WebSocket) check(s *section) {
	s.fields["headers"].checkHeaders()
	s.fields["headers"].checkSocketHeaders()
	s.fields["subprotocols"].checkTokens()
	for _, f := range s.given("rate", "connectRate") {
		if v := map[string]Rate{"rate": w.Rate, "connectRate": w.ConnectRate}[f.key]; v > maxSocketRate || v > 0 && v < minSocketRate {
			s.errorf(f.n, "%s must be from 1 in eleven days to %d/s, not %s; write %s", f.key, int(maxSocketRate), f.n.text, f.example)
		}
	}
	if f := s.fields["slowRate"]; w.SlowRate > 0 && w.SlowRate < 1 {
		s.errorf(f.n, "slowRate %s is less than a byte per second; write slowRate: 1/s or more", f.n.text)
	}
	for _, f := range s.given("slowRate") {
		if !s.has("slowClients") {
			s.errorf(f.place, "slowRate is about slowClients, and there are none; write slowClients: 10 too, or remove it")
		}
	}
	w.checkMessage(s)
	w.checkAnswers(s)
}

// checkAnswers checks by what the server's own messages are known.
func (w *WebSocket) checkAnswers(s *section) {
	if f := s.fields["refused"]; f.given() && !s.has("ack") {
		s.errorf(f.place, "refused is beside ack: a message is accepted or refused; write ack too, or remove it")
	}
	if p, ok := s.n.pair("reconnect", "resend"); ok && !s.has("ack") {
		s.errorf(p.key, "resend is of what has no ack, and none is waited for; write ack too, or remove it")
	}
	if f := s.fields["ack"]; w.Ack != "" && w.Message != "" && !strings.Contains(w.Message, messageID) {
		s.errorf(f.place, "ack is for the id in it, and the message has no {id}; write {id} in it, or remove ack")
	}
	if f := s.fields["skipped"]; f.given() && w.Skipped != "" {
		if before, _, found := strings.Cut(w.Skipped, skipCount); !found || before == "" {
			s.errorf(f.n, "skipped says by which text before it a number is known, such as %s; write {count} after that text", f.example)
		}
	}
	if f := s.fields["room"]; f.given() && w.Room != "" && w.Deliver != load.DeliverAll {
		s.errorf(f.place, "room is for deliver: all, and this is deliver: %s; write deliver: all, or remove it", w.Deliver)
	}
}

// checkMessage checks what is sent, and to whom.
func (w *WebSocket) checkMessage(s *section) {
	message := s.fields["message"]
	if message.n == nil {
		w.Deliver, w.Arrivals = load.DeliverNone, load.Poisson
		for _, f := range s.given("rate", "senders", "deliver", "arrivals", "ack", "skipped") {
			s.errorf(f.place, "without a message nothing is sent, so %s has no use; write message: '{id}', or remove it", f.key)
		}
		return
	}
	if !s.fields["deliver"].given() {
		w.Deliver = load.DeliverEcho
	}
	if w.Message != "" && w.Deliver != load.DeliverNone && w.Deliver != "" && !strings.Contains(w.Message, messageID) {
		s.errorf(message.n, "deliver: %s looks for the message where it arrives, and this one has no {id} to know it by; write {id} in it, or deliver: none", w.Deliver)
	}
}

// checkClients checks how many of a scenario's clients send, and how many read
// slowly.
func (sc *Scenario) checkClients(s *section) {
	most := max(sc.VUs, sc.StartVUs)
	for _, stage := range sc.Stages {
		most = max(most, int(stage.Target))
	}
	if sc.WebSocket.Message != "" && sc.WebSocket.Senders == 0 {
		sc.WebSocket.Senders = most
	}
	for key, n := range map[string]int{"senders": sc.WebSocket.Senders, "slowClients": sc.WebSocket.SlowClients} {
		if p, ok := s.n.pair("websocket", key); ok && most > 0 && n > most {
			s.errorf(p.value, "%s %d is more than the scenario has clients; write %d or less, or more virtual users", key, n, most)
		}
	}
}

// checkValues checks the placeholders of what a client says against the feeds and what
// its login extracts.
func (sc *Scenario) checkValues(s *section) {
	f := s.fields["websocket"]
	if !f.sound {
		return
	}
	it := socketOf(sc, s, f.n)
	s.fields["feed"].checkUsed(s.match(it, sc.Feed), sc.Feed)
	s.checkExtracted(it)
	s.checkRecovered(it)
}

// socketPath reads the path of a WebSocket.
func (f field) socketPath() string {
	path := f.text()
	if _, rest, found := strings.Cut(path, "://"); found {
		_, rest, _ = strings.Cut(rest, "/")
		f.errorf(f.n, "the path names a host; write only the path, /%s: the host is the entry service", rest)
		return path
	}
	if path != "" {
		f.checkPath(path)
	}
	return path
}

// checkSocketHeaders refuses what only the handshake itself may say.
func (f field) checkSocketHeaders() {
	if !f.given() {
		return
	}
	for _, p := range f.n.pairs {
		name := strings.ToLower(p.key.text)
		switch {
		case name == "sec-websocket-protocol":
			f.errorf(p.key, "the load generator writes %s itself; write subprotocols", p.key.text)
		case strings.HasPrefix(name, "sec-websocket-"):
			f.errorf(p.key, "the load generator writes %s itself; remove it", p.key.text)
		}
	}
}

// checkTokens refuses subprotocols that are none, or there twice.
func (f field) checkTokens() {
	if !f.given() {
		return
	}
	var seen []string
	items := f.n.items
	if f.n.kind != list {
		items = []*node{f.n}
	}
	for _, n := range items {
		switch {
		case n.kind != text || n.text == "":
		case !fieldNameForm.MatchString(n.text):
			f.errorf(n, "%s cannot name a subprotocol; write letters, digits, dots and dashes, such as chat.v1", spelling.Quote(n.text))
		case slices.Contains(seen, n.text):
			f.errorf(n, "the subprotocol %s is there twice; write it once", spelling.Quote(n.text))
		}
		seen = append(seen, n.text)
	}
}

func (r *Reconnect) check(s *section) {
	after, most := s.fields["after"], s.fields["most"]
	switch {
	case after.given() && !most.given():
		r.Most = max(r.Most, r.After)
	case most.given() && !after.given():
		r.After = min(r.After, r.Most)
	case after.sound && most.sound && r.After > r.Most:
		s.errorf(most.n, "the longest pause, %s, is shorter than the first, %s; write most: %s or more", r.Most, r.After, r.After)
	}
}

func (*WebSocket) shortSchema() *schema { return &schema{Type: "string", Pattern: pathPattern} }
