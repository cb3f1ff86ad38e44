package experiment

import (
	"fmt"
	"slices"
	"strings"

	"loadstone/block/spelling"
)

// extraction is one value that a step extracts.
type extraction struct {
	key         *node
	value       *node
	step        int
	path        []turn
	used        bool
	conditional bool // its step has a condition
}

// use is one text of a request that may hold placeholders.
type use struct {
	n      *node
	isBody bool
	own    string // a placeholder in it that no feed supplies; "" for none
	about  string // the value that a condition is about, in place of a text
	back   bool   // who comes back says it again
	step   int    // index of the step that it belongs to, or noStep
	path   []turn
}

// noStep is in place of a step for what a group goes over.
const noStep = -1

// iteration is what was read of an iteration, for matching placeholders with
// what they stand for.
type iteration struct {
	scenario    string
	names       []string // of the steps
	items       []*item
	weighted    bool
	socket      bool // it is what a WebSocket client says
	uses        []use
	extractions []*extraction
	recovered   []*extraction          // what a client says that comes back
	given       map[string]*extraction // what the load's setup extracts
	once        bool                   // it is setup or teardown, which have no feeds
}

// iterationOf looks through the requests of a scenario.
func iterationOf(to *Scenario, s *section) *iteration {
	it := &iteration{scenario: to.Name, names: []string{to.Name}, weighted: to.Weighted, given: s.fromSetup}
	if request, steps := s.fields["request"], s.fields["steps"]; steps.n == nil {
		it.request(request.n, 0, nil)
		return it
	} else if request.n != nil {
		return it
	}
	it.steps(to, s.fields["steps"].n)
	return it
}

// steps looks through the steps of a list.
func (it *iteration) steps(to *Scenario, n *node) {
	it.names = nil
	steps, groups := to.places(n)
	for i, step := range steps {
		it.names = append(it.names, step.step.Name)
		request, _ := step.n.pair("request")
		it.request(request.value, i, step.path)
		if call, ok := step.n.pair("grpc"); ok {
			it.request(call.value, i, step.path)
		}
		_, conditional := step.n.pair("if")
		it.conditions(step.n, "if", i, step.path)
		if extract, ok := step.n.pair("extract"); ok {
			for _, p := range extract.value.pairs {
				it.extractions = append(it.extractions, &extraction{key: p.key, value: p.value, step: i, path: step.path, conditional: conditional})
			}
		}
	}
	for _, g := range groups {
		it.conditions(g.n, "if", noStep, g.path)
		// It is looked at before each pass, so the first has what came before the group.
		it.conditions(g.n, "while", noStep, append(slices.Clip(g.path), turn{g.step, -1}))
	}
	it.items = itemsOf(groups)
}

// socketOf looks through what a WebSocket client says: what it extracts before it connects is
// there for all of it.
func socketOf(to *Scenario, s *section, n *node) *iteration {
	const first, then = 0, 1
	before, after := []turn{{child: first}}, []turn{{child: then}}
	it := &iteration{scenario: to.Name, names: []string{"login", to.Name}, socket: true, given: s.fromSetup}
	if login, ok := n.pair("login"); ok {
		request, _ := login.value.pair("request")
		it.request(request.value, first, before)
		if extract, ok := login.value.pair("extract"); ok {
			for _, p := range extract.value.pairs {
				it.extractions = append(it.extractions, &extraction{key: p.key, value: p.value, step: first, path: before})
			}
		}
	}
	if n.kind == text { // a path alone
		it.uses = append(it.uses, use{n: n, step: then, path: after})
		return it
	}
	if recovers, ok := n.pair("reconnect", "recover"); ok {
		for _, p := range recovers.value.pairs {
			it.recovered = append(it.recovered, &extraction{key: p.key})
		}
	}
	for _, p := range n.pairs {
		switch key := p.key.text; key {
		case "path", "room", "hello":
			it.uses = append(it.uses, use{n: p.value, isBody: key == "hello", back: key != "room", step: then, path: after})
		case "message":
			it.uses = append(it.uses, use{n: p.value, isBody: true, own: messageID, step: then, path: after})
		case "headers":
			for _, header := range p.value.pairs {
				it.uses = append(it.uses, use{n: header.value, back: true, step: then, path: after})
			}
		}
	}
	return it
}

// conditions adds the values that a step or a group has conditions on.
func (it *iteration) conditions(n *node, key string, step int, path []turn) {
	if all, ok := n.pair(key); ok {
		for _, p := range all.value.pairs {
			it.uses = append(it.uses, use{n: p.key, about: p.key.text, step: step, path: path})
		}
	}
}

// names are the placeholders that are used.
func (u *use) names() []string {
	if u.about != "" {
		return []string{u.about}
	}
	var out []string
	for _, m := range placeholderForm.FindAllStringSubmatch(u.n.text, -1) {
		if u.own != m[0] {
			out = append(out, m[1])
		}
	}
	return out
}

