package predict

import (
	"fmt"

	"loadstone/lab/format"
)

// A share of more than one core helps a program only that works on several threads. An
// event loop (Node, Redis, Python's asyncio) works on one, however much CPU it is given.

// oneThread is the share of a component's CPU on its busiest thread from which on it is
// taken to have no other that could do the work. The rest, such as collecting garbage, goes
// on beside it.
const oneThread = 0.8

// usable is the share of CPU that a change lets a component use; nil if it changes none.
func (s *System) usable(c Change) *float64 {
	on := s.oneThread[c.Service]
	if c.CPUs == nil || on < oneThread || *c.CPUs*on <= 1 {
		return c.CPUs
	}
	return new(1 / on)
}

// threads says what of the changes rests on threads.
func (s *System) threads(a *Answer, cs []Change) {
	for _, c := range cs {
		if c.CPUs == nil || *c.CPUs <= 1 {
			continue
		}
		if used := s.usable(c); *used < *c.CPUs {
			a.Warnings = append(a.Warnings, fmt.Sprintf(
				"%s did %s of its work on one thread, as an event loop does, and a thread can use one core: of %s CPU it can use about %s, which is what the prediction is for; more replicas help, or more threads",
				c.Service, format.Percent(s.oneThread[c.Service]), format.Setting(*c.CPUs), format.Measured(*used)))
			continue
		}
		a.Assumptions = append(a.Assumptions, fmt.Sprintf(
			"the work of %s spreads over %s cores: a program of one thread, such as an event loop, can use one", c.Service, format.Setting(*c.CPUs)))
	}
}
