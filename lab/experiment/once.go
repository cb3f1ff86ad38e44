package experiment

import (
	"slices"
	"time"

	"loadstone/block/spelling"
	"loadstone/lab/load"
)

// onceWithin is how long setup and teardown may take, each, as in k6.
const onceWithin = time.Minute

// once is a group of steps as a scenario that is made once; nil for no steps.
func (g *Group) once(name string) *load.Scenario {
	if len(*g) == 0 {
		return nil
	}
	sc := Scenario{
		Name: name, Executor: load.PerVUIterations, VUs: 1, Iterations: 1, MaxDuration: onceWithin, GracefulStop: 0,
		Arrivals: load.Poisson, Steps: *g,
	}
	out := sc.resolve()
	return &out
}

// setupOf are the values that the setup of a load extracts, by name. n is the load.
func setupOf(n *node) map[string]*extraction {
	given := map[string]*extraction{}
	var walk func(steps *node)
	walk = func(steps *node) {
		for _, step := range steps.items {
			if extract, ok := step.pair("extract"); ok {
				for _, p := range extract.value.pairs {
					given[p.key.text] = &extraction{key: p.key, value: p.value}
				}
			}
			if below, ok := step.pair("steps"); ok {
				walk(below.value)
			}
		}
	}
	if setup, ok := n.pair("setup"); ok {
		walk(setup.value)
	}
	return given
}

// checkOnce checks the steps that are made once. What setup extracts may be for the
// scenarios, which have been read, or for teardown.
func (l *Offer) checkOnce(s *section) {
	before := len(s.errs)
	var all []*iteration
	for _, group := range []struct {
		key   string
		steps Group
		given map[string]*extraction
	}{{"setup", l.Setup, nil}, {"teardown", l.Teardown, s.fromSetup}} {
		f := s.fields[group.key]
		if !f.sound {
			continue
		}
		sc := &Scenario{Name: group.key, Steps: group.steps}
		sc.checkSteps(s, f.n)
		it := &iteration{scenario: group.key, given: group.given, once: true}
		it.steps(sc, f.n)
		s.match(it, nil)
		all = append(all, it)
	}
	if len(s.errs) > before {
		return
	}
	for _, it := range all {
		for _, t := range it.extractions {
			if of := s.fromSetup[t.key.text]; it.given == nil && of != nil {
				t.used = t.used || of.used
			}
		}
		s.checkExtracted(it)
		s.checkItems(it)
		s.checkBranches(it)
	}
}

// matchGiven refuses names that setup gives to values of its own.
func (s *section) matchGiven(it *iteration) {
	for _, t := range it.extractions {
		if it.given[t.key.text] != nil {
			it.given[t.key.text].used = true
			s.errorf(t.key, "%s is extracted here and in setup; write another name for one of the two", spelling.Quote(t.key.text))
		}
	}
	feeds := s.fields["feed"]
	if !feeds.given() {
		return
	}
	for _, p := range feeds.n.pairs {
		if it.given[p.key.text] != nil {
			it.given[p.key.text].used = true
			s.errorf(p.key, "%s is a feed here and is extracted in setup; write another name for one of the two", spelling.Quote(p.key.text))
		}
	}
}

// gives says whether setup has a value for a placeholder, and marks it as used.
func (it *iteration) gives(name string) bool {
	t := it.given[name]
	if t == nil || it.extracts(name) {
		return false
	}
	t.used = true
	return !slices.ContainsFunc(it.recovered, func(r *extraction) bool { return r.key.text == name })
}
