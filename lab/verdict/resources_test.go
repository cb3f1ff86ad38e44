package verdict

import (
	"slices"
	"strings"
	"testing"
)

// with adds a resource to a component that has CPU to spare.
func with(capacity float64, r Resource) Component {
	if r.Busy > 0 && r.Bound == 0 {
		r.Bound = capacity / r.Busy
		r.DemandMS = 1000 * max(1, r.Capacity) * r.Busy / capacity
	}
	c := component("api", capacity, 0.3, 0.02)
	c.Resources = []Resource{r}
	return c
}

func TestJudgeNamesResources(t *testing.T) {
	t.Parallel()
	const x = 200
	pool := func(busy, full float64) Component {
		return with(x, Resource{Name: "connections", Kind: Pool, Capacity: 4, Busy: busy, Full: full, Waiting: 3})
	}
	lock := func(busy float64) Component {
		return with(x, Resource{Name: "ledger", Kind: Lock, Capacity: 1, Busy: busy, WaitMS: 20})
	}
	queue := func(r Resource) Component {
		r.Name, r.Kind, r.Counted = "jobs", Queue, true
		return with(x, r)
	}
	noBound := func(c Component) Component { c.Bound = 0; return c }
	for name, c := range map[string]struct {
		components []Component
		status     string
		limit      Limit
	}{
		"a pool that is full":      {[]Component{pool(0.95, 0.8)}, Named, Limit{"api", Pool, "connections"}},
		"a pool that is half full": {[]Component{pool(0.5, 0.1)}, Undecided, Limit{}},
		// Bursts fill it, and its bound is far away.
		"a pool that is full at times": {[]Component{pool(0.6, 0.5)}, Undecided, Limit{}},
		"a lock that is always held":   {[]Component{lock(0.93)}, Named, Limit{"api", Lock, "ledger"}},
		"a lock with time to spare":    {[]Component{lock(0.7)}, Undecided, Limit{}},
		"a lock at four fifths":        {[]Component{lock(0.82)}, Undecided, Limit{}},
		"a queue never empty":          {[]Component{queue(Resource{Busy: 0.95, NotEmpty: 0.82, Depth: 3})}, Named, Limit{"api", Queue, "jobs"}},
		"a queue empty half the time":  {[]Component{queue(Resource{Busy: 0.82, NotEmpty: 0.5, Depth: 1})}, Undecided, Limit{}},
		"a queue that grows":           {[]Component{queue(Resource{Busy: 0.82, Slope: 15})}, Named, Limit{"api", Queue, "jobs"}},
		"a queue with ups and downs":   {[]Component{queue(Resource{Busy: 0.82, Slope: 4})}, Undecided, Limit{}},
		"a queue half full":            {[]Component{queue(Resource{Busy: 0.82, Depth: 12, Capacity: 20})}, Named, Limit{"api", Queue, "jobs"}},
		"a queue with room":            {[]Component{queue(Resource{Busy: 0.82, Depth: 5, Capacity: 20})}, Undecided, Limit{}},
		"a queue that turns away":      {[]Component{queue(Resource{Busy: 0.82, Full: 0.5, Capacity: 20})}, Named, Limit{"api", Queue, "jobs"}},
		// Its slots are held by those who wait for the store.
		"a pool before a full store": {[]Component{pool(0.97, 0.9), component("store", x, 0.94, 0.7)}, Named, Limit{"store", CPU, ""}},
		// The store is warm, but the pool is what is full.
		"a pool before a warm store": {[]Component{pool(0.98, 0.9), component("store", x, 0.83, 0.3)}, Named, Limit{"api", Pool, "connections"}},
		"memory alone": {
			[]Component{noBound(Component{Name: "db", OOMKills: 1}), component("api", x, 0.3, 0)}, Undecided, Limit{},
		},
	} {
		v := Evaluate(Input{Capacity: x, Components: c.components})
		got := Limit{v.Component, v.Resource, v.ResourceName}
		if v.Status != c.status || got != c.limit {
			t.Errorf("%s: got %s %+v (%s; %+v), want %s %+v", name, v.Status, got, v.Summary, v.Witnesses, c.status, c.limit)
		}
		if v.Status == Named && (v.Agreement != "2/2" || v.Advice == "" || len(v.Dissent) > 0) {
			t.Errorf("%s: agreement %q, dissent %q, advice %q", name, v.Agreement, v.Dissent, v.Advice)
		}
	}
}