// request adds where placeholders may be in a request.
func (it *iteration) request(n *node, step int, path []turn) {
	add := func(n *node, isBody bool) {
		if n.kind == text {
			it.uses = append(it.uses, use{n: n, isBody: isBody, step: step, path: path})
		}
	}
	if n == nil {
		return
	}
	add(n, false)
	for _, p := range n.pairs {
		switch p.key.text {
		case "path", "body", "message":
			add(p.value, p.key.text != "path")
		case "headers", "metadata":
			for _, header := range p.value.pairs {
				add(header.value, false)
			}
		case "form", "multipart":
			for _, f := range p.value.pairs {
				add(f.value, true)
				if value, ok := f.value.pair("value"); ok {
					add(value.value, true)
				}
			}
		}
	}
}

// match refuses a placeholder that nothing supplies a value for, and returns
// the names of the feeds that are used.
func (s *section) match(it *iteration, feeds map[string]Feed) map[string]bool {
	used, seen := make(map[string]bool), make(map[string]bool)
	for _, t := range slices.Concat(it.extractions, it.recovered) {
		if _, ok := feeds[t.key.text]; ok {
			t.used = true
			s.errorf(t.key, "%s is extracted here and is a feed; write another name for one of the two", spelling.Quote(t.key.text))
		}
	}
	s.matchGiven(it)
	s.matchLists(it, feeds)
	for _, u := range it.uses {
		// Each placeholder that is wrong is reported where it is first.
		for _, written := range u.names() {
			wrong := s.wrongPlaceholder(it, u, written, feeds, used)
			if wrong != "" && !seen[written] {
				seen[written] = true
				s.errorf(u.n, "%s", wrong)
			}
		}
	}
	return used
}

// wrongPlaceholder says what is wrong with a placeholder, "" for nothing, and marks what it
// stands for as used.
func (s *section) wrongPlaceholder(it *iteration, u use, written string, feeds map[string]Feed, used map[string]bool) string {
	name, column, dotted := strings.Cut(written, ".")
	feed, fed := feeds[name]
	of, outside := it.itemOf(name, u)
	switch {
	case of != nil:
		if of.used = true; dotted {
			return fmt.Sprintf("the placeholder {%s} names a column, and {%s} is one value of a list; write {%s}", written, name, name)
		}
		return ""
	case dotted && column == "":
		used[name] = true
		return fmt.Sprintf("the placeholder {%s} names no column; write {%s}, or {%s.column}", written, name, name)
	case fed:
		used[name] = true
		wrong := feed.wrongColumn(name, column)
		if rows := feed.rows(); wrong == "" && rows != nil && rows.Column == "" {
			s.columns = append(s.columns, columnUse{n: u.n, scenario: it.scenario, feed: name, placeholder: written})
		}
		return wrong
	case it.recoveredAs(name) != nil:
		it.markUsed(name)
		if it.recoveredAs(name).used = true; !u.back {
			return fmt.Sprintf("the placeholder {%s} is what a client says when it comes back; write it in path, headers or hello", written)
		}
		return ""
	case it.gives(name):
		if dotted {
			return fmt.Sprintf("the placeholder {%s} names a column, and {%s} is one value that setup extracts; write {%s}", written, name, name)
		}
		return ""
	case it.extracts(name):
		return it.wrongExtraction(u, written, name)
	case outside:
		return fmt.Sprintf("the placeholder {%s} stands for a value of forEach, and this is no step of that group; write it in one", written)
	}
	return it.withoutFeed(u, written, name)
}

// wrongColumn says what is wrong with {name.column} of a feed, "" for nothing.
func (f *Feed) wrongColumn(name, column string) string {
	rows := f.rows()
	switch {
	case *f == (Feed{}), rows != nil && rows.File == "": // broken, and reported
	case rows == nil && column != "":
		return fmt.Sprintf("the feed %s has no columns, and the placeholder {%s.%s} names one; write {%s}", spelling.Quote(name), name, column, name)
	case rows != nil && rows.Column != "" && column != "":
		return fmt.Sprintf("the feed %s is the column %s, and the placeholder {%s.%s} names one too; write {%s}, or remove column from the feed", spelling.Quote(name), spelling.Quote(rows.Column), name, column, name)
	}
	return ""
}

// extracts reports whether any step extracts a value of that name.
func (it *iteration) extracts(name string) bool {
	return slices.ContainsFunc(it.extractions, func(t *extraction) bool { return t.key.text == name })
}

// recoveredAs is what a client that comes back says by that name; nil for nothing.
func (it *iteration) recoveredAs(name string) *extraction {
	i := slices.IndexFunc(it.recovered, func(t *extraction) bool { return t.key.text == name })
	if i < 0 {
		return nil
	}
	return it.recovered[i]
}

