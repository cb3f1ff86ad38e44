package verdict

import (
	"slices"
	"strings"
	"testing"
)

// between is a component at its limit whose bound has an interval over so many trials.
func between(name string, bound, low, high float64, trials int) Component {
	c := component(name, 0.95*bound, 0.95, 0.8)
	c.Bound, c.BoundLow, c.BoundHigh, c.BoundTrials = bound, low, high, trials
	return c
}

// Bounds are told apart by their distance, and by their intervals where enough trials
// made these and the distance is not large.
func TestIntervalsOfBoundsThatOverlap(t *testing.T) {
	t.Parallel()
	const x = 950
	a := between("a", 1000, 850, 1180, 6)
	for name, c := range map[string]struct {
		a, b Component
		want string
	}{
		"close":            {a, between("b", 1080, 1079, 1081, 6), "a b"},
		"apart":            {a, between("b", 1115, 1190, 1300, 6), "a"},
		"they overlap":     {a, between("b", 1115, 950, 1300, 6), "a b"},
		"of three trials":  {between("a", 1000, 850, 1180, 3), between("b", 1115, 950, 1300, 3), "a"},
		"too far apart":    {a, between("b", 1300, 950, 1500, 6), "a"},
		"without interval": {a, between("b", 1115, 0, 0, 0), "a"},
	} {
		in := Input{Capacity: x, Components: []Component{c.a, c.b}}
		w := demand(in, in.limits())
		var names []string
		for _, l := range w.named() {
			names = append(names, l.Component)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: got %q (%s), want %q", name, got, w.Evidence, c.want)
		}
	}
}

// A witness that names several has a voice for one of them, but says what it cannot
// tell it from.
func TestAVoiceForSeveralIsNoFullAgreement(t *testing.T) {
	t.Parallel()
	a, b := between("a", 1000, 995, 1005, 6), between("b", 1150, 1145, 1155, 6)
	v := Evaluate(Input{Capacity: 950, Components: []Component{a, b}}) // both are throttled
	const unsure = "saturation cannot distinguish it from b"
	if v.Status != Named || v.Component != "a" || v.Agreement != "2/2 ("+unsure+")" || !strings.Contains(v.Summary, "But "+unsure+".") || len(v.Dissent) > 0 {
		t.Errorf("got %s %s, agreement %q, dissent %q (%s), want a with %q", v.Status, v.Component, v.Agreement, v.Dissent, v.Summary, unsure)
	}
	b.Throttled, b.Busy = 0.1, 0.5
	if v := Evaluate(Input{Capacity: 950, Components: []Component{a, b}}); v.Agreement != "2/2" || strings.Contains(v.Summary, "But") {
		t.Errorf("only a was held back: got %q (%s), want 2/2 and nothing more", v.Agreement, v.Summary)
	}
	// Of two that are tied, one witness names one alone, and the other is not out.
	b = between("b", 1150, 1145, 1155, 6)
	v = Evaluate(Input{Capacity: 950, Components: []Component{a, b}, Perturbations: []Perturbation{changed("a", 0.25, 0, 0.5), changed("b", 0.6, 0.4, 0.8)}})
	if v.Status != Tied || v.Agreement != "2/3" || !strings.Contains(v.Summary, "But demand names only a of them.") {
		t.Errorf("got %s %s (%s), want a tie and who names only one of them", v.Status, v.Agreement, v.Summary)
	}
}

// That a component used much of its share is what demand says already.
func TestSaturationOfCPUNeedsMoreThanUse(t *testing.T) {
	t.Parallel()
	const x = 1000
	for name, c := range map[string]struct {
		busy, throttled, delay float64
		want                   string
	}{
		"used alone":              {0.98, 0, 0, ""},
		"used, waited a little":   {0.98, 0, 0.6, ""},
		"used and throttled":      {0.86, 0.45, 0, "api"},
		"used, and threads wait":  {0.9, 0, 1.5, "api"},
		"threads wait for others": {0.5, 0, 5, ""},
	} {
		api := component("api", x, c.busy, c.throttled)
		api.RunDelay = c.delay
		in := Input{Capacity: x, Components: []Component{api}}
		w := saturation(in, in.limits())
		if w.Component != c.want {
			t.Errorf("%s: got %q (%s), want %q", name, w.Component, w.Evidence, c.want)
		}
		if v := Evaluate(in); (v.Status == Named) != (c.want != "") {
			t.Errorf("%s: got %s %s, want it named: %v", name, v.Status, v.Agreement, c.want != "")
		}
	}
	api := component("api", x, 0.98, 0)
	v := Evaluate(Input{Capacity: x, Components: []Component{api}, Perturbations: []Perturbation{changed("api", 0.9, 0.7, 1.1)}})
	if v.Status != Named || v.Agreement != "2/3 (saturation names nothing)" {
		t.Errorf("perturbation is a second witness: got %s %s", v.Status, v.Agreement)
	}
}