func TestMemoryIsHeldBackOnlyWhenItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		component Component
		want      string
	}{
		"killed":                     {Component{OOMKills: 1}, Memory},
		"waits":                      {Component{MemoryStall: 0.4}, Memory},
		"waits a little":             {Component{MemoryStall: 0.1}, ""},
		"reads pages back":           {Component{MemoryFails: 5, MajorFaults: 500}, Memory},
		"reads pages, has room":      {Component{MajorFaults: 500}, ""},
		"drops cache, reads nothing": {Component{MemoryFails: 5, MajorFaults: 3}, ""},
	} {
		c.component.Name = "db"
		in := Input{Capacity: 10, Components: []Component{c.component}}
		w := saturation(in, in.limits())
		if w.Resource != c.want {
			t.Errorf("%s: got %q (%s), want %q", name, w.Resource, w.Evidence, c.want)
		}
	}
}

// changed is what changing a component's CPU did.
func changed(component string, elasticity, low, high float64) Perturbation {
	return Perturbation{Component: component, Resource: CPU, Elasticity: elasticity, Low: low, High: high}
}

func TestTiesAreSaid(t *testing.T) {
	t.Parallel()
	const x = 1000
	left, right := component("left", x, 0.95, 0.8), component("right", x, 0.93, 0.8)
	v := Evaluate(Input{Capacity: x, Components: []Component{left, right}, Perturbations: []Perturbation{
		changed("left", 0.8, 0.6, 1), changed("right", 0.75, 0.5, 1),
	}})
	if v.Status != Tied || v.Agreement != "3/3" || len(v.Tied) != 2 || !strings.Contains(v.Summary, "left and right are equally limiting") {
		t.Errorf("got %+v, want left and right tied, 3/3", v)
	}
	for name, c := range map[string]struct {
		moved []Perturbation
		want  string
	}{
		"noise between equals": {[]Perturbation{changed("left", 0.26, 0, 0.52), changed("right", 0.55, 0.29, 0.81)}, Tied},
		"perhaps only one":     {[]Perturbation{changed("left", 0.2, -0.05, 0.45), changed("right", 0.96, 0.71, 1.21)}, Tied},
		"both move, surely":    {[]Perturbation{changed("left", 0.34, 0.25, 0.43), changed("right", 0.54, 0.45, 0.64)}, Tied},
		"only one, clearly":    {[]Perturbation{changed("left", 0.02, -0.1, 0.14), changed("right", 0.9, 0.8, 1)}, Named},
	} {
		if v := Evaluate(Input{Capacity: x, Components: []Component{left, right}, Perturbations: c.moved}); v.Status != c.want {
			t.Errorf("%s: got %s %s, want %s", name, v.Status, v.Component, c.want)
		}
	}
	// In slots that are as short as a queue takes to move from one to the other, who comes
	// first looks as if it did not matter.
	in := Input{Capacity: x, Components: []Component{left, right}, Settling: 0.9, SettleSeconds: 0.9, LongSlots: 38, Perturbations: []Perturbation{changed("left", -0.03, -0.28, 0.23), changed("right", 0.86, 0.6, 1.11)}}
	const short = "; but slots were too short for queues to move from one component to another, which takes 0.9 s, so that left may limit all the same (perturb: {budget: 38s} makes them long enough)"
	if v := Evaluate(in); v.Status != Tied || len(v.Witnesses[2].Tied) != 2 || !strings.HasSuffix(v.Witnesses[2].Evidence, short) {
		t.Errorf("in short slots: got %s %s (%s), want a tie, saying %q", v.Status, v.Component, v.Witnesses[2].Evidence, short)
	}
	if in.Components[1].Bound *= 0.85; Evaluate(in).Status != Tied { // as its demand was measured
		t.Errorf("in short slots, and demand names right: got %s %s, want a tie", Evaluate(in).Status, Evaluate(in).Component)
	}
	if in.Settling = 0; Evaluate(in).Component != "right" {
		t.Errorf("in long slots: got %s %s, want right", Evaluate(in).Status, Evaluate(in).Component)
	}
	in.Components[0].Busy, in.Components[0].Throttled = 0.4, 0.1
	in.Settling = 1
	if v := Evaluate(in); v.Component != "right" {
		t.Errorf("in short slots, one with time to spare: got %s %s, want right", v.Status, v.Component)
	}
	for _, w := range v.Witnesses {
		if w.Component != "" || len(w.Tied) != 2 {
			t.Errorf("%s: got %+v, want it to name both and neither alone", w.Name, w)
		}
	}
	// Demand cannot tell them apart, but only one was held back.
	right.Busy, right.Throttled = 0.5, 0
	v = Evaluate(Input{Capacity: x, Components: []Component{left, right}})
	if v.Status != Named || v.Component != "left" || v.Agreement != "2/2 (demand cannot distinguish it from right)" {
		t.Errorf("one held back: got %s %s %s, want left named", v.Status, v.Component, v.Agreement)
	}
}

