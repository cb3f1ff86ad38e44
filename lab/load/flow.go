package load

import (
	"slices"
	"time"
)

// Part is a part of an iteration that does more than make its steps in turn: a step, or
// a group of parts. The parts of a group are done in turn, as often as Repeat says or
// once for each value of a list; with Parallel its passes are done at once, or its parts
// where it has one pass.
//
// A request of a group that ends without an answer, or whose answer lacks a value that
// it should bring, ends the iteration, as it does outside of groups. What else is to be
// done at once with it is done first, as k6's http.batch does.
type Part struct {
	// Step is the place in Scenario.Steps of a part that is a step.
	Step int `json:"step"`
	// Parts are what a group does.
	Parts []Part `json:"parts,omitempty"`
	// Repeat is how many passes a group makes; 0 is one.
	Repeat int `json:"repeat,omitempty"`
	// ForEach names a value that an earlier step extracted, a JSON list: a pass is
	// made for each of its values, which is the value of the placeholder As then.
	ForEach string `json:"for_each,omitempty"`
	As      string `json:"as,omitempty"`
	// If has the part be left out where not all of these hold; it is looked at each time
	// that the part is due.
	If []Condition `json:"if,omitempty"`
	// While ends a group that repeats before a pass for which not all of these hold.
	While []Condition `json:"while,omitempty"`
	// Parallel is how many of a group's passes, or parts, are under way at once: over
	// HTTP/1.1 on so many connections of the virtual user, over HTTP/2 as streams of
	// its one. 0 is one after the other. Groups in such a group are done in turn.
	Parallel int `json:"parallel,omitempty"`
}

// Condition is what a value must be: one of Is, if there are any, and none of Not.
type Condition struct {
	// Value is the name of a placeholder: of what a step extracts, of a group's list, or of
	// a feed.
	Value string   `json:"value"`
	Is    []string `json:"is,omitempty"`
	Not   []string `json:"not,omitempty"`
}

// Holds says whether the condition holds for a value.
func (c *Condition) Holds(value string) bool {
	return (len(c.Is) == 0 || slices.Contains(c.Is, value)) && !slices.Contains(c.Not, value)
}

// Conditions are those of all parts of the scenario's flow.
func (s *Scenario) Conditions() []Condition {
	var out []Condition
	var walk func(parts []Part)
	walk = func(parts []Part) {
		for i := range parts {
			out = append(append(out, parts[i].If...), parts[i].While...)
			walk(parts[i].Parts)
		}
	}
	walk(s.Flow)
	return out
}

// Bounds on groups.
const (
	// MaxNested is how deep groups may lie in each other.
	MaxNested = 4
	// MaxPasses is how often a step may be repeated by the groups around it.
	MaxPasses = 100_000

	maxParallel = 100
)

// MaxListed bounds the values of a list that a step extracts for a ForEach. An answer
// with more fails.
const MaxListed = 10_000

// eachGroup calls do for each group among parts, and in them.
func eachGroup(parts []Part, do func(*Part)) {
	for i := range parts {
		if len(parts[i].Parts) > 0 {
			do(&parts[i])
			eachGroup(parts[i].Parts, do)
		}
	}
}

// Lanes is the most requests that one virtual user has under way at once.
func (s *Scenario) Lanes() int {
	most := 1
	eachGroup(s.Flow, func(p *Part) { most = max(most, p.Parallel) })
	return most
}

// listed is how many values a list is taken to have before it is there.
const listed = 10

// InTurn is how many requests of an iteration are made one after the other, at most, if
// each list has ten values.
func (s *Scenario) InTurn() int {
	return max(1, int(s.longest(func(int) float64 { return 1 })))
}

// Pauses is how long an iteration thinks, at most, if each list has ten values.
func (s *Scenario) Pauses() time.Duration {
	sum := s.longest(func(step int) float64 { return float64(s.Steps[step].Think[1]) })
	return time.Duration(min(sum, float64(maxTime)))
}

// longest adds up what the steps of an iteration cost that are made one after the other.
func (s *Scenario) longest(cost func(step int) float64) (sum float64) {
	if s.Flow != nil {
		return longest(s.Flow, cost)
	}
	for i := range s.Steps {
		if s.Weighted {
			sum = max(sum, cost(i))
		} else {
			sum += cost(i)
		}
	}
	return sum
}

func longest(parts []Part, cost func(step int) float64) (sum float64) {
	for i := range parts {
		p := &parts[i]
		if len(p.Parts) == 0 {
			sum += cost(p.Step)
			continue
		}
		passes := max(p.Repeat, 1)
		if p.ForEach != "" {
			passes = listed
		}
		if p.Parallel > 0 {
			passes = (passes + p.Parallel - 1) / p.Parallel
		}
		sum += float64(passes) * longest(p.Parts, cost)
	}
	return sum
}

// Items are the placeholders that stand for values of lists.
func (s *Scenario) Items() []string {
	var out []string
	eachGroup(s.Flow, func(p *Part) {
		if p.As != "" {
			out = append(out, p.As)
		}
	})
	return out
}

// Lists are the values that are extracted as lists.
func (s *Scenario) Lists() []string {
	var out []string
	eachGroup(s.Flow, func(p *Part) {
		if p.ForEach != "" {
			out = append(out, p.ForEach)
		}
	})
	return out
}