// A method that names nothing is told once, and contradicts nobody.
func TestSilenceIsNoDissent(t *testing.T) {
	t.Parallel()
	const x = 1000
	spare, idle := component("api", x, 0.7, 0.1), component("db", x, 0.4, 0.05)
	moved := []Perturbation{changed("api", 1.6, 1.3, 1.9), changed("db", 0, -0.2, 0.2)}
	nowhere := []Wait{{Component: "api", LightMS: 5, MS: 6, Visits: 1}, {Component: "db", LightMS: 5, MS: 6, Visits: 1}}
	elsewhere := []Wait{{Component: "api", LightMS: 5, MS: 6, Visits: 1}, {Component: "db", LightMS: 5, MS: 60, Visits: 1}}
	for name, c := range map[string]struct {
		components []Component
		waits      []Wait
		agreement  string
		dissent    []string
	}{
		"perturbation alone":       {[]Component{spare, idle}, nil, "1/3 (demand and saturation name nothing)", nil},
		"nor do requests wait":     {[]Component{spare, idle}, nowhere, "1/4 (demand, saturation and waiting name nothing)", nil},
		"they wait elsewhere":      {[]Component{spare, idle}, elsewhere, "1/4 (demand and saturation name nothing)", nil},
		"two name the other":       {[]Component{spare, component("db", x, 0.95, 0.8)}, nowhere, "1/4 (waiting names nothing)", []string{Demanding, Saturating}},
		"one of them names nobody": {[]Component{component("api", x, 0.9, 0.1), idle}, nil, "2/3 (saturation names nothing)", nil},
	} {
		v := Evaluate(Input{Capacity: x, Components: c.components, Perturbations: moved, Waits: c.waits})
		if v.Status != Named || v.Component != "api" || v.Agreement != c.agreement || !slices.Equal(v.Dissent, c.dissent) {
			t.Errorf("%s: got %s %s, agreement %q, dissent %q, want %q and %q", name, v.Status, v.Component, v.Agreement, v.Dissent, c.agreement, c.dissent)
		}
		if strings.Contains(v.Summary, "But") != (c.dissent != nil) || strings.Contains(v.Summary, "nothing") {
			t.Errorf("%s: %q; want a contradiction where there is one: %q", name, v.Summary, c.dissent)
		}
	}
}

// Where an objective is missed long before a share is used up, what is saturated at the rate
// that was missed is what holds back.
func TestSaturationJustAboveTheCapacity(t *testing.T) {
	t.Parallel()
	const x = 1000
	at := func(c Component, throttled float64) Component {
		c.Missed = &Missed{Rate: 1.1 * x, Busy: 0.8, Throttled: throttled}
		return c
	}
	slow, front := component("slow", x, 0.72, 0.13), component("front", x, 0.6, 0.02)
	for name, c := range map[string]struct {
		components []Component
		want       string
		tied       int
	}{
		"one of them":           {[]Component{at(slow, 0.96), at(front, 0.2)}, "slow", 0},
		"one clearly more":      {[]Component{at(slow, 0.96), at(front, 0.5)}, "slow", 0},
		"both":                  {[]Component{at(slow, 0.96), at(front, 0.9)}, "", 2},
		"neither":               {[]Component{at(slow, 0.3), at(front, 0.2)}, "", 0},
		"not known":             {[]Component{slow, front}, "", 0},
		"saturated below it":    {[]Component{at(slow, 0.96), at(component("front", x, 0.9, 0.8), 0.9)}, "front", 0},
		"nothing enforces that": {[]Component{func() Component { c := at(slow, 0.96); c.Unenforced = true; return c }(), at(front, 0.2)}, "", 0},
	} {
		in := Input{Capacity: x, Components: c.components}
		w := saturation(in, in.limits())
		if w.Component != c.want || len(w.Tied) != c.tied {
			t.Errorf("%s: got %q %v (%s), want %q and %d tied", name, w.Component, w.Tied, w.Evidence, c.want, c.tied)
		}
	}
	in := Input{Capacity: x, Components: []Component{at(slow, 0.96), at(front, 0.2)}}
	if v := Evaluate(in); v.Status != Undecided {
		t.Errorf("it alone: got %s %s, want undecided", v.Status, v.Component)
	}
	in.Perturbations = []Perturbation{changed("slow", 1.6, 1.3, 1.9), changed("front", 0.1, -0.1, 0.3)}
	v := Evaluate(in)
	const says = "at 1,100 req/s, which was not sustained, slow used 80 % of its CPU share and was throttled in 96 % of scheduler periods"
	if v.Status != Named || v.Component != "slow" || v.Agreement != "2/3 (demand names nothing)" || !strings.Contains(v.Witnesses[1].Evidence, says) {
		t.Errorf("with perturbation: got %s %s %s (%s), want 2/3, saying %q", v.Status, v.Component, v.Agreement, v.Witnesses[1].Evidence, says)
	}
}

