package verdict

import (
	"strings"
	"testing"
)

// Who moved throughput is named before who merely looks busy, and who moved nothing is not
// named whatever else speaks for it.
func TestInterventionDecides(t *testing.T) {
	t.Parallel()
	const x = 1000
	api, idle := component("api", x, 0.95, 0.8), component("db", x, 0.4, 0.05)
	busy := component("db", x, 0.75, 0.3)
	for name, c := range map[string]struct {
		components []Component
		moved      []Perturbation
		rate       float64 // of the load meanwhile
		status     string
		component  string
		says       string
	}{
		"another moved it":        {[]Component{api, busy}, []Perturbation{changed("api", 0.1, 0, 0.2), changed("db", 0.8, 0.6, 1)}, x, Named, "db", "But demand names api"},
		"another far from it":     {[]Component{api, idle}, []Perturbation{changed("api", 0.1, 0, 0.2), changed("db", 0.8, 0.6, 1)}, x, Undecided, "", "changing api moved nothing"},
		"nothing moved":           {[]Component{api, idle}, []Perturbation{changed("api", 0.05, -0.1, 0.2), changed("db", 0, -0.2, 0.2)}, x, Undecided, "", "changing it moved nothing"},
		"not clearly nothing":     {[]Component{api, idle}, []Perturbation{changed("api", 0.2, -0.2, 0.6), changed("db", 0, -0.2, 0.2)}, x, Named, "api", ""},
		"the load was too small":  {[]Component{api, idle}, []Perturbation{changed("api", 0.05, -0.1, 0.2)}, 0.5 * x, Named, "api", ""},
		"too small, and it moved": {[]Component{component("api", x, 0.95, 0.1), idle}, []Perturbation{changed("api", 1.1, 0.9, 1.3)}, 0.6 * x, Named, "api", ""},
		"too small, perhaps":      {[]Component{component("api", x, 0.7, 0.1), idle}, []Perturbation{changed("api", 1.1, 0.4, 1.8)}, 0.6 * x, Undecided, "", ""},
		"too small, nobody else":  {[]Component{component("api", x, 0.7, 0.1), idle}, []Perturbation{changed("api", 1.1, 0.9, 1.3)}, 0.6 * x, Undecided, "", "one method alone"},
		"it moved, one agrees":    {[]Component{component("api", x, 0.9, 0.1), idle}, []Perturbation{changed("api", 0.9, 0.7, 1.1)}, x, Named, "api", ""},
		"it moved, nobody agrees": {[]Component{component("api", x, 0.7, 0.1), idle}, []Perturbation{changed("api", 0.9, 0.7, 1.1)}, x, Named, "api", ""},
		"it moved a little":       {[]Component{component("api", x, 0.7, 0.1), idle}, []Perturbation{changed("api", 0.4, 0.2, 0.6)}, x, Undecided, "", ""},
	} {
		v := Evaluate(Input{Capacity: x, Components: c.components, Perturbations: c.moved, PerturbedRate: c.rate})
		if v.Status != c.status || v.Component != c.component || !strings.Contains(v.Summary, c.says) {
			t.Errorf("%s: got %s %q (%s), want %s %q, saying %q", name, v.Status, v.Component, v.Summary, c.status, c.component, c.says)
		}
	}
}

// What moved throughput as much as another did is not named alone, however many of the other
// methods name it: each of the two limits.
func TestWhatMovedAlikeIsNotNamedAlone(t *testing.T) {
	t.Parallel()
	const x = 1000
	api, db := component("api", x, 0.95, 0.8), component("db", x, 0.7, 0.1)
	for name, c := range map[string]struct {
		api, db Perturbation
		status  string
	}{
		"alike":                    {changed("api", 0.61, 0.56, 0.67), changed("db", 0.6, 0.54, 0.65), Tied},
		"the other one less":       {changed("api", 0.61, 0.56, 0.67), changed("db", 0.4, 0.33, 0.47), Named},
		"the other one not surely": {changed("api", 0.61, 0.56, 0.67), changed("db", 0.5, 0.2, 0.8), Named},
		"neither surely":           {changed("api", 0.5, 0.2, 0.8), changed("db", 0.5, 0.2, 0.8), Named},
	} {
		in := Input{Capacity: x, Components: []Component{api, db}, Perturbations: []Perturbation{c.api, c.db}}
		v := Evaluate(in)
		if v.Status != c.status || c.status == Named && v.Component != "api" || c.status == Tied && len(v.Tied) != 2 {
			t.Errorf("%s: got %s %s %v (%s), want %s", name, v.Status, v.Component, v.Tied, v.Summary, c.status)
		}
		if in.PerturbedRate = 0.5 * x; Evaluate(in).Status == Tied {
			t.Errorf("%s: tied, although the load meanwhile was half of the capacity", name)
		}
	}
}