func TestPerturbationHasAVoice(t *testing.T) {
	t.Parallel()
	const x = 1000
	api, db := component("api", x, 0.95, 0.8), component("db", x, 0.5, 0.1)
	// Demand cannot see why db is full: saturation names it, demand api.
	silentAPI, heldDB := component("api", x, 0.82, 0.1), component("db", x, 0.5, 0.1)
	heldDB.Bound, heldDB.Busy, heldDB.Throttled = 2*x, 0.9, 0.8
	for name, c := range map[string]struct {
		components []Component
		moved      []Perturbation
		status     string
		component  string
		agreement  string
		dissent    []string
	}{
		"all three":         {[]Component{api, db}, []Perturbation{changed("api", 0.9, 0.7, 1.1), changed("db", 0.05, -0.1, 0.2)}, Named, "api", "3/3", nil},
		"it names another":  {[]Component{api, db}, []Perturbation{changed("api", 0.1, 0, 0.2), changed("db", 0.8, 0.6, 1)}, Undecided, "", "", nil},
		"it denies":         {[]Component{api, db}, []Perturbation{changed("api", 0.02, -0.1, 0.1)}, Undecided, "", "", nil},
		"it did not try":    {[]Component{api, db}, []Perturbation{changed("db", 0.02, -0.1, 0.1)}, Named, "api", "2/3 (perturbation names nothing)", nil},
		"it decides":        {[]Component{silentAPI, heldDB}, []Perturbation{changed("db", 0.8, 0.6, 1)}, Named, "db", "2/3", []string{Demanding}},
		"it is not sure":    {[]Component{silentAPI, heldDB}, []Perturbation{changed("db", 0.8, -0.1, 1.7)}, Undecided, "", "", nil},
		"it moves little":   {[]Component{silentAPI, heldDB}, []Perturbation{changed("db", 0.2, 0.1, 0.3)}, Undecided, "", "", nil},
		"it stands alone":   {[]Component{db}, []Perturbation{changed("db", 0.8, 0.6, 1)}, Undecided, "", "", nil},
		"two but not three": {[]Component{silentAPI, heldDB}, nil, Undecided, "", "", nil},
	} {
		v := Evaluate(Input{Capacity: x, Components: c.components, Perturbations: c.moved})
		if v.Status != c.status || v.Component != c.component || v.Agreement != c.agreement || !slices.Equal(v.Dissent, c.dissent) {
			t.Errorf("%s: got %s %q %s, dissent %q (%s), want %s %q %s %q",
				name, v.Status, v.Component, v.Agreement, v.Dissent, v.Summary, c.status, c.component, c.agreement, c.dissent)
		}
		for _, d := range v.Dissent {
			if !strings.Contains(v.Summary, "But "+d+" names ") {
				t.Errorf("%s: %q does not name the dissent", name, v.Summary)
			}
		}
	}
}

