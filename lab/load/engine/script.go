package engine

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/feed"
	"loadstone/lab/load/rpc"
	"loadstone/lab/load/seed"
)

// script is what an iteration of a scenario does, compiled for one target. It
// does not change, and virtual users share it.
type script struct {
	steps       []step
	values      []source // of all placeholders
	lists       []string // the names of those that are lists
	feeds       *feed.Set
	flowNodes   []node  // nil if the steps are made each once, in turn
	initial     []value // that placeholders have when an iteration begins
	weighted    bool
	replays     bool      // an access log: the steps are GET and HEAD
	weights     []float64 // of a weighted script, summed up; the last is 1
	explain     bool      // what is not expected is quoted
	setsCookies bool      // answers may set cookies that later requests need
	keepCookies bool
	caches      bool // users have a cache
	base        *url.URL
	trip        int                    // see stepIDs
	key         uint64                 // of the stream that weights and think times are drawn from
	given       map[string]string      // values of placeholders that do not change
	calls       map[string]*rpc.Method // by path
	timeout     time.Duration          // of a request
	errs        []error
}

// step is one request of a script, compiled.
type step struct {
	name  string
	index int // in the recorder

	method string
	host   string // of the Host header
	path   string // of the target's base URL, put before the request's
	target text
	header []headerField
	body   text
	wire   text // all of it, as HTTP/1.1

	call  *rpc.Method // nil for a request that is no call of gRPC
	frame []byte      // its message as it goes over the wire, if that is the same each time

	hasBody   bool
	wantsBody bool  // of the answer
	cacheable bool  // the answer may come from the user's cache
	used      []int // the values that it takes
	extract   []extraction
	checks    []check
	capture   *capture              // what of an answer is to be kept; nil if nothing
	expects   func(status int) bool // whether an answer has not failed
	think     [2]time.Duration
}

// headerField is one header line of a request.
type headerField struct {
	name  string
	value text
}

// value is a placeholder's.
type value struct {
	variable int // index into script.values
	value    string
}

func valueOf(variable int, text string) value { return value{variable, text} }

// extraction takes a value from an answer.
type extraction struct {
	variable int // index into script.values
	name     string
	list     bool // it is to be a list
	metric   int  // in the recorder, if it is one
	load.Extract
}

// check is a claim about an answer, and where it is counted.
type check struct {
	index int // in the recorder
	load.Check
}

// userAgent names the generator in the servers' logs.
const userAgent = "loadstone"

// compile prepares scenario s for the target at base. Validate has found it
// good, and what is still wrong is in the files that it names. ids has the recorder's
// numbers of its steps and checks.
func compile(s *load.Scenario, r *run, feeds *feed.Set, base *url.URL, ids *stepIDs) (*script, error) {
	c := &script{
		feeds: feeds, weighted: s.Weighted, keepCookies: s.KeepCookies, caches: s.CacheBytes > 0,
		setsCookies: s.KeepCookies || (len(s.Steps) > 1 || s.Flow != nil) && !s.Weighted,
		explain:     r.plan.Explain,
		base:        base,
		key:         ids.key,
		trip:        ids.trip,
		given:       r.plan.Given,
		calls:       r.calls,
		timeout:     r.plan.Timeout,
	}
	for i := range s.Steps {
		for _, name := range slices.Sorted(maps.Keys(s.Steps[i].Extract)) {
			c.source(name, true)
		}
	}
	for _, name := range s.Items() {
		c.source(name, true)
	}
	c.lists = s.Lists()
	for i := range s.Steps {
		c.steps = append(c.steps, c.step(&s.Steps[i], base, ids, i))
	}
	c.shareCaptures()
	c.flowNodes = c.flow(s.Flow)
	c.sumWeights(s.Steps)
	if s.Executor == load.Replay {
		c.replays = true
		for i, method := range s.StepNames() {
			c.steps = append(c.steps, c.replay(method, base, ids, i))
		}
	}
	return c, errors.Join(c.errs...)
}

// sumWeights prepares the draw of a step.
func (c *script) sumWeights(steps []load.Step) {
	var sum float64
	for i := range steps {
		sum += steps[i].Weight
		c.weights = append(c.weights, sum)
	}
	for i := range c.weights {
		c.weights[i] /= sum
	}
}

// single says whether an iteration makes one of the steps only.
func (c *script) single() bool { return c.weighted || c.replays }

// draw returns the step that an iteration of a weighted script makes.
func (c *script) draw(iteration uint64) int {
	at := seed.Unit(seed.At(c.key, iteration))
	i := 0
	for i < len(c.weights)-1 && at >= c.weights[i] {
		i++
	}
	return i
}

// source returns the index of a placeholder's value.
func (c *script) source(name string, extracted bool) int {
	i := slices.IndexFunc(c.values, func(s source) bool { return s.name == name })
	if i >= 0 {
		return i
	}
	var column feed.Column
	if value, ok := c.given[name]; ok && !extracted { // that a condition is about
		extracted = true
		c.initial = append(c.initial, valueOf(len(c.values), value))
	}
	if !extracted {
		var err error
		if column, err = c.feeds.Find(name); err != nil {
			c.errs = append(c.errs, err)
		}
	}
	c.values = append(c.values, source{name: name, extracted: extracted, column: column})
	return len(c.values) - 1
}

// text compiles a text, whose placeholders are filled in as kind says.
func (c *script) text(s *step, raw string, kind partKind) text {
	var out text
	for _, piece := range load.SplitPlaceholders(raw) {
		out = append(out, c.part(s, load.Piece{Placeholder: piece}, kind))
	}
	return out
}