// Of limits that moved throughput alike none is tied before what was not changed and both
// observations name, nor where a group moved it as much.
func TestWhatMovedAlikeMayNotBeAll(t *testing.T) {
	t.Parallel()
	const x = 1000
	alike := []Perturbation{changed("api", 0.45, 0.37, 0.53), changed("db", 0.42, 0.34, 0.5)}
	api, db := component("api", x, 0.7, 0.1), component("db", x, 0.7, 0.1)
	held := api
	held.Resources = []Resource{{Name: "connections", Kind: Pool, Capacity: 4, Busy: 0.97, Full: 0.9, Waiting: 8, WaitMS: 20, DemandMS: 4 / 1.03, Bound: 1.03 * x}}
	group := Perturbation{Group: []Limit{{"one", CPU, ""}, {"two", CPU, ""}}, Elasticity: 0.5, Low: 0.38, High: 0.62}
	for name, c := range map[string]struct {
		components []Component
		moved      []Perturbation
		tied       bool
	}{
		"they are all":         {[]Component{api, db}, alike, true},
		"a pool above them":    {[]Component{held, db}, alike, false},
		"a group, too":         {[]Component{api, db}, append(alike, group), false},
		"their bounds are far": {[]Component{component("api", x, 0.4, 0), component("db", x, 0.4, 0)}, alike, false},
	} {
		v := Evaluate(Input{Capacity: x, Components: c.components, Perturbations: c.moved})
		if tied := v.Status == Tied && strings.Contains(v.Summary, "changed one at a time"); tied != c.tied {
			t.Errorf("%s: got %s %v (%s)", name, v.Status, v.Tied, v.Summary)
		}
	}
}

// More CPU may make answers faster where closed load hides it in the throughput.
func TestResponseTimeCounts(t *testing.T) {
	t.Parallel()
	const x = 1000
	api, db := component("api", x, 0.95, 0.8), component("db", x, 0.4, 0.05)
	faster := func(p Perturbation, value, low, high float64) Perturbation {
		p.Faster, p.More = &Elasticity{value, low, high}, &Elasticity{value, low, high}
		return p
	}
	gains := func(p Perturbation, more *Elasticity) Perturbation {
		p.More = more
		return p
	}
	still := changed("api", 0.05, -0.1, 0.2)
	for name, c := range map[string]struct {
		moved []Perturbation
		want  string
	}{
		"neither":        {[]Perturbation{faster(still, 0.1, -0.1, 0.3), changed("db", 0, -0.2, 0.2)}, Undecided},
		"answers":        {[]Perturbation{faster(still, 0.9, 0.6, 1.2), changed("db", 0, -0.2, 0.2)}, Named},
		"less of it":     {[]Perturbation{gains(faster(still, 0.9, 0.6, 1.2), &Elasticity{0, -0.2, 0.2}), changed("db", 0, -0.2, 0.2)}, Undecided},
		"perhaps more":   {[]Perturbation{gains(faster(still, 0.9, 0.6, 1.2), &Elasticity{0.4, -0.2, 1}), changed("db", 0, -0.2, 0.2)}, Named}, // for what is observed
		"perhaps":        {[]Perturbation{faster(still, 0.9, -0.3, 2.1), changed("db", 0, -0.2, 0.2)}, Undecided},
		"not at all now": {[]Perturbation{faster(still, -0.9, -1.2, -0.6), changed("db", 0, -0.2, 0.2)}, Undecided},
	} {
		v := Evaluate(Input{Capacity: x, Components: []Component{api, db}, Perturbations: c.moved})
		if v.Status != c.want {
			t.Errorf("%s: got %s %s (%s), want %s", name, v.Status, v.Component, v.Summary, c.want)
		}
	}
	v := Evaluate(Input{Capacity: x, Components: []Component{api, db}, Perturbations: []Perturbation{faster(still, 0.9, 0.6, 1.2)}})
	if w := v.Witnesses[2]; w.Component != "api" || !strings.Contains(w.Evidence, "95th percentile of response times 0.90 % shorter") {
		t.Errorf("got %q (%s), want api for its response times", w.Component, w.Evidence)
	}
	for name, more := range map[string]*Elasticity{"perhaps": {0.4, -0.2, 1}, "there were none": nil} {
		v := Evaluate(Input{Capacity: x, Components: []Component{api, db}, Perturbations: []Perturbation{gains(faster(still, 0.9, 0.6, 1.2), more)}})
		if w := v.Witnesses[2]; w.Component != "" || !strings.Contains(w.Evidence, "that more of it makes answers faster is not shown") {
			t.Errorf("steps up gain: %s: got %q (%s), want nobody", name, w.Component, w.Evidence)
		}
	}
}