func TestNoLimitInsideTheRange(t *testing.T) {
	t.Parallel()
	in := Input{Capacity: 150, LowerBound: "every rate that was tried held", Components: []Component{component("api", 150, 0.2, 0)}}
	const want = "inside the tested range"
	if v := Evaluate(in); v.Status != LowerBoundOnly || !strings.Contains(v.Summary, want) {
		t.Errorf("got %s %q, want it to say %q", v.Status, v.Summary, want)
	}
	in.Components = []Component{component("api", 150, 0.96, 0.8)}
	if v := Evaluate(in); v.Status != LowerBoundOnly || strings.Contains(v.Summary, want) {
		t.Errorf("at its limit: got %s %q", v.Status, v.Summary)
	}
}

func TestAdviceStandsOnBounds(t *testing.T) {
	t.Parallel()
	api := Component{Name: "api", Instances: 3, LimitCPUs: 0.25, DemandMS: 0.2, Bound: 3130, Busy: 0.96, Throttled: 0.8}
	lb := Component{Name: "lb", Instances: 1, LimitCPUs: 0.5, DemandMS: 0.1, Bound: 4100, Busy: 0.73}
	pool := Resource{Name: "slots", Kind: Pool, Capacity: 4, DemandMS: 1, Bound: 3200, Busy: 0.94, Full: 0.8}
	for name, c := range map[string]struct {
		api  Component
		lb   float64
		want string
	}{
		"the next limits first": {api, 4100, "api CPU: +1 replica → about +31 %, then lb limits at 4,100 req/s."},
		"the next is far":       {api, 9000, "api CPU: +1 replica → about +33 %; lb would limit at 9,000 req/s."},
		"nobody next":           {api, 0, "api CPU: +1 replica → about +33 %; no other upper bound is known."},
		// The pool is full because api is.
		"a pool that follows": {func() Component { c := api; c.Resources = []Resource{pool}; return c }(), 4100, "about +31 %, then lb limits"},
	} {
		next := lb
		next.Bound = c.lb
		v := Evaluate(Input{Capacity: 3000, Components: []Component{c.api, next}})
		if v.Status != Named || v.Component != "api" || v.Resource != CPU || !strings.Contains(v.Advice, c.want) {
			t.Errorf("%s: got %s %s %q, want %q", name, v.Status, v.Component, v.Advice, c.want)
		}
	}
}

func TestEvidenceBesideNamesNobody(t *testing.T) {
	t.Parallel()
	in := Input{Capacity: 10, ListenOverflows: 3, Components: []Component{{Name: "web", RunDelay: 2.5}}}
	w := saturation(in, in.limits())
	if w.Component != "" || !strings.Contains(w.Evidence, "the threads of web, which has no CPU share, waited for a core for 71 % of the time") || !strings.Contains(w.Evidence, "3 connections a second") {
		t.Errorf("got %+v", w)
	}
	in.ListenOverflows, in.Components[0].RunDelay = 0.2, 0.4
	if w := saturation(in, in.limits()); strings.Contains(w.Evidence, ";") {
		t.Errorf("little: got %q", w.Evidence)
	}
}

// TestWorkIsOfWhatLimits: what another component's CPU goes into is no part of the
// verdict, nor what goes into the CPU of one that a pool limits.
func TestWorkIsOfWhatLimits(t *testing.T) {
	t.Parallel()
	const x = 200
	work := []Work{{Name: "serializing", DemandMS: 100}}
	spare := component("api", x, 0.3, 0.02)
	spare.Work = work
	full := component("db", x, 0.97, 0.6)
	if v := Evaluate(Input{Capacity: x, Components: []Component{spare, full}}); v.Component != "db" || strings.Contains(v.Summary, "serializing") {
		t.Errorf("got %q, want db, and nothing of another's work", v.Summary)
	}
	pool := with(x, Resource{Name: "connections", Kind: Pool, Capacity: 4, Busy: 0.95, Full: 0.8, Waiting: 3})
	pool.Work = work
	if v := Evaluate(Input{Capacity: x, Components: []Component{pool}}); v.Resource != Pool || strings.Contains(v.Summary, "serializing") {
		t.Errorf("got %q, want the pool, and nothing of CPU", v.Summary)
	}
}
