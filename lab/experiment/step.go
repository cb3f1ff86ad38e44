package experiment

import (
	"fmt"
	"slices"
	"time"

	"loadstone/block/spelling"
)

// Step is one named request of an iteration, or a group of steps.
type Step struct {
	// What the step is reported under, unique in its scenario: letters, digits,
	// dots, dashes and underscores, at most 63.
	Name string `key:"name" eg:"home" form:"step"`
	// The request: "GET /path", or method, path, headers and body. {name} in
	// the path, a header value or the body takes the value of the feed of that
	// name, or what an earlier step extracted under it.
	Request Request `key:"request" eg:"GET /path" each:"the request"`
	// A unary call of gRPC in place of a request, with protocol: h2 under load:
	// package.Service/Method, or method, message and metadata. What messages are made of
	// is in the .proto files under load or, without them, is asked of the server (server
	// reflection). An answer counts as the HTTP status that its code stands for: NOT_FOUND
	// is 404, UNAVAILABLE 503. Its message is JSON for extract and checks; that of a call
	// that failed is a text such as NOT_FOUND: no such item.
	GRPC *Call `key:"grpc" eg:"shop.v1.Catalogue/GetItem"`
	// The step's share of the iterations of a weighted scenario: 3 is three
	// times as often as 1.
	Weight float64 `key:"weight" eg:"3" default:"1" max:"1000" min:"0.001"`
	// Values to take from the answer for later steps of the iteration, by the
	// name of their placeholder: a path into a JSON body (user.token, in
	// gjson's syntax, as in k6), {json: path}, or {header: Name}. Bodies in gzip,
	// br and zstd are decoded first.
	Extract map[string]Extract `key:"extract" eg:"{token: user.token}" each:"what is extracted" list:"a mapping from names to paths" names:"placeholder"`
	// The statuses of answers that have not failed, as k6's http.expectedStatuses:
	// 404, or a list. If not given, those below 400.
	ExpectedStatuses []int `key:"expectedStatuses" eg:"404" least:"1" lone:"" max:"599" min:"100"`
	// What must be so of each answer, by a name of your choice: {status: 200},
	// {status: [200, 201]}, {contains: text}, {json: path} for a value that is
	// there, or {json: path, equals: value}. As in k6 a check that does not
	// hold is counted and is no failed request.
	Checks Checks `key:"checks" eg:"{found: {status: 200}}" each:"check %s" list:"a mapping from names to checks" names:"check"`
	// How long the virtual user pauses after the step: 2s, or [1s, 3s] to draw
	// it between the two.
	Think Think `key:"think" eg:"2s"`

	// Has the step, or the group of steps, be made only if all of these hold, each a value
	// that an earlier step extracted, or of a feed: {role: admin}, {status: [new, open]},
	// or {cursor: {not: ''}}.
	If Conditions `key:"if" eg:"{role: admin}" each:"condition %s" item:"admin" least:"1" list:"a mapping from values to what they are" names:"source"`

	// Makes a group of steps in place of a request: how often they are made, one
	// pass after the other.
	Repeat int `key:"repeat" eg:"10" max:"10000" min:"1"`
	// Ends a group with repeat before a pass for which not all of these hold: repeat: 50
	// with while: {cursor: {not: ''}} makes at most 50 passes. Written as if.
	While Conditions `key:"while" eg:"{cursor: {not: ''}}" beside:"repeat" each:"condition %s" item:"admin" least:"1" list:"a mapping from values to what they are" names:"source"`
	// Makes a group of steps in place of a request, once for each value of a list
	// that an earlier step extracted: {id: ids} makes them with each value of ids,
	// as {id}. A list may have 10,000 values: texts, numbers or booleans.
	ForEach map[string]string `key:"forEach" eg:"{id: ids}" form:"placeholder" each:"list %s" item:"ids" least:"1" list:"a name for the value, and the name of the list" most:"1" names:"placeholder"`
	// Makes a group of steps in place of a request, so many of them at once: the
	// passes of repeat and forEach, or the group's steps if it makes one pass. Over
	// HTTP/1.1 the virtual user has so many connections, as an app has six; over
	// HTTP/2 they are streams of its one connection.
	Parallel int `key:"parallel" eg:"6" max:"100" min:"1"`
	// The steps of a group, which may be groups, four deep.
	Steps Group `key:"steps" eg:"[{name: item, request: GET /item}]" each:"step %d" least:"1" list:"a list with a step in it"`
}

// Extract is where in an answer a value is: one of its keys.
type Extract struct {
	// A path into a JSON body, in gjson's syntax, such as items.0.id.
	JSON string `key:"json" eg:"user.token" form:"json"`
	// A header's name.
	Header string `key:"header" eg:"Location" form:"taken"`
	// Makes one value of a JSON list, with this text between its values: ids
	// {json: posts.#.id, join: ','} is 1,2,3. A list may have 10,000 values: texts,
	// numbers or booleans.
	Join string `key:"join" eg:"','"`
	// Has the values be a metric of the load: extracted{value:NAME} under slo, as k6's
	// Trend, Counter, Gauge and Rate. Each is a number from 0 to 1000000000000, or true
	// or false, which count as 1 and 0. No step has to use them then.
	Metric bool `key:"metric" eg:"true"`
	// The value where an answer has none, such as '' after the last page. Without it such
	// an answer has failed, and the iteration ends.
	Default *string `key:"default" eg:"''" scalar:"a text or a number"`
	// What the placeholder stands for in an iteration until a step has extracted it,
	// such as the cursor of the first page: '' for nothing.
	Initial *string `key:"initial" eg:"''" scalar:"a text or a number"`
}

