package verdict

import (
	"fmt"
	"slices"

	"loadstone/lab/format"
)

// heldBackMuch is the share of time in which a stage that is held back cannot
// hand on: below it Flink, too, shows a task as not back-pressured.
const heldBackMuch = 0.10

// stages says which stage limits each pipeline, and marks it as held. The rule:
//
//  1. A stage is busy if its hottest worker works for BusyMuch of the time, and it
//     falls behind if pilesUp or more of what comes stays in front of it.
//  2. It is held back by a later one if it cannot hand on for heldBackMuch of the
//     time. Where it does not tell, it is taken to be if a later one is busy or
//     falls behind: it may look busy because it waits.
//  3. The limit is the first stage that falls behind and is not held back, or else
//     the first that is busy and is not held back. One that falls behind goes
//     first because an earlier one that is merely busy can be far enough ahead of
//     it; a buffer without a bound hides which of them is slower.
//
// What comes after the limit gets less than it could do, and what is before it
// waits to hand on, so both have time to spare. Stages on branches that do not
// follow each other can limit side by side; then all of them are marked.
func stages(limits []limit) {
	p := pipelinesOf(limits)
	decided := make(map[*limit]bool) // by the first stage of each
	for _, falls := range []bool{true, false} {
		found := slices.DeleteFunc(slices.Clone(p.stages), func(s *limit) bool { return decided[p.first(s)] || !p.candidate(s, falls) })
		for _, s := range found {
			s.saturated = !slices.ContainsFunc(found, func(f *limit) bool { return p.follows(s, f) })
			decided[p.first(s)] = true
		}
	}
}

// pipelines are the stages of a system and what comes before each.
type pipelines struct {
	stages []*limit
	before map[*limit]*limit // nil for the first of a pipeline
}

func pipelinesOf(limits []limit) pipelines {
	p := pipelines{before: make(map[*limit]*limit)}
	called := make(map[string]*limit)
	for i := range limits {
		if limits[i].Resource == Stage {
			p.stages = append(p.stages, &limits[i])
			called[limits[i].Component+"."+limits[i].Name] = &limits[i]
		}
	}
	for _, s := range p.stages {
		if from := called[s.resource.After]; from != nil && !p.follows(from, s) && from != s { // no circles
			p.before[s] = from
		}
	}
	return p
}

// follows says whether stage s comes after t.
func (p pipelines) follows(s, t *limit) bool {
	for s = p.before[s]; s != nil; s = p.before[s] {
		if s == t {
			return true
		}
	}
	return false
}

// first is the stage with which the pipeline of s begins.
func (p pipelines) first(s *limit) *limit {
	for p.before[s] != nil {
		s = p.before[s]
	}
	return s
}

// candidate says whether s falls behind, or else is busy, and is not held back.
func (p pipelines) candidate(s *limit, falls bool) bool {
	if falls && !s.resource.Behind() || !falls && s.busy < BusyMuch {
		return false
	}
	if b := s.resource.Backpressured; b != nil {
		return *b < heldBackMuch
	}
	return !slices.ContainsFunc(p.stages, func(t *limit) bool {
		return p.follows(t, s) && (t.busy >= BusyMuch || t.resource.Behind())
	})
}

// Behind says whether more comes to a stage than it does, so that a twentieth or
// more of it stays.
func (r Resource) Behind() bool {
	return r.Kind == Stage && r.Slope > 0 && r.NotEmpty >= waitingMuch && r.Slope >= pilesUp*(r.Rate+r.Slope)
}

// withoutFollowers leaves out stages that are not the limit of their pipeline,
// where that limit is among them.
func withoutFollowers(limits []limit) []limit {
	isLimit := func(l limit) bool { return l.Resource == Stage && l.saturated }
	if !slices.ContainsFunc(limits, isLimit) {
		return limits
	}
	return slices.DeleteFunc(limits, func(l limit) bool { return l.Resource == Stage && !l.saturated })
}

func (r Resource) stageEvidence(c Component) string {
	text := fmt.Sprintf("%s worked in its stage %s for %.0f %% of the time and did %s/s", c.Name, r.Name, 100*r.Busy, format.Rounded(r.Rate))
	if r.Workers > 1 && r.BusyWorkers > 0 && r.BusyWorkers < r.Workers {
		are := "were"
		if r.BusyWorkers <= 1 {
			are = "was"
		}
		text += fmt.Sprintf("; %.3g of its %.3g workers %s busy", r.BusyWorkers, r.Workers, are)
	}
	if r.Backpressured != nil {
		text += fmt.Sprintf(", blocked by later stages for %.0f %% of it", 100**r.Backpressured)
	}
	if r.Depth > 0 || r.Slope > 0 {
		text += fmt.Sprintf(", with %.3g waiting and growing by %.3g each second", r.Depth, r.Slope)
	}
	return text
}

// flush says what a queue or a stage still had to do when the load was over.
func (r Resource) flush(in Input, c Component) string {
	what := r.Kind + " " + r.Name + " of " + c.Name
	switch {
	case r.Flushed > 0:
		return fmt.Sprintf("; %s were accepted, and the %s did %s/s of it while loaded and %s more within %.1f s after the load, out of what was buffered",
			in.rate(in.Capacity), what, format.Rounded(r.Rate), format.Rounded(r.Flushed), r.FlushSeconds)
	case r.Left > 0:
		return fmt.Sprintf("; in front of the %s %s more waited when the load ended than when it began", what, format.Rounded(r.Left))
	}
	return ""
}