// More than 1 % for 1 % is explained, and what may be 1 % is not.
func TestElasticitiesAboveOneAreExplained(t *testing.T) {
	t.Parallel()
	const stranded, fixed = "more than 1 % because the part of its share that it could not use, 20 %, does not grow with the share", "more than 1 % as where a part of its CPU goes into work that does not grow with the load"
	for name, c := range map[string]struct {
		stranded float64
		moved    Perturbation
		want     string
	}{
		"stranded":               {0.2, changed("api", 1.25, 0.9, 1.6), stranded},
		"stranded, and about 1":  {0.2, changed("api", 1.05, 0.8, 1.3), ""},
		"not known why":          {0, changed("api", 1.6, 1.3, 1.9), fixed},
		"perhaps 1":              {0, changed("api", 1.25, 0.9, 1.6), ""},
		"another that is not it": {0.2, changed("db", 1.25, 0.9, 1.6), ""},
		"a pool":                 {0.2, Perturbation{Component: "api", Resource: Pool, Name: "p", Elasticity: 1.6, Low: 1.3, High: 1.9}, ""},
		"together":               {0.2, Perturbation{Group: []Limit{{Component: "api", Resource: CPU}, {Component: "db", Resource: CPU}}, Elasticity: 1.6, Low: 1.3, High: 1.9}, ""},
	} {
		api, db := component("api", 1000, 0.7, 0.95), component("db", 1000, 0.4, 0)
		api.Stranded = c.stranded
		w := perturbation(Input{Capacity: 1000, Components: []Component{api, db}, Perturbations: []Perturbation{c.moved}}, nil)
		if strings.Contains(w.Evidence, "more than 1 %") != (c.want != "") || !strings.Contains(w.Evidence, c.want) {
			t.Errorf("%s: got %q, want %q", name, w.Evidence, c.want)
		}
	}
}

// What demand and saturation read from one counter is one voice.
func TestOneCounterIsOneVoice(t *testing.T) {
	t.Parallel()
	const x = 200
	spare := func(r Resource) []Component { return []Component{with(x, r), component("db", x, 0.2, 0)} }
	full := Resource{Name: "connections", Kind: Pool, Capacity: 4, Busy: 0.95, Full: 0.8}
	held := Resource{Name: "ledger", Kind: Lock, Capacity: 1, Busy: 0.95}
	waited := func(r Resource) Resource { r.WaitMS = 20; return r }
	jobs := Resource{Name: "jobs", Kind: Queue, Busy: 0.9, NotEmpty: 0.9, Depth: 3}
	counts := jobs
	counts.Counted = true
	insert := Resource{Name: "insert", Kind: Stage, Busy: 0.97, Rate: x}
	told := insert
	told.Backpressured = new(0.0)
	none := []Perturbation{changed("api", 0, -0.2, 0.2), changed("db", 0.05, -0.2, 0.25)}
	for name, c := range map[string]struct {
		resource Resource
		moved    []Perturbation
		want     string
	}{
		"a pool, nobody counts who waits":  {full, nil, Undecided},
		"a pool with waiters":              {waited(full), nil, Named},
		"a pool, and no CPU matters":       {full, none, Named},
		"a lock":                           {held, nil, Undecided},
		"a lock with waiters":              {waited(held), nil, Named},
		"a lock, and no CPU matters":       {held, none, Named},
		"a lock, and one CPU is not known": {held, none[:1], Undecided},
		"a queue by its depth":             {jobs, nil, Undecided},
		"a queue whose consumer counts":    {counts, nil, Named},
		"a stage by its work":              {insert, nil, Undecided},
		"a stage that tells who holds it":  {told, nil, Named},
		"a stage, and no CPU matters":      {insert, none, Named},
	} {
		v := Evaluate(Input{Capacity: x, Components: spare(c.resource), Perturbations: c.moved})
		if v.Status != c.want || v.Status == Named && v.ResourceName != c.resource.Name {
			t.Errorf("%s: got %s %s (%s), want %s", name, v.Status, v.ResourceName, v.Summary, c.want)
		}
		if c.want == Undecided && len(c.moved) == 0 && !strings.Contains(v.Summary, "one counter alone") {
			t.Errorf("%s: %q does not say that it is one counter", name, v.Summary)
		}
	}
}

