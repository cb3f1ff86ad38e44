package load

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"loadstone/lab/load/feed"
)

// content checks what a scenario sends.
func (p *problems) content(s *Scenario) {
	switch {
	case s.WebSocket != nil:
		p.checkf(s.Executor == ConstantVUs || s.Executor == RampingVUs, "websocket: executor %s: use %s or %s, whose virtual users are the clients", s.Executor, ConstantVUs, RampingVUs)
		p.checkf(len(s.Steps) == 0, "websocket: it has steps as well: leave one of them out")
		p.websocket(s)
		return
	case s.Executor == Replay:
		p.checkf(len(s.Steps) == 0, "steps: a replay sends what its log says: leave them out")
		return
	}
	p.checkf(len(s.Steps) > 0, "steps: there are none: give one at least")
	scope := newScope(p, s)
	names := map[string]bool{}
	at := p.at
	for i := range s.Steps {
		step := &s.Steps[i]
		if len(s.Steps) > 1 {
			p.at = fmt.Sprintf("%sstep %q: ", at, step.Name)
			p.checkf(step.Name != "", "name: it has none: give it one")
			p.checkf(!names[step.Name], "name: there are two of that name: rename one")
			names[step.Name] = true
		}
		if s.Weighted {
			p.checkf(step.Weight > 0, "weight: %v: give a number above 0", step.Weight)
			p.checkf(len(step.Extract) == 0, "extract: an iteration of a weighted scenario is one step, so no other can use the value: leave it out")
		}
		scope.step(step)
	}
	p.at = at
	scope.unused()
}

// scope is which placeholders have a value, step by step.
type scope struct {
	*problems
	feeds     map[string]feed.Feed
	extracted map[string]bool
	later     map[string]bool // extracted by any step
	used      map[string]bool // feeds
}

func newScope(p *problems, s *Scenario) *scope {
	c := &scope{problems: p, feeds: s.Feed, extracted: map[string]bool{}, later: map[string]bool{}, used: map[string]bool{}}
	for i := range s.Steps {
		for name := range s.Steps[i].Extract {
			c.later[name] = true
			_, both := s.Feed[name]
			p.checkf(!both, "extract: {%s} is a feed's as well: rename one", name)
		}
	}
	return c
}

// step checks one step, and adds what it extracts.
func (c *scope) step(step *Step) {
	c.request(&step.Request)
	for _, name := range slices.Sorted(maps.Keys(step.Extract)) {
		e := step.Extract[name]
		pieces := SplitPlaceholders("{" + name + "}")
		c.checkf(len(pieces) == 2 && !strings.Contains(name, "."), "extract: the name %q: use letters, digits and _", name)
		c.checkf((e.JSON == "") != (e.Header == ""), "extract: %s: give it either a JSON path or a header", name)
		c.extracted[name] = true
	}
	names := map[string]bool{}
	for _, check := range step.Checks {
		c.checkf(check.Name != "", "checks: one has no name: give it one")
		c.checkf(!names[check.Name], "checks: there are two of the name %q: rename one", check.Name)
		names[check.Name] = true
		c.check(check)
	}
	c.checkf(step.Think[0] >= 0 && step.Think[0] <= step.Think[1] && step.Think[1] <= 24*time.Hour,
		"think: from %v to %v: give two times up to 24h, the shorter first", step.Think[0], step.Think[1])
}

// check checks a check.
func (c *scope) check(check Check) {
	kinds := 0
	for _, given := range []bool{len(check.Status) > 0, check.Contains != "", check.JSON != ""} {
		if given {
			kinds++
		}
	}
	c.checkf(kinds == 1, "check %q: give it exactly one of status, contains and json", check.Name)
	c.checkf(check.Equals == nil || check.JSON != "", "check %q: equals belongs to json: add the path", check.Name)
	for _, status := range check.Status {
		c.checkf(status >= 100 && status <= 599, "check %q: status %d: give one from 100 to 599", check.Name, status)
	}
}

// reserved are the headers that say where a message ends, or what becomes of
// the connection.
var reserved = []string{"content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer"}

// request checks a request.
func (c *scope) request(r *Request) {
	c.checkf(isTokenText(r.Method) && r.Method != http.MethodConnect, "request: the method %q: use one such as GET", r.Method)
	c.checkf(strings.HasPrefix(r.Path, "/"), "request: the path %q: begin it with /", r.Path)
	c.checkf(!strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c >= 0x7f }),
		"request: the path %q has a space, a control character or a letter beyond ASCII: write it as %%20 and the like", r.Path)
	c.checkf(!strings.Contains(r.Path, "#"), "request: the path %q: leave out # and what follows, which is never sent", r.Path)
	c.placeholders("path", r.Path)
	c.placeholders("body", r.Body)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		value := r.Header[name]
		c.header(name, value)
		hostHasFeed := strings.EqualFold(name, "host") && len(SplitPlaceholders(value)) > 1
		c.checkf(!hostHasFeed, "request: header Host: a placeholder is of no use in it: write the host out")
		c.placeholders("header "+name, value)
	}
}