// body compiles a request's body. contentType is what it is, if the header does not say so
// and that is known.
func (c *script) body(s *step, r *load.Request) (out text, contentType string) {
	pieces, contentType, err := r.Pieces(os.ReadFile)
	if err != nil {
		c.errs = append(c.errs, fmt.Errorf("step %q: %w", s.name, err))
	}
	for _, piece := range pieces {
		out = append(out, c.part(s, piece, thenBodyValue))
	}
	return out, contentType
}

// part compiles a piece of a text.
func (c *script) part(s *step, piece load.Piece, kind partKind) part {
	p := part{literal: piece.Before, escape: piece.Escape}
	if piece.Name == "" {
		return p
	}
	if value, ok := c.given[piece.Name]; ok {
		p.literal = string(p.append([]byte(p.literal), kind, []byte(value)))
		return p
	}
	p.then, p.value = kind, c.source(piece.Name, false)
	if !slices.Contains(s.used, p.value) {
		s.used = append(s.used, p.value)
	}
	return p
}

// step compiles one step.
func (c *script) step(from *load.Step, base *url.URL, ids *stepIDs, number int) step {
	r := &from.Request
	s := step{
		name: from.Name, index: ids.steps[number], think: from.Think, expects: from.Expects,
		method: r.Method, host: base.Host, path: strings.TrimSuffix(base.EscapedPath(), "/"),
	}
	s.target = c.text(&s, s.path+r.Path, thenPathValue)
	agent := userAgent
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		switch strings.ToLower(name) {
		case "host":
			s.host = r.Header[name]
		case "user-agent":
			agent = r.Header[name]
		default:
			s.header = append(s.header, headerField{name, c.text(&s, r.Header[name], thenHeaderValue)})
		}
	}
	s.header = append([]headerField{{"User-Agent", c.text(&s, agent, thenHeaderValue)}}, s.header...)
	var contentType string
	s.body, contentType = c.body(&s, r)
	if _, given := r.ContentType(); !given && contentType != "" {
		s.header = append(s.header, headerField{"Content-Type", text{{literal: contentType}}})
	}
	c.call(&s, r)
	s.hasBody = r.HasBody() || slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.Method)
	s.cacheable = c.caches && s.cacheableRequest()
	s.wire = s.assemble(c.setsCookies)
	for _, name := range slices.Sorted(maps.Keys(from.Extract)) {
		e := extraction{c.source(name, true), name, slices.Contains(c.lists, name), 0, from.Extract[name]}
		if e.Metric {
			e.metric = ids.values[number][name]
		}
		s.extract = append(s.extract, e)
		if e.Initial != nil {
			c.initial = append(c.initial, value{e.variable, *e.Initial})
		}
	}
	for i := range from.Checks {
		s.checks = append(s.checks, check{ids.checks[number][i], from.Checks[i]})
	}
	s.capture = s.newCapture(c.setsCookies, c.explain)
	s.wantsBody = s.capture != nil && s.capture.body
	return s
}

// replay compiles the step that repeats a log's lines of one method.
func (c *script) replay(method string, base *url.URL, ids *stepIDs, number int) step {
	s := c.step(&load.Step{Name: method, Request: load.Request{Method: method}}, base, ids, number)
	s.target = text{{literal: s.path, then: thenLogTarget}}
	s.wire = s.assemble(c.setsCookies)
	return s
}

// assemble puts the request together as it goes over the wire.
func (s *step) assemble(cookies bool) text {
	wire := text{{literal: s.method + " "}}
	wire = append(wire, s.target...)
	wire = append(wire, part{literal: fmt.Sprintf(" HTTP/1.1\r\nHost: %s\r\n", s.host)})
	for _, h := range s.header {
		wire = append(wire, part{literal: h.name + ": "})
		wire = append(wire, h.value...)
		wire = append(wire, part{literal: "\r\n"})
	}
	if cookies {
		wire = append(wire, part{then: thenCookies})
	}
	if s.cacheable {
		wire = append(wire, part{then: thenCondition})
	}
	if s.hasBody {
		wire = append(wire, part{literal: "Content-Length: ", then: thenBodyLength}, part{literal: "\r\n"})
	}
	wire = append(wire, part{literal: "\r\n"})
	return join(append(wire, s.body...))
}

// join merges neighbouring literals: fewer parts are filled in faster.
func join(t text) text {
	var out text
	for _, p := range t {
		if last := len(out) - 1; last >= 0 && out[last].then == thenNothing {
			p.literal = out[last].literal + p.literal
			out = out[:last]
		}
		out = append(out, p)
	}
	return out
}

// shareCaptures has each step that can be answered from a cache keep the headers that any
// such step takes: what one has asked for answers another.
func (c *script) shareCaptures() {
	var all []string
	for i := range c.steps {
		if c.steps[i].cacheable {
			all = append(all, c.steps[i].capture.names...)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i := range c.steps {
		if c.steps[i].cacheable {
			c.steps[i].capture.names = all
		}
	}
}

// newCapture returns what of an answer has to be kept: nil for nothing.
func (s *step) newCapture(cookies, body bool) *capture {
	k := capture{cookies: cookies, body: body}
	for i := range s.extract {
		k.body = k.body || s.extract[i].JSON != ""
		if h := s.extract[i].Header; h != "" {
			k.names = append(k.names, strings.ToLower(h))
		}
	}
	for i := range s.checks {
		k.body = k.body || s.checks[i].Contains != "" || s.checks[i].JSON != ""
	}
	if s.cacheable {
		k.names = append(k.names, ofCaching()...)
	}
	if !k.body && !k.cookies && len(k.names) == 0 {
		return nil
	}
	return &k
}