// A thread cannot use more than one core, whatever its component may.
func TestASingleThreadIsALimit(t *testing.T) {
	t.Parallel()
	const x = 1000
	loop := func(cpus, used, thread float64) Component {
		c := component("web", x, used/cpus, 0)
		c.LimitCPUs, c.ThreadBusy, c.HottestMS, c.DemandMS = cpus, thread, 1000*used/x, 1000*used/x
		return c
	}
	none := []Perturbation{changed("web", 0, -0.2, 0.2)}
	for name, c := range map[string]struct {
		web   Component
		moved []Perturbation
		want  Limit
	}{
		"a core and a half":       {loop(1.5, 1.02, 0.97), none, Limit{"web", Thread, ""}},
		"not changed":             {loop(1.5, 1.02, 0.97), nil, Limit{}},
		"the work of two threads": {loop(1.5, 1.02, 0.51), none, Limit{}},
		"a thread with time":      {loop(1.5, 0.8, 0.7), none, Limit{}},
	} {
		v := Evaluate(Input{Capacity: x, Cores: 4, Components: []Component{c.web}, Perturbations: c.moved})
		if got := (Limit{v.Component, v.Resource, v.ResourceName}); got != c.want {
			t.Errorf("%s: got %+v (%s), want %+v", name, got, v.Summary, c.want)
		}
		if c.want.Resource == Thread && !strings.Contains(v.Advice, "run more processes") {
			t.Errorf("%s: advice %q, want more processes", name, v.Advice)
		}
	}
	// Without a share it is bounded by the cores of the machine, and by its thread.
	web := loop(0, 0.98, 0.96)
	web.LimitCPUs, web.Bound, web.Busy = 0, 0, 0
	if v := Evaluate(Input{Capacity: x, Cores: 4, Components: []Component{web}, Perturbations: none}); v.Resource != Thread {
		t.Errorf("without a share: got %s %s (%s), want its thread", v.Status, v.Resource, v.Summary)
	}
}

// A share that nothing enforces is no limit; the machine's cores are.
func TestLimitsThatAreNotEnforced(t *testing.T) {
	t.Parallel()
	const x = 1000
	api := component("api", x, 0.95, 0) // of its quarter of a core
	api.HottestMS, api.RunDelay = api.DemandMS, 2
	if v := Evaluate(Input{Capacity: x, Cores: 2, Components: []Component{api}}); v.Status != Named {
		t.Fatalf("enforced: got %s, want it named", v.Status)
	}
	api.Unenforced = true
	v := Evaluate(Input{Capacity: x, Cores: 2, Components: []Component{api}})
	if v.Status != Undecided || !strings.Contains(v.Witnesses[0].Evidence, "capacity is 12 % of that") {
		t.Errorf("got %s (%s), want undecided, an eighth of two cores", v.Status, v.Witnesses[0].Evidence)
	}
	if !strings.Contains(v.Witnesses[1].Evidence, "nothing holds to its 0.25 CPU") {
		t.Errorf("got %q, want it to say that the share is not enforced", v.Witnesses[1].Evidence)
	}
}

// What is advised would help.
func TestAdviceFitsTheCause(t *testing.T) {
	t.Parallel()
	const x = 1000
	one := component("web", x, 0.96, 0.8)
	one.LimitCPUs, one.ThreadBusy, one.HottestMS = 1, 0.94, 0.96
	half := component("web", x, 0.96, 0.8)
	half.LimitCPUs, half.ThreadBusy = 0.75, 0.71
	many := one
	many.ThreadBusy = 0.3
	garbage := many
	garbage.DemandMS, garbage.CollectMS = 0.96, 0.5
	slots := with(x, Resource{Name: "connections", Kind: Pool, Capacity: 8, Busy: 0.97, Full: 0.9, Waiting: 5})
	quick, slow := component("db", x, 0.2, 0), component("db", x, 0.2, 0)
	slow.DemandMS = 0.8 * slots.Resources[0].DemandMS
	moved := []Perturbation{{Component: "api", Resource: Pool, Name: "connections", Elasticity: 0.9, Low: 0.7, High: 1.1}}
	for name, c := range map[string]struct {
		components []Component
		moved      []Perturbation
		want       string
	}{
		"an event loop with a core":     {[]Component{one}, nil, "run a second process"},
		"an event loop with less":       {[]Component{half}, nil, "0.75 → 1 core, which is all"},
		"threads that share the work":   {[]Component{many}, nil, "1 → 1.5 cores"},
		"a collector":                   {[]Component{garbage}, nil, "more memory, or less garbage: 52 % of its CPU"},
		"a pool before somebody slow":   {[]Component{slots, quick}, nil, "find out what its slots wait for"},
		"a pool before a known service": {[]Component{slots, slow}, nil, "8 → 10 slots"},
		"a pool that was made larger":   {[]Component{slots, quick}, moved, "8 → 10 slots"},
	} {
		v := Evaluate(Input{Capacity: x, Cores: 4, Components: c.components, Perturbations: c.moved})
		if v.Status != Named || !strings.Contains(v.Advice, c.want) {
			t.Errorf("%s: got %s, advice %q, want %q", name, v.Status, v.Advice, c.want)
		}
	}
}
