package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"loadstone/block/spelling"
)

const (
	stepsExample  = "steps: [{name: home, request: GET /}]"
	checksExample = "checks: {found: {status: 200}}"
	maxWeight     = 1000
	maxCheckName  = 100
)

// taking is one value that a step extracts.
type taking struct {
	key  *node
	step int
	used bool
}

// iteration is what was read of an iteration, for matching placeholders with
// what they stand for.
type iteration struct {
	scenario string
	names    []string // of the steps
	weighted bool
	uses     []use
	takings  []*taking
}

// requests reads the requests of an iteration and the feeds of their
// placeholders.
func (s *section) requests(to *Scenario) {
	request, steps := s.may("request", requestExample), s.may("steps", stepsExample)
	weighted := s.may("weighted", "weighted: true")
	to.Weighted, to.KeepCookies = weighted.boolean(), s.may("keepCookies", "keepCookies: true").boolean()
	before := len(s.errs)
	it := iteration{scenario: to.Name, weighted: to.Weighted}
	switch {
	case request.n != nil && steps.n != nil:
		s.errorf(request.place, "request is the only step of a scenario, and this one has steps; write it as one of them, or remove steps")
	case steps.n != nil:
		to.Steps = steps.steps(&it)
	case request.n != nil:
		if weighted.n != nil {
			s.errorf(weighted.place, "weighted draws between steps, and there is one request; write steps, or remove weighted")
		}
		it.names = []string{to.Name}
		to.Request, it.uses = request.request()
	case s.meant["steps"], s.meant["websocket"], s.has("replay"): // reported
	default:
		s.need("request", requestExample)
	}
	understood := (request.given() || steps.given()) && len(s.errs) == before
	feeds := s.may("feed", "feed: {id: {uniform: [1, 1000]}}")
	to.Feed = feeds.feeds()
	used := s.match(&it, to.Feed)
	if understood {
		feeds.unused(used, to.Feed)
		s.unusedTakings(&it)
	}
}

// steps reads the steps of an iteration.
func (f field) steps(it *iteration) []Step {
	if !f.given() {
		return nil
	}
	if f.n.kind != list || len(f.n.items) == 0 {
		f.wrong("a list with a step in it")
		return nil
	}
	out := make([]Step, 0, len(f.n.items))
	for i, n := range f.n.items {
		s := f.section(n, n, fmt.Sprintf("step %d", i+1), "{name: home, request: GET /}")
		if s == nil {
			it.names = append(it.names, "")
			continue
		}
		s.hints = map[string]hint{"url": {"write request: GET /path", "request"}, "sleep": {"write think: 1s", "think"}, "feed": {"write it beside steps", ""}}
		out = append(out, s.step(i, it))
	}
	return out
}

// step reads one step, the i-th from 0.
func (s *section) step(i int, it *iteration) Step {
	to := Step{Weight: 1}
	name := s.need("name", "name: home")
	if to.Name = name.text(); to.Name != "" && s.validName(name.n, "step", "name: home") && slices.Contains(it.names, to.Name) {
		s.errorf(name.n, "there are two steps of the name %s; write another, such as %s-again", spelling.Quote(to.Name), to.Name)
	}
	it.names = append(it.names, to.Name)
	request, uses := s.need("request", requestExample).request()
	for _, u := range uses {
		u.step = i
		it.uses = append(it.uses, u)
	}
	to.Request = request
	if weight := s.may("weight", "weight: 3"); weight.given() {
		to.Weight = weight.factor(1/float64(maxWeight), maxWeight)
		if !it.weighted {
			s.errorf(weight.place, "every iteration makes every step, so weight has no use; remove it, or write weighted: true in the scenario")
		}
	}
	extract := s.may("extract", "extract: {token: user.token}")
	to.Extract = extract.extracts()
	if extract.given() {
		for _, p := range extract.n.pairs {
			it.takings = append(it.takings, &taking{key: p.key, step: i})
		}
	}
	to.Checks = s.may("checks", checksExample).checks()
	to.Think = s.may("think", "think: 2s").think()
	s.done()
	return to
}

// extracts reads the values to take from an answer.
func (f field) extracts() map[string]Extract {
	if !f.given() {
		return nil
	}
	if f.n.kind != mapping {
		f.wrong("a mapping from names to paths")
		return nil
	}
	out := make(map[string]Extract, len(f.n.pairs))
	for _, p := range f.n.pairs {
		name := p.key.text
		if !feedForm.MatchString(name) {
			f.errorf(p.key, "%s cannot name a placeholder; write letters, digits and _", spelling.Quote(name))
			continue
		}
		if f.plain(p.value) {
			out[name] = f.at(name, name+": user.token", p).extract()
		}
	}
	return out
}