// header checks a header line.
func (p *problems) header(name, value string) {
	p.checkf(isTokenText(name), "request: the header name %q: use letters, digits and -", name)
	p.checkf(!strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }),
		"request: header %s: its value has a control character: take it out", name)
	p.checkf(!slices.Contains(reserved, strings.ToLower(name)), "request: header %s is set by the generator: leave it out", name)
}

// placeholders checks that each placeholder of text has a value.
func (c *scope) placeholders(where, text string) {
	for _, piece := range SplitPlaceholders(text) {
		name := piece.Name
		if name == "" || c.extracted[name] {
			continue
		}
		whole, column, _ := strings.Cut(name, ".")
		f, ok := c.feeds[whole]
		switch {
		case c.later[name]:
			c.checkf(false, "request: the %s has {%s}, which no earlier step extracts: move that step up", where, name)
		case !ok:
			c.checkf(false, "request: the %s has {%s}, but there is no feed of that name: add it", where, name)
		case column != "":
			c.checkf(hasColumns(f), "request: the %s has {%s}, but feed %q has no columns to choose from: write {%s}", where, name, whole, whole)
		default:
			c.checkf(!hasColumns(f), "request: the %s has {%s}, and the feed's file has several columns: write {%s.column}, or give the feed a column", where, name, name)
		}
		c.used[whole] = true
	}
}

// unused checks the feeds themselves, and that each is used.
func (c *scope) unused() {
	for _, name := range slices.Sorted(maps.Keys(c.feeds)) {
		c.checkf(c.used[name], "feed %q: nothing in the request uses it: write {%s} where its value belongs, or leave it out", name, name)
		if err := c.feeds[name].Validate(); err != nil {
			c.checkf(false, "feed %q: %w", name, err)
		}
	}
}

// websocket checks what only WebSocket scenarios have.
func (p *problems) websocket(s *Scenario) {
	w := s.WebSocket
	p.checkf(strings.HasPrefix(w.Path, "/"), "websocket: the path %q: begin it with /", w.Path)
	for _, name := range slices.Sorted(maps.Keys(w.Header)) {
		p.header(name, w.Header[name])
	}
	p.checkf(w.Rate >= 0 && w.Rate <= maxRate, "websocket: rate %v: give messages per second for each sender", w.Rate)
	p.checkf(w.Senders >= 0 && w.Senders <= maxUsers, "websocket: senders %d: give a number up to %d", w.Senders, maxUsers)
	p.checkf(w.ConnectRate > 0 && w.ConnectRate <= maxRate, "websocket: connect_rate %v: give connections per second, above 0", w.ConnectRate)
	p.checkf(slices.Contains([]string{DeliverEcho, DeliverAll, DeliverNone}, w.Deliver), "websocket: deliver %q is unknown: use %s, %s or %s", w.Deliver, DeliverEcho, DeliverAll, DeliverNone)
	p.checkf(s.Arrivals == Poisson || s.Arrivals == Uniform, "arrivals: %q is unknown: use %s or %s", s.Arrivals, Poisson, Uniform)
	sends := w.Rate > 0 && w.Senders > 0
	p.checkf(!sends || w.Message != "", "websocket: there is no message to send: give one, or senders: 0")
	p.checkf(!sends || w.Deliver == DeliverNone || strings.Contains(w.Message, "{id}"), "websocket: the message has no {id} by which its delivery is known: add it, or use deliver %s", DeliverNone)
	p.checkf(!w.Reconnect || w.ReconnectAfter > 0 && w.ReconnectMost >= w.ReconnectAfter, "websocket: reconnect from %v to %v: give two pauses, the shorter first", w.ReconnectAfter, w.ReconnectMost)
	p.checkf(w.SlowClients >= 0 && (w.SlowClients == 0 || w.SlowRate > 0), "websocket: %d slow clients at %v bytes/s: give both, above 0", w.SlowClients, w.SlowRate)
}

// hasColumns says whether placeholders have to name a column of the feed.
func hasColumns(f feed.Feed) bool {
	return f.CSV != nil && f.CSV.Column == "" || f.JSONL != nil && f.JSONL.Column == ""
}
