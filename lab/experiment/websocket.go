package experiment

import (
	"slices"
	"strings"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

const (
	// messageID is the one placeholder of a WebSocket message.
	messageID = "{id}"

	defaultMessageRate    = 1   // per second: somebody who types
	defaultConnectRate    = 500 // per second: below what a kernel's default backlogs bear
	defaultReconnectAfter = time.Second
	defaultReconnectMost  = 30 * time.Second
	defaultSlowRate       = 1000 // bytes per second: a telephone at the edge of its cell
)

// websocket reads what a WebSocket client does: its path, or path and more.
func (f field) websocket(scenario *Scenario) *WebSocket {
	to := &WebSocket{ConnectRate: defaultConnectRate, Deliver: load.DeliverNone, Arrivals: load.Poisson}
	if !f.given() {
		return to
	}
	if f.n.kind != mapping {
		if to.Path = f.text(); to.Path != "" {
			f.socketPath(to.Path)
		}
		return to
	}
	s := f.section(f.n, f.place, "websocket", f.example)
	if s == nil {
		return to
	}
	s.hints = map[string]hint{"url": {"write path: /chat", "path"}}
	path := s.need("path", "path: /chat")
	if to.Path = path.text(); to.Path != "" {
		path.socketPath(to.Path)
	}
	if h := s.may("headers", "headers: {Authorization: Bearer x}"); h.given() {
		to.Headers = h.headers()
		h.socketHeaders()
	}
	to.Subprotocols = s.may("subprotocols", "subprotocols: [chat.v1]").tokens()
	if r := s.may("connectRate", "connectRate: 500/s"); r.given() {
		to.ConnectRate = r.socketRate()
	}
	to.Reconnect = s.may("reconnect", "reconnect: {after: 1s, most: 30s}").reconnect()
	s.messages(to, scenario.most())
	s.slow(to, scenario.most())
	s.done()
	return to
}

// most is the most virtual users that the scenario has at once; 0 if that was
// not read.
func (s *Scenario) most() int {
	most := max(s.VUs, s.StartVUs)
	for _, stage := range s.Stages {
		most = max(most, int(stage.Target))
	}
	return most
}

// socketPath checks the path of a WebSocket, which has no placeholders.
func (f field) socketPath(path string) {
	if name := placeholderForm.FindString(path); name != "" {
		f.errorf(f.n, "the path of a WebSocket has no placeholders, and %s looks like one; write the path out", name)
		return
	}
	if _, rest, found := strings.Cut(path, "://"); found {
		_, rest, _ = strings.Cut(rest, "/")
		f.errorf(f.n, "the path names a host; write only the path, /%s: the host is the entry service", rest)
		return
	}
	f.path(f.n, path)
}

// socketHeaders refuses what only the handshake itself may say.
func (f field) socketHeaders() {
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

// tokens reads subprotocols: a list, or one.
func (f field) tokens() []string {
	if !f.given() {
		return nil
	}
	var out []string
	for _, item := range f.values() {
		name := item.text()
		switch {
		case name == "":
		case !fieldNameForm.MatchString(name):
			f.errorf(item.n, "%s cannot name a subprotocol; write letters, digits, dots and dashes, such as chat.v1", spelling.Quote(name))
		case slices.Contains(out, name):
			f.errorf(item.n, "the subprotocol %s is there twice; write it once", spelling.Quote(name))
		default:
			out = append(out, name)
		}
	}
	return out
}

// socketRate reads a rate of messages or of connections, within the bounds of
// the load generator.
func (f field) socketRate() Rate {
	const least, most = 1e-6, 1e6
	v := f.positiveRate(timeUnit{})
	if v > most || v > 0 && v < least {
		f.errorf(f.n, "%s must be from 1 in eleven days to %d/s, not %s; write %s", f.key, int(most), f.n.text, f.example)
	}
	return v
}

// messages reads what is sent, by whom, how often and to whom. most is how
// many clients there are; 0 if that was not read.
func (s *section) messages(to *WebSocket, most int) {
	message, rate := s.may("message", `message: '{"id": "{id}", "text": "hello"}'`), s.may("rate", "rate: 1/s")
	senders, deliver := s.may("senders", "senders: 10"), s.may("deliver", "deliver: all")
	arrivals := s.may("arrivals", "arrivals: poisson")
	if message.n == nil {
		for _, f := range []field{rate, senders, deliver, arrivals} {
			if f.n != nil {
				s.errorf(f.place, "without a message nothing is sent, so %s has no use; write message: '{id}', or remove it", f.key)
			}
		}
		return
	}
	to.Deliver, to.Rate, to.Senders = load.DeliverEcho, defaultMessageRate, most
	if message.n.kind == mapping || message.n.kind == list {
		message.wrong("text")
	} else {
		to.Message = message.text()
	}
	if rate.given() {
		to.Rate = rate.socketRate()
	}
	if arrivals.given() {
		to.Arrivals = arrivals.oneOf(load.Poisson, load.Uniform)
	}
	if deliver.given() {
		to.Deliver = deliver.oneOf(load.DeliverEcho, load.DeliverAll, load.DeliverNone)
	}
	to.Senders = senders.clients(to.Senders, most)
	for _, name := range placeholderForm.FindAllString(to.Message, -1) {
		if name != messageID {
			s.errorf(message.n, "a message has no placeholder but {id}, and %s looks like one; write the value out, or spaces within its braces", name)
			break
		}
	}
	if to.Message != "" && to.Deliver != load.DeliverNone && to.Deliver != "" && !strings.Contains(to.Message, messageID) {
		s.errorf(message.n, "deliver: %s looks for the message where it arrives, and this one has no {id} to know it by; write {id} in it, or deliver: none", to.Deliver)
	}
}

// clients reads a number of the scenario's clients, of which there are most.
func (f field) clients(otherwise, most int) int {
	if !f.given() {
		return otherwise
	}
	before := len(f.errs)
	n := int(f.whole(1, maxVUs))
	if len(f.errs) == before && most > 0 && n > most {
		f.errorf(f.n, "%s %d is more than the scenario has clients; write %d or less, or more virtual users", f.key, n, most)
	}
	return n
}

// reconnect reads how a client comes back.
func (f field) reconnect() *Reconnect {
	if !f.given() {
		return nil
	}
	r := &Reconnect{After: defaultReconnectAfter, Most: defaultReconnectMost}
	s := f.section(f.n, f.place, "reconnect", f.example)
	if s == nil {
		return r
	}
	after, most := s.may("after", "after: 1s"), s.may("most", "most: 30s")
	before := len(s.errs)
	if after.given() {
		r.After = after.duration(time.Millisecond)
		r.Most = max(r.Most, r.After)
	}
	if most.given() {
		r.Most = most.duration(time.Millisecond)
		if r.After > r.Most && !after.given() {
			r.After = r.Most
		}
	}
	s.done()
	if len(s.errs) == before && r.After > r.Most {
		s.errorf(most.n, "the longest pause, %s, is shorter than the first, %s; write most: %s or more", r.Most, r.After, r.After)
	}
	return r
}

// slow reads which clients read slowly.
func (s *section) slow(to *WebSocket, most int) {
	clients, rate := s.may("slowClients", "slowClients: 10"), s.may("slowRate", "slowRate: 1000/s")
	if clients.n == nil {
		if rate.n != nil {
			s.errorf(rate.place, "slowRate is about slowClients, and there are none; write slowClients: 10 too, or remove it")
		}
		return
	}
	to.SlowClients, to.SlowRate = clients.clients(0, most), defaultSlowRate
	if rate.given() {
		if to.SlowRate = rate.positiveRate(timeUnit{}); to.SlowRate > 0 && to.SlowRate < 1 {
			s.errorf(rate.n, "slowRate %s is less than a byte per second; write slowRate: 1/s or more", rate.n.text)
		}
	}
}
