package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"loadstone/lab/format"
)

// Wait is how long requests stay with one component, or with a service outside the file,
// as seen from outside: from the last byte of a request to the first of its answer, less
// the time in which it waited for others.
type Wait struct {
	Component string // a service, or an address where Outside
	Outside   bool
	// LightMS and MS are of one visit, at a tenth of the capacity and at it.
	LightMS float64
	MS      float64
	Visits  float64 // for each iteration
	// CallMS is for how long one visit waits for others at a tenth of the capacity, and
	// Calls how many of its calls were under way at the capacity, on average; most of these
	// were to CallsTo.
	CallMS  float64
	Calls   float64
	CallsTo string
}

// Located is where requests wait.
type Located struct {
	// Component is a service or, where Outside, the address of one that is not in the file.
	Component string `json:"component"`
	Outside   bool   `json:"outside,omitempty"`
	// LightMS and MS are the time of one visit there, at a tenth of the capacity and at it.
	LightMS float64 `json:"light_ms"`
	MS      float64 `json:"ms"`
	// Share is the part of the time that was added to a request between the two, 0 to 1.
	Share float64 `json:"share"`
	// AtOnce is how many requests it works on at a time, by Little's law; where most of that
	// is waiting for others, how many calls it has under way, and CallsTo to whom most of them.
	AtOnce  float64 `json:"at_once"`
	CallsTo string  `json:"calls_to,omitempty"`
}

const (
	// mostOfIt is the share of the added time from which on it is where requests wait.
	mostOfIt = 0.60
	// grows is by how much longer a visit takes there, at the least, and growsMS by how many
	// milliseconds: less is what any queue adds. A search ends some per cent below the limit,
	// where a queue before seven slots that take the same time for all adds half of that time.
	grows   = 1.5
	growsMS = 1
)

// located is where requests wait: where most of the time is spent that they take longer
// at the capacity than at a tenth of it. It is nil if that is nowhere, or not known.
func (in Input) located() *Located {
	added := func(w Wait) float64 { return max(0, w.Visits*(w.MS-w.LightMS)) }
	sum := 0.0
	for _, w := range in.Waits {
		sum += added(w)
	}
	if len(in.Waits) == 0 || sum <= 0 {
		return nil
	}
	most := slices.MaxFunc(in.Waits, func(a, b Wait) int { return cmp.Compare(added(a), added(b)) })
	if added(most) < mostOfIt*sum || added(most) < growsMS || most.MS < grows*most.LightMS {
		return nil
	}
	l := &Located{Component: most.Component, Outside: most.Outside, LightMS: most.LightMS, MS: most.MS, Share: added(most) / sum}
	l.AtOnce = in.done() * most.Visits * most.LightMS / 1000
	if most.CallMS >= most.LightMS { // what it holds while it waits for others
		l.AtOnce, l.CallsTo = most.Calls, most.CallsTo
	}
	return l
}

// waiting is the method that looks at where requests wait.
func waiting(l *Located) Witness {
	w := Witness{Name: Waiting}
	if l == nil {
		w.Evidence = "no component is where requests wait: none takes most of the time that is added between a tenth of the capacity and the capacity"
		return w
	}
	if !l.Outside {
		w.Component = l.Component
	}
	w.Evidence = fmt.Sprintf("requests wait %s: its own time is %s at a tenth of the capacity and %s at it, which is %.0f %% of the time that is added",
		l.where(), format.Demand(l.LightMS), format.Demand(l.MS), 100*l.Share)
	w.Evidence += l.atOnce()
	return w
}

func (l *Located) where() string {
	if l.Outside {
		return "for " + l.Component + ", which is no service of the file"
	}
	return "in " + l.Component
}

// leastAtOnce is how many at a time are worth a word: less is a part of a core.
const leastAtOnce = 0.75

func (l *Located) atOnce() string {
	if l.AtOnce < leastAtOnce {
		return ""
	}
	if l.CallsTo != "" {
		return fmt.Sprintf("; it has about %.2g calls to %s under way at a time", l.AtOnce, l.CallsTo)
	}
	return fmt.Sprintf("; it works on about %.2g at a time", l.AtOnce)
}

// sentence is what a summary that names nothing says of it.
func (l *Located) sentence() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf(" Requests wait %s: its own time grows from %s to %s%s.", l.where(), format.Demand(l.LightMS), format.Demand(l.MS), l.atOnce())
}

// slower is by how much longer whoever is called takes at the capacity, from which on more
// calls at a time are of no use.
const slower = 1.5

// advice is what to do about where requests wait; empty if that is not known.
func (l *Located) advice(in Input) string {
	switch {
	case l == nil:
		return ""
	case l.Outside:
		return fmt.Sprintf("%s is what holds back: ask it for less, or have it made faster; nothing that is changed in the file helps.", l.Component)
	case l.CallsTo != "":
		i := slices.IndexFunc(in.Waits, func(w Wait) bool { return w.Component == l.CallsTo })
		if i >= 0 && in.Waits[i].MS >= slower*in.Waits[i].LightMS {
			return fmt.Sprintf("look at %s: it takes %s for what takes it %s at a tenth of the capacity, so that more calls from %s at a time are of no use.",
				l.CallsTo, format.Demand(in.Waits[i].MS), format.Demand(in.Waits[i].LightMS), l.Component)
		}
		return fmt.Sprintf("%s: let more than about %.2g calls to %s be under way at a time (its pool of connections, or its threads), and declare what bounds them in x-resources.", l.Component, l.AtOnce, l.CallsTo)
	case l.AtOnce < leastAtOnce:
		return ""
	case l.AtOnce < oneAtATime:
		return fmt.Sprintf("%s: find out what it has only one of: a thread, a lock, a disk; declare it in x-resources.", l.Component)
	}
	return fmt.Sprintf("%s: find out what it has about %.2g of: workers, threads, connections; declare it in x-resources, and let it have more.", l.Component, l.AtOnce)
}

// oneAtATime is what is about one: the next is two.
const oneAtATime = 1.4