// What could not use its whole share is bounded by what it could use.
func TestAShareThatCouldNotBeUsed(t *testing.T) {
	t.Parallel()
	const x = 494
	slow := component("slow", 600, 0.72, 0.13) // bound 833
	slow.Bound *= 0.66
	slow.Stranded = 0.2
	v := Evaluate(Input{Capacity: x, Components: []Component{slow}, Perturbations: []Perturbation{changed("slow", 0.9, 0.7, 1.1)}})
	const why, part = "its 0.25 CPU, of which it could use 80 %, allows at most", "and could use 80 % of its share, throttled in every scheduler period, which bounds"
	if v.Status != Named || !strings.Contains(v.Summary, why) || !strings.Contains(v.Witnesses[0].Evidence, part) {
		t.Errorf("got %s, %q, %q; want %q and %q", v.Status, v.Summary, v.Witnesses[0].Evidence, why, part)
	}
}

// One hot partition: the bound is that of the instance that has it, and what helps
// is another balance.
func TestOneHotInstance(t *testing.T) {
	t.Parallel()
	store := Component{Name: "store", Instances: 8, LimitCPUs: 0.12, DemandMS: 1, HottestMS: 0.4, Bound: 300, Busy: 0.95, Throttled: 0.9}
	front := Component{Name: "front", Instances: 1, LimitCPUs: 0.5, DemandMS: 1, HottestMS: 1, Bound: 500, Busy: 0.57}
	for name, c := range map[string]struct {
		front   float64
		hottest float64
		summary string
		advice  string
	}{
		"the hottest": {
			0, 0.4, "each request costs it 1 ms, 40 % of it in the hottest of its 8 instances, whose 0.12 CPU allow at most 300 req/s.",
			"balance store: spread its work evenly over its 8 instances → up to +220 %; no other upper bound is known.",
		},
		"the next limits": {500, 0.4, "40 % of it", "→ up to +67 %, then front limits at 500 req/s."},
		"a little uneven": {0, 0.14, "so its 8 × 0.12 CPU allow at most 300 req/s.", "store CPU: +1 replica → about +12 %"},
	} {
		front.Bound, store.HottestMS = c.front, c.hottest
		v := Evaluate(Input{Capacity: 285, Components: []Component{store, front}})
		if v.Component != "store" || !strings.Contains(v.Summary, c.summary) || !strings.Contains(v.Advice, c.advice) {
			t.Errorf("%s: got %s %q, advice %q, want %q and %q", name, v.Component, v.Summary, v.Advice, c.summary, c.advice)
		}
	}
	store.HottestMS = 0.4
	in := Input{Capacity: 285, Components: []Component{store}}
	const part = "store needs 1 ms CPU for each request, 40 % of it in the hottest of its 8 instances, which bounds throughput at 300 req/s"
	if w := demand(in, in.limits()); !strings.Contains(w.Evidence, part) {
		t.Errorf("demand says %q, want %q", w.Evidence, part)
	}
}