// Think is a pause, drawn between its ends.
type Think [2]time.Duration

func (*Step) prepare(s *section) {
	isGroup := slices.ContainsFunc(ofGroups(), s.has)
	s.skipped = func(key string) bool { return key != "if" && isGroup != slices.Contains(ofGroups(), key) }
	if isGroup {
		s.known = append(ofGroups(), "if")
		s.refuses = func(key string) string {
			if slices.Contains([]string{"name", "request", "grpc", "weight", "extract", "expectedStatuses", "checks", "think"}, key) {
				return fmt.Sprintf("a group of steps makes no request of its own and does not take %s; write it in one of its steps", key)
			}
			return ""
		}
	} else {
		s.needs = []string{"name", "request"}
		if s.has("grpc") {
			s.needs = s.needs[:1]
		}
	}
	s.hints = map[string]hint{"url": {"write request: GET /path", "request"}, "sleep": {"write think: 1s", "think"}, "feed": {"write it beside steps", ""}}
}

func (step *Step) check(s *section) {
	if slices.ContainsFunc(ofGroups(), s.has) {
		step.checkGroup(s)
		return
	}
	if request, grpc := s.fields["request"], s.fields["grpc"]; request.n != nil && grpc.n != nil {
		s.errorf(grpc.place, "a step makes one request, and this has request and grpc; write two steps")
	}
}

// checkSteps checks the steps against each other. n is their list.
func (sc *Scenario) checkSteps(s *section, n *node) {
	steps, groups := sc.places(n)
	sc.checkNesting(s, groups)
	var names []string
	for i := range steps {
		name, n := steps[i].step.Name, steps[i].n
		if p, ok := n.pair("name"); ok && slices.Contains(names, name) && forms["step"].fits(name) {
			s.errorf(p.value, "there are two steps of the name %s; write another, such as %s-again", spelling.Quote(name), name)
		}
		names = append(names, name)
		if p, ok := n.pair("if"); ok && sc.Weighted {
			s.errorf(p.key, "an iteration of a weighted scenario makes one step, drawn by weight, so if has no use; remove it, or remove weighted")
		}
		if p, ok := n.pair("weight"); ok && !sc.Weighted {
			s.errorf(p.key, "every iteration makes every step, so weight has no use; remove it, or write weighted: true in the scenario")
		}
	}
}

// short reads a path into a JSON body.
func (e *Extract) short(f field) bool {
	if f.n.kind == mapping {
		return false
	}
	e.JSON = f.jsonPath()
	return true
}

func (e *Extract) check(s *section) {
	name := spelling.Quote(s.place.text)
	switch given := s.given("json", "header"); {
	case len(given) == 2:
		s.errorf(s.place, "%s is both json and header; write one of the two", name)
	case len(given) == 0 && len(s.n.pairs) == len(s.given("initial", "join", "default", "metric")):
		s.errorf(s.place, "%s is taken from nowhere; write %s: user.token", name, s.place.text)
	case e.Metric && s.has("join"):
		s.errorf(s.fields["join"].place, "join makes one text of a list, and a metric is a number; remove join or metric")
	case len(given) == 1 && given[0].key == "header" && s.has("join"):
		s.errorf(s.fields["join"].place, "join is for a list in a JSON body, and a header is one value; remove join, or write json")
	}
}

func (to *Think) read(f field) {
	if f.n.kind != list {
		d := f.pause()
		*to = Think{d, d}
		return
	}
	if len(f.n.items) != 2 {
		f.errorf(f.n, "%s must be a duration or two, the shortest and the longest; write %s: [1s, 3s]", f.key, f.key)
		return
	}
	before := len(f.errs)
	for i, n := range f.n.items {
		if item := f.item(f.key, n); item.given() {
			to[i] = item.pause()
		}
	}
	if len(f.errs) == before && to[0] > to[1] {
		f.errorf(f.n, "%s goes from %s down to %s; write %s: [%s, %s]", f.key, to[0], to[1], f.key, to[1], to[0])
	}
}

// pause reads one think time.
func (f field) pause() time.Duration {
	const most = 24 * time.Hour // the load generator's
	d := f.duration(0)
	if d > most {
		f.errorf(f.n, "%s %s is more than a day; write %s: 2s", f.key, f.n.text, f.key)
	}
	return d
}

func (*Extract) shortSchema() *schema { return &schema{Type: "string", Pattern: nonEmpty} }

func (*Extract) rules(s *schema) {
	s.OneOf, s.Not = exactlyOne("json", "header"), with("header", "join")
}

func (*Think) describe(*generator, tag) *schema {
	pause := &schema{Type: "string", Pattern: durationPattern}
	return either(pause, &schema{Type: "array", Items: pause, MinItems: count64(2), MaxItems: count64(2)})
}
