package experiment

import (
	"slices"
	"strings"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

// WebSocket is what a WebSocket client does, in full.
type WebSocket struct {
	// The path and query that it connects to, such as /chat?room=1.
	Path string `key:"path,need" eg:"/chat" form:"socket"`
	// Header fields of the handshake, by name.
	Headers map[string]string `key:"headers" eg:"{Authorization: Bearer x}" list:"a mapping" names:"header"`
	// The subprotocols that it offers, best first.
	Subprotocols []string `key:"subprotocols" eg:"[chat.v1]" lone:""`

	// What a client sends, as text. {id} in it is replaced by the message's id,
	// by which it is known again where it arrives. Without a message clients
	// only listen.
	Message string `key:"message" eg:"'{\"id\": \"{id}\", \"text\": \"hello\"}'"`
	// How many messages each sending client sends: 5/s, 300/m or 1/h.
	Rate Rate `key:"rate" eg:"1/s" default:"1/s" beside:"message"`
	// poisson spaces messages as independent people do; uniform spaces them
	// evenly.
	Arrivals string `key:"arrivals" eg:"poisson" default:"poisson" beside:"message" enum:"poisson|uniform"`
	// How many of the clients send, the first of them: all if not given.
	Senders int `key:"senders" eg:"10" beside:"message" max:"100000" min:"1"`
	// Where a message must arrive: at the client that sent it (echo), at every
	// client that was connected (all), or nowhere (none). Each delivery is one
	// latency. echo if there is a message.
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

// Reconnect says how long a client waits before it connects again.
type Reconnect struct {
	// The first pause, which doubles with each try that fails.
	After time.Duration `key:"after" eg:"1s" default:"1s" min:"1ms"`
	// The longest pause.
	Most time.Duration `key:"most" eg:"30s" default:"30s" min:"1ms"`
}

const (
	// messageID is the one placeholder of a WebSocket message.
	messageID = "{id}"
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
}

// checkMessage checks what is sent, and to whom.
func (w *WebSocket) checkMessage(s *section) {
	message := s.fields["message"]
	if message.n == nil {
		w.Deliver, w.Arrivals = load.DeliverNone, load.Poisson
		for _, f := range s.given("rate", "senders", "deliver", "arrivals") {
			s.errorf(f.place, "without a message nothing is sent, so %s has no use; write message: '{id}', or remove it", f.key)
		}
		return
	}
	if !s.fields["deliver"].given() {
		w.Deliver = load.DeliverEcho
	}
	for _, name := range placeholderForm.FindAllString(w.Message, -1) {
		if name != messageID {
			s.errorf(message.n, "a message has no placeholder but {id}, and %s looks like one; write the value out, or spaces within its braces", name)
			break
		}
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

// socketPath reads the path of a WebSocket, which has no placeholders.
func (f field) socketPath() string {
	path := f.text()
	if name := placeholderForm.FindString(path); name != "" {
		f.errorf(f.n, "the path of a WebSocket has no placeholders, and %s looks like one; write the path out", name)
		return path
	}
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
		case placeholderForm.MatchString(p.value.text):
			f.errorf(p.value, "the header %s of a WebSocket has no placeholders; write the value out", p.key.text)
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
