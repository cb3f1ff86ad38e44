package experiment

import (
	"fmt"
	"slices"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

// Group is the steps of a group. Its schema is that of a scenario's steps.
type Group []Step

// ofGroups are the keys that make a step a group.
func ofGroups() []string { return []string{"repeat", "while", "forEach", "parallel", "steps"} }

// turn is a place among the parts of a group; the group is nil for the scenario's own
// steps.
type turn struct {
	in    *Step
	child int
}

// again says whether the group makes several passes.
func (t turn) again() bool { return t.in != nil && (t.in.Repeat > 1 || len(t.in.ForEach) > 0) }

// branches says whether the group's parts are made at once, and passesAtOnce whether its
// passes are.
func (t turn) branches() bool {
	return t.in != nil && t.in.Parallel > 0 && t.in.Repeat <= 1 && len(t.in.ForEach) == 0
}

func (t turn) passesAtOnce() bool { return t.again() && t.in.Parallel > 0 }

// place is a step or a group in the file, and the way to it through the groups around
// it.
type place struct {
	step *Step
	n    *node
	path []turn
}

// places returns a scenario's steps, which make requests, and its groups, each in the
// order of the file. n is the list of steps.
func (sc *Scenario) places(n *node) (steps, groups []place) {
	var walk func(all []Step, n *node, in *Step, path []turn)
	walk = func(all []Step, n *node, in *Step, path []turn) {
		for i := range min(len(all), len(n.items)) {
			p := place{step: &all[i], n: n.items[i], path: append(slices.Clip(path), turn{in, i})}
			if !p.isGroup() {
				steps = append(steps, p)
				continue
			}
			groups = append(groups, p)
			if below, ok := p.n.pair("steps"); ok {
				walk(p.step.Steps, below.value, p.step, p.path)
			}
		}
	}
	walk(sc.Steps, n, nil, nil)
	return steps, groups
}

func (p *place) isGroup() bool {
	return slices.ContainsFunc(ofGroups(), func(key string) bool { _, ok := p.n.pair(key); return ok })
}

// checkGroup checks a group by itself.
func (step *Step) checkGroup(s *section) {
	repeat, over, steps := s.fields["repeat"], s.fields["forEach"], s.fields["steps"]
	if while := s.fields["while"]; while.n != nil && s.fields["parallel"].n != nil {
		s.errorf(while.place, "while looks at a value before each pass, and with parallel the passes are made at once; remove one of the two")
	} else if while.n != nil && repeat.n == nil {
		s.errorf(while.place, "while needs a bound on the passes; write repeat: 100 beside it")
	}
	switch {
	case repeat.n != nil && over.n != nil:
		s.errorf(repeat.place, "a group is made so often, or once for each value of a list; write one group within the other, or remove repeat")
	case steps.n == nil:
		s.lack("steps", steps.example)
	case repeat.n == nil && over.n == nil && s.fields["parallel"].n == nil && s.fields["if"].n == nil && s.fields["while"].n == nil:
		s.errorf(steps.place, "steps within steps are a group; write repeat: 10, forEach: {id: ids}, parallel: 6 or if: {role: admin} beside them, or remove the steps around them")
	}
}

// checkNesting checks the groups of a scenario against each other.
func (sc *Scenario) checkNesting(s *section, groups []place) {
	for _, g := range groups {
		at := func(key string) *node {
			if p, ok := g.n.pair(key); ok {
				return p.key
			}
			return g.n
		}
		around, passes := 0, 1
		for _, t := range g.path {
			if t.in == nil {
				continue
			}
			around++
			passes *= max(t.in.Repeat, 1)
			if t.in.Parallel > 0 && g.step.Parallel > 0 {
				s.errorf(at("parallel"), "this group lies in another that is made at once, and a virtual user has one set of connections; remove parallel from one of the two")
			}
		}
		switch {
		case sc.Weighted:
			s.errorf(at("steps"), "an iteration of a weighted scenario makes one step, and this is a group of steps; remove weighted, or write a scenario for each")
		case around == load.MaxNested:
			s.errorf(at("steps"), "groups lie more than %d deep in each other here; write it flatter", load.MaxNested)
		case passes <= load.MaxPasses && passes*max(g.step.Repeat, 1) > load.MaxPasses:
			s.errorf(at("repeat"), "with the groups around it this makes each step %d times in an iteration, more than %d; write less", passes*g.step.Repeat, load.MaxPasses)
		}
	}
}

// reach is whether what a step extracts is there for a request.
type reach int

const (
	reaches   reach = iota
	tooLate         // it is extracted afterwards, or by the request's own step
	atOnce          // it is extracted at the same time
	perhapsNo       // it is extracted for each value of a list, which may have none
	unsure          // it is extracted only where a condition holds
)

// to says whether what is extracted is there where it is used.
func (t *extraction) to(u use) reach {
	i := 0
	for i < min(len(t.path), len(u.path)) && t.path[i] == u.path[i] {
		i++
	}
	parted := i < min(len(t.path), len(u.path))
	if parted && t.path[i].branches() {
		return atOnce
	}
	if !parted || t.path[i].child > u.path[i].child {
		if slices.ContainsFunc(t.path[:min(i+1, len(t.path))], turn.passesAtOnce) {
			return atOnce
		}
		return tooLate
	}
	within := t.path[i+1:]
	switch {
	case slices.ContainsFunc(within, turn.passesAtOnce):
		return atOnce
	case slices.ContainsFunc(within, func(w turn) bool { return len(w.in.ForEach) > 0 }):
		return perhapsNo
	case t.conditional, slices.ContainsFunc(within, func(w turn) bool { return len(w.in.If)+len(w.in.While) > 0 }):
		return unsure
	}
	return reaches
}

// comesRound says whether a later pass of a group has what is extracted here.
func (t *extraction) comesRound(u use) bool {
	for i := range min(len(t.path), len(u.path)) {
		if t.path[i].in != u.path[i].in {
			return false
		}
		if t.path[i].again() && !t.path[i].passesAtOnce() {
			return true
		}
		if t.path[i].child != u.path[i].child {
			return false
		}
	}
	return false
}

// item is the placeholder of a group's forEach.
type item struct {
	name string
	list *node // the value that it goes over
	key  *node
	of   place
	used bool
}

// itemsOf are the placeholders of groups.
func itemsOf(groups []place) []*item {
	var out []*item
	for _, g := range groups {
		if p, ok := g.n.pair("forEach"); ok {
			for _, each := range p.value.pairs {
				out = append(out, &item{name: each.key.text, list: each.value, key: each.key, of: g})
			}
		}
	}
	return out
}

// covers says whether the item's placeholder has a value where it is used.
func (i *item) covers(u use) bool {
	return slices.ContainsFunc(u.path, func(t turn) bool { return t.in == i.of.step })
}

// itemOf returns what a placeholder stands for where it is used; nil if that is not the
// value of a list. outside says that it would be, within the group.
func (it *iteration) itemOf(name string, u use) (found *item, outside bool) {
	for _, i := range it.items {
		if i.name != name {
			continue
		}
		if i.covers(u) {
			found = i
		}
		outside = true
	}
	return found, outside && found == nil
}

// matchLists checks what groups go over, and what their placeholders are called.
func (s *section) matchLists(it *iteration, feeds map[string]Feed) {
	for _, i := range it.items {
		name, list := i.name, i.list.text
		if _, ok := feeds[name]; ok {
			i.used = true
			s.errorf(i.key, "%s is a value of forEach here and is a feed; write another name for one of the two", spelling.Quote(name))
		}
		if it.extracts(name) {
			i.used = true
			s.errorf(i.key, "%s is a value of forEach here, and a step extracts it; write another name for one of the two", spelling.Quote(name))
		}
		if around, _ := it.itemOf(name, use{path: i.of.path}); around != nil {
			around.used = true
			s.errorf(i.key, "%s is a value of the forEach around it too; write another name for one of the two", spelling.Quote(name))
		}
		if i.list.kind != text {
			continue // reported
		}
		u := use{n: i.list, path: i.of.path, step: noStep}
		if _, ok := feeds[list]; ok {
			s.errorf(i.list, "forEach goes over a list that a step extracts, and %s is a feed; write a feed's value as a placeholder", spelling.Quote(list))
		} else if !it.extracts(list) {
			s.errorf(i.list, "no step extracts the list %s; write extract: {%s: items.#.id} in an earlier step", spelling.Quote(list), list)
		} else if wrong := it.wrongExtraction(u, list, list); wrong != "" {
			s.errorf(i.list, "%s", wrong)
		}
		for _, t := range it.extractions {
			if t.key.text != list {
				continue
			}
			if _, ok := t.value.pair("header"); ok {
				s.errorf(t.key, "forEach goes over %s, and a header is one value; write a path into a JSON body", list)
			}
			if p, ok := t.value.pair("join"); ok {
				s.errorf(p.key, "forEach goes over %s, and join makes one value of the list; remove join, or extract it under another name too", list)
			}
			for _, key := range []string{"initial", "default"} {
				if p, ok := t.value.pair(key); ok {
					s.errorf(p.key, "forEach goes over %s, which comes from an answer and not from here; remove %s", list, key)
				}
			}
		}
	}
}

// checkBranches refuses a value that is extracted twice at once: which of the two there
// is afterwards would be chance.
func (s *section) checkBranches(it *iteration) {
	for i, later := range it.extractions {
		for _, earlier := range it.extractions[:i] {
			if earlier.key.text == later.key.text && earlier.step != later.step && earlier.to(use{path: later.path}) == atOnce && !earlier.sharesLane(later) {
				s.errorf(later.key, "step %s extracts %s at once with this one; write another name for one of the two", spelling.Quote(it.names[earlier.step]), spelling.Quote(later.key.text))
				break
			}
		}
	}
}

// sharesLane says whether two steps are made by one lane in turn.
func (t *extraction) sharesLane(o *extraction) bool {
	for i := range min(len(t.path), len(o.path)) {
		if t.path[i] != o.path[i] {
			return !t.path[i].branches()
		}
	}
	return true
}

// checkItems refuses the placeholder of a forEach that nothing uses.
func (s *section) checkItems(it *iteration) {
	for _, i := range it.items {
		if !i.used && forms["placeholder"].fits(i.name) {
			s.errorf(i.key, "no step of the group uses {%s}; write it in one, or write repeat in place of forEach", i.name)
		}
	}
}

// notThere says why what a step extracts is not there for a request that is made at once
// with it, or that may be made without it.
func (it *iteration) notThere(name string, t *extraction, how reach) string {
	step := spelling.Quote(it.names[t.step])
	if how == atOnce {
		return fmt.Sprintf("the placeholder {%s} is extracted by step %s, which is made at once with others and not before this; extract it before the group that has parallel", name, step)
	}
	if how == unsure {
		return fmt.Sprintf("{%s} is extracted by step %s only if a condition holds; use it within the same group, or write extract: {%s: {json: PATH, initial: VALUE}}", name, step, name)
	}
	return fmt.Sprintf("the placeholder {%s} is extracted by step %s for each value of a list, which may have none; use it within that forEach, or write extract: {%s: {json: PATH, initial: VALUE}}", name, step, name)
}

// flow returns the parts of a scenario that has groups, for the generator; nil for one
// that has none.
func (sc *Scenario) flow() []load.Part {
	if !slices.ContainsFunc(sc.Steps, func(s Step) bool { return len(s.Steps)+len(s.If) > 0 }) {
		return nil
	}
	next := 0
	var walk func(steps []Step) []load.Part
	walk = func(steps []Step) []load.Part {
		var out []load.Part
		for i := range steps {
			step := &steps[i]
			if len(step.Steps) == 0 {
				out = append(out, load.Part{Step: next, If: step.If.resolve()})
				next++
				continue
			}
			p := load.Part{Repeat: step.Repeat, Parallel: step.Parallel, Parts: walk(step.Steps), If: step.If.resolve(), While: step.While.resolve()}
			for as, list := range step.ForEach {
				p.As, p.ForEach = as, list
			}
			out = append(out, p)
		}
		return out
	}
	return walk(sc.Steps)
}

// requests are the steps that make requests, those of groups included.
func requests(steps []Step) []Step {
	var out []Step
	for i := range steps {
		if len(steps[i].Steps) > 0 {
			out = append(out, requests(steps[i].Steps)...)
		} else {
			out = append(out, steps[i])
		}
	}
	return out
}

// describe refers to the schema of a scenario's steps, which these are once more.
func (*Group) describe(*generator, tag) *schema {
	return &schema{Ref: "#/properties/load/properties/scenarios/additionalProperties/properties/steps"}
}

// rules say that a step makes a request or is a group.
func (*Step) rules(s *schema) {
	var own []string
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		if !slices.Contains(ofGroups(), p.Key) && p.Key != "if" {
			own = append(own, p.Key)
		}
	}
	request, group := without(ofGroups()...), without(own...)
	request.Required = []string{"name"}
	request.OneOf = exactlyOne("request", "grpc")
	group.Required = []string{"steps"}
	group.AnyOf = exactlyOne("repeat", "forEach", "parallel", "if")
	group.Not = either(with("repeat", "forEach"), with("while", "parallel"))
	s.OneOf = []*schema{request, group}
}