// What was changed only together with others is evidence, and names no component.
func TestAGroupHasNoVoice(t *testing.T) {
	t.Parallel()
	const x = 1000
	group := func(e float64, of ...string) Perturbation {
		p := Perturbation{Elasticity: e, Low: e - 0.2, High: e + 0.2}
		for _, name := range of {
			p.Group = append(p.Group, Limit{Component: name, Resource: CPU})
		}
		return p
	}
	at := func(name string, e float64) Perturbation { return changed(name, e, e-0.2, e+0.2) }
	for name, c := range map[string]struct {
		moved    []Perturbation
		want     string // whom it names
		evidence string
	}{
		"unsplit":                {[]Perturbation{at("a", 0), group(0.98, "b", "c")}, "", "b and c were changed only together"},
		"as much as another":     {[]Perturbation{at("a", 0.7), group(0.6, "b", "c")}, "", "the CPU of b and CPU of c together moves it by 0.60 %"},
		"it does not matter":     {[]Perturbation{at("a", 0.95), group(0.02, "b", "c")}, "a", ""},
		"one of it was it":       {[]Perturbation{at("a", 0), group(0.98, "b", "c"), at("b", 0.95)}, "b", ""},
		"one of it was not":      {[]Perturbation{at("a", 0), group(0.98, "b", "c"), at("b", 0.05)}, "", "b and c were changed only together"},
		"one of it is half":      {[]Perturbation{at("a", 0), group(0.98, "b", "c"), at("b", 0.5)}, "", "remains open"},
		"nothing matters at all": {[]Perturbation{at("a", 0), group(0.02, "b", "c")}, "", "nothing that was changed moves it enough"},
	} {
		w := perturbation(Input{Perturbations: c.moved}, nil)
		if w.Component != c.want || len(w.Tied) > 0 || !strings.Contains(w.Evidence, c.evidence) {
			t.Errorf("%s: got %q %v (%s), want %q and %q", name, w.Component, w.Tied, w.Evidence, c.want, c.evidence)
		}
	}
	// Saturation alone names b, and a group does not make it two.
	a, b := component("a", x, 0.82, 0.1), component("b", x, 0.9, 0.8)
	b.Bound = 2 * x
	v := Evaluate(Input{Capacity: x, Components: []Component{a, b}, Perturbations: []Perturbation{group(0.98, "b", "c")}})
	if v.Status != Undecided {
		t.Errorf("got %s %s %s, want undecided", v.Status, v.Component, v.Agreement)
	}
	// Where two others name it, a group that moved does not deny it; one that did not, does.
	b.Bound = x / 0.9
	a.Bound = 3 * x
	for e, want := range map[float64]string{0.98: Named, 0.02: Undecided} {
		v := Evaluate(Input{Capacity: x, Components: []Component{a, b}, Perturbations: []Perturbation{group(e, "b", "c")}})
		if v.Status != want || len(v.Dissent) > 0 {
			t.Errorf("the group moved it by %v: got %s %s %s, dissent %q, want %s", e, v.Status, v.Component, v.Agreement, v.Dissent, want)
		}
	}
}

// How long threads waited is told as a share, and only where it is why something counts as
// saturated.
func TestWaitingForACoreIsAShare(t *testing.T) {
	t.Parallel()
	const x = 1000
	for name, c := range map[string]struct {
		busy, throttled, delay float64
		says                   string
	}{
		"it decides":             {0.9, 0.1, 3, ", and its threads waited for a core for 75 % of the time in which they had something to do"},
		"throttling does":        {0.9, 0.8, 18.5, ""},
		"it had share to spare":  {0.77, 0.1, 18.5, ""},
		"it waited for a little": {0.9, 0.1, 0.5, ""},
	} {
		api := component("api", x, c.busy, c.throttled)
		api.RunDelay = c.delay
		in := Input{Capacity: x, Components: []Component{api}}
		w := saturation(in, in.limits())
		if strings.Contains(w.Evidence, "waited") != (c.says != "") || !strings.Contains(w.Evidence, c.says) {
			t.Errorf("%s: %q, want %q", name, w.Evidence, c.says)
		}
	}
	free := Component{Name: "web", Instances: 1, DemandMS: 1, RunDelay: 1}
	in := Input{Capacity: x, Components: []Component{free}}
	const says = "the threads of web, which has no CPU share, waited for a core for 50 % of the time in which they had something to do"
	if w := saturation(in, in.limits()); !strings.Contains(w.Evidence, says) {
		t.Errorf("%q, want %q", w.Evidence, says)
	}
}