// extract reads where a value is: a path, or a mapping of one key.
func (f field) extract() Extract {
	if f.n.kind != mapping {
		return Extract{JSON: f.jsonPath()}
	}
	s := f.section(f.n, f.place, "what is extracted", f.example)
	if s == nil {
		return Extract{}
	}
	path, header := s.may("json", "json: user.token"), s.may("header", "header: Location")
	s.done()
	switch {
	case path.n != nil && header.n != nil:
		s.errorf(f.place, "%s is both json and header; write one of the two", spelling.Quote(f.key))
	case path.n == nil && header.n == nil && len(f.n.pairs) == 0:
		s.errorf(f.place, "%s is taken from nowhere; write %s", spelling.Quote(f.key), f.example)
	}
	name := header.text()
	if name != "" && !fieldNameForm.MatchString(name) {
		s.errorf(header.n, "%s cannot name a header; write letters, digits and dashes, such as Location", spelling.Quote(name))
	}
	return Extract{JSON: path.jsonPath(), Header: name}
}

// jsonPath reads a path into a JSON body. gjson, whose syntax it is, takes any
// text for a path, so what is written in another syntax would find nothing.
func (f field) jsonPath() string {
	if f.given() && f.n.kind == integer && !f.n.quoted {
		return f.n.text // an index into a list
	}
	path := f.text()
	if rest, ok := strings.CutPrefix(path, "$"); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
		instead := strings.Trim(strings.NewReplacer("[", ".", "]", "", "'", "").Replace(rest), ".")
		if instead == "" {
			instead = "@this"
		}
		f.errorf(f.n, "the path %s begins with $, which gjson's paths do not; write %s", spelling.Quote(path), instead)
		return ""
	}
	return path
}

// checks reads the checks of a step.
func (f field) checks() Checks {
	if !f.given() {
		return nil
	}
	if f.n.kind != mapping {
		f.wrong("a mapping from names to checks")
		return nil
	}
	var out Checks
	for _, p := range f.n.pairs {
		name := p.key.text
		if strings.TrimSpace(name) == "" || len(name) > maxCheckName || strings.ContainsFunc(name, unicode.IsControl) {
			f.errorf(p.key, "%s cannot name a check; write a few words in one line", spelling.Quote(name))
			continue
		}
		if s := f.section(p.value, p.key, "check "+spelling.Quote(name), name+": {status: 200}"); s != nil {
			out = append(out, s.check(p))
		}
	}
	return out
}

// check reads one check: exactly one of status, contains and json.
func (s *section) check(p pair) Check {
	to := Check{Name: p.key.text}
	claims := []field{s.may("status", "status: 200"), s.may("contains", "contains: Welcome"), s.may("json", "json: user.name")}
	equals := s.may("equals", "equals: Ada")
	s.done()
	var given []string
	for _, f := range claims {
		if f.n != nil {
			given = append(given, f.key)
		}
	}
	switch {
	case len(given) > 1:
		s.errorf(p.key, "check %s is both %s and %s; write two checks", spelling.Quote(to.Name), given[0], given[1])
	case len(given) == 0 && (equals.n != nil || len(p.value.pairs) == 0):
		s.errorf(p.key, "check %s says nothing of the answer; write {status: 200}, {contains: text} or {json: path, equals: value}", spelling.Quote(to.Name))
	case equals.n != nil && claims[2].n == nil:
		s.errorf(equals.place, "equals is about the value at a path; write json: path beside it")
	}
	to.Status, to.Contains, to.JSON = claims[0].statuses(), claims[1].words(), claims[2].jsonPath()
	if equals.given() {
		to.Equals = equals.scalar()
	}
	return to
}

// statuses reads one HTTP status or a list of them.
func (f field) statuses() []int {
	if !f.given() {
		return nil
	}
	if f.n.kind == list && len(f.n.items) == 0 {
		f.errorf(f.n, "status is an empty list; write %s", f.example)
		return nil
	}
	var out []int
	for _, item := range f.values() {
		if item.given() {
			out = append(out, int(item.whole(100, 599)))
		}
	}
	return out
}

// words reads text that an answer holds, numbers as they are written.
func (f field) words() string {
	if !f.given() {
		return ""
	}
	if v := f.scalar(); v != nil && *v == "" {
		f.errorf(f.n, "%s is empty, which every answer holds; write %s", f.key, f.example)
	} else if v != nil {
		return *v
	}
	return ""
}

// scalar reads any scalar as it is written. It is nil if that is none.
func (f field) scalar() *string {
	if f.n.kind == list || f.n.kind == mapping || f.n.kind == null {
		f.wrong("a text or a number")
		return nil
	}
	return &f.n.text
}

// pause reads one think time.
func (f field) pause() time.Duration {
	const most = 24 * time.Hour // the load generator's
	d := f.duration(0)
	if d > most {
		f.errorf(f.n, "think %s is more than a day; write think: 2s", f.n.text)
	}
	return d
}

// think reads a pause: a duration, or the two that it is drawn between.
func (f field) think() Think {
	if !f.given() {
		return Think{}
	}
	if f.n.kind != list {
		d := f.pause()
		return Think{d, d}
	}
	if len(f.n.items) != 2 {
		f.errorf(f.n, "think must be a duration or two, the shortest and the longest; write think: [1s, 3s]")
		return Think{}
	}
	var ends [2]time.Duration
	before := len(f.errs)
	for i, item := range f.values() {
		ends[i] = item.pause()
	}
	if len(f.errs) == before && ends[0] > ends[1] {
		f.errorf(f.n, "think goes from %s down to %s; write think: [%s, %s]", ends[0], ends[1], ends[1], ends[0])
	}
	return ends
}