// wrongExtraction marks what a placeholder uses, and says what is wrong with that.
func (it *iteration) wrongExtraction(u use, written, name string) string {
	if written != name {
		it.markUsed(name)
		return fmt.Sprintf("the placeholder {%s} names a column, and {%s} is one value that a step extracts; write {%s}", written, name, name)
	}
	found, late, missed, how := it.sourcesOf(u, name)
	if found {
		return ""
	}
	it.markUsed(name)
	switch {
	case missed != nil:
		return it.notThere(name, missed, how)
	case it.weighted:
		return fmt.Sprintf("the placeholder {%s} is extracted by step %s, and an iteration of a weighted scenario makes one step only; remove weighted, or write a feed", name, spelling.Quote(it.names[late.step]))
	}
	first, round := it.names[late.step], ""
	if late.comesRound(u) {
		round = fmt.Sprintf(", or write extract: {%s: {json: PATH, initial: VALUE}} for the first pass", name)
	}
	if late.step == u.step {
		return fmt.Sprintf("the placeholder {%s} is used in the step that extracts it; extract it in an earlier step%s", name, round)
	}
	return fmt.Sprintf("the placeholder {%s} is used before step %s has extracted it; write that step first%s", name, spelling.Quote(first), round)
}

// sourcesOf looks at the steps that extract a value. If one has done so where it is used
// it marks what is used. Else it returns the first that comes too late, or one that is
// made at once or for each value of a list, and which of these it is.
func (it *iteration) sourcesOf(u use, name string) (found bool, late, missed *extraction, how reach) {
	for _, t := range it.extractions {
		if t.key.text != name {
			continue
		}
		r := t.to(u)
		_, begins := t.value.pair("initial")
		switch {
		case !it.weighted && (r == reaches || begins && r != atOnce):
			t.used, found = true, true
		case !it.weighted && r != tooLate:
			missed, how = t, r
		case late == nil:
			late = t
		}
	}
	for _, t := range it.extractions {
		t.used = t.used || found && t.key.text == name && t.comesRound(u)
	}
	return found, late, missed, how
}

// markUsed marks the values of a name as used: what is wrong with them is said.
func (it *iteration) markUsed(name string) {
	for _, t := range it.extractions {
		t.used = t.used || t.key.text == name
	}
}

// withoutFeed says what to write for a placeholder that nothing supplies.
func (it *iteration) withoutFeed(u use, written, name string) string {
	if it.once {
		return fmt.Sprintf("the placeholder {%s} is extracted in no earlier step of %s, which has no feeds; extract it, or write its value", written, it.scenario)
	}
	instead := fmt.Sprintf("write feed: {%s: {uniform: [1, 1000]}}", name)
	if written != name {
		instead = fmt.Sprintf("write feed: {%s: {csv: %ss.csv}}", name, name)
	}
	if u.step > 0 && written == name && it.socket {
		instead += ", or extract it in login"
	} else if u.step > 0 && written == name {
		instead += ", or extract it in an earlier step"
	}
	if u.isBody {
		instead += fmt.Sprintf(", or { %s } with spaces if it is no placeholder", written)
	}
	return fmt.Sprintf("the placeholder {%s} has no feed; %s", written, instead)
}

// checkUsed refuses a feed that no placeholder names.
func (f field) checkUsed(used map[string]bool, feeds map[string]Feed) {
	if !f.given() {
		return
	}
	for _, p := range f.n.pairs {
		name := p.key.text
		if used[name] || !forms["feed"].fits(name) {
			continue
		}
		written := name
		feed := feeds[name]
		if rows := feed.rows(); rows != nil && rows.Column == "" {
			written += ".column"
		}
		f.errorf(p.key, "feed %s is not used; write {%s} in the request, or remove the feed", spelling.Quote(name), written)
	}
}

// checkExtracted refuses a value that is extracted for nobody.
func (s *section) checkExtracted(it *iteration) {
	for _, t := range it.extractions {
		metric, isMetric := t.value.pair("metric")
		isMetric = isMetric && metric.value.text == "true"
		measured := !it.once && !it.socket
		if isMetric && !measured {
			s.errorf(metric.key, "%s is not measured, so metric has no use; remove it, or extract the value in a step of a scenario", it.unmeasured())
			continue
		}
		if name := t.key.text; !t.used && forms["feed"].fits(name) && !isMetric {
			instead := ", or remove it"
			if measured {
				instead = fmt.Sprintf(", %s: {json: PATH, metric: true} to have an objective on it, or remove it", name)
			}
			s.errorf(t.key, "no later step uses what is extracted here; write {%s} in one%s", name, instead)
		}
	}
}

// unmeasured is what extracts values that no load has.
func (it *iteration) unmeasured() string {
	if it.socket {
		return "what login extracts"
	}
	return it.scenario
}

// checkRecovered refuses what is recovered for nobody, or extracted too.
func (s *section) checkRecovered(it *iteration) {
	for _, t := range it.recovered {
		name := t.key.text
		switch {
		case it.extracts(name):
			s.errorf(t.key, "%s is recovered here and extracted in login; write another name for one of the two", spelling.Quote(name))
		case !t.used && forms["feed"].fits(name):
			s.errorf(t.key, "nobody says what is recovered here; write {%s} in path, headers or hello, or remove it", name)
		}
	}
}
