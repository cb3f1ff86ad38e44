package verdict

import (
	"strings"
	"testing"
)

func TestTheLimitOfAPipeline(t *testing.T) {
	t.Parallel()
	const x = 100
	stage := func(name, after string, busy float64, back *float64) Resource {
		r := Resource{Name: name, Kind: Stage, Busy: busy, Rate: x, Backpressured: back}
		if after != "" {
			r.After = "api." + after
		}
		return r
	}
	grows := func(r Resource, slope float64) Resource {
		r.Slope, r.NotEmpty, r.Depth = slope, 1, 20
		return r
	}
	for name, c := range map[string]struct {
		stages []Resource
		want   string // those that limit
	}{
		"the middle, told":   {[]Resource{stage("a", "", 0.4, new(0.6)), stage("b", "a", 0.99, new(0.0)), stage("c", "b", 0.3, new(0.0))}, "b"},
		"the first":          {[]Resource{stage("a", "", 0.99, new(0.0)), stage("b", "a", 0.4, new(0.0))}, "a"},
		"the last":           {[]Resource{stage("c", "b", 0.99, nil), stage("b", "a", 0.3, new(0.7)), stage("a", "", 0.1, new(0.9))}, "c"},
		"the first of two":   {[]Resource{stage("a", "", 0.96, new(0.02)), stage("b", "a", 0.97, new(0.0))}, "a"},
		"it looks busy":      {[]Resource{stage("a", "", 0.99, nil), stage("b", "a", 0.97, nil)}, "b"},
		"held, looks busy":   {[]Resource{stage("a", "", 0.99, new(0.3)), stage("b", "a", 0.97, nil)}, "b"},
		"it falls behind":    {[]Resource{stage("a", "", 0.95, new(0.0)), grows(stage("b", "a", 0.9, new(0.0)), 20)}, "b"},
		"ups and downs":      {[]Resource{stage("a", "", 0.95, new(0.0)), grows(stage("b", "a", 0.5, new(0.0)), 4)}, "a"},
		"held, falls behind": {[]Resource{grows(stage("a", "", 0.5, new(0.5)), 20), stage("b", "a", 0.98, new(0.0))}, "b"},
		"branches":           {[]Resource{stage("a", "", 0.2, new(0.8)), stage("b", "a", 0.97, new(0.0)), stage("c", "a", 0.96, new(0.0))}, "b c"},
		"two pipelines":      {[]Resource{stage("a", "", 0.97, new(0.0)), grows(stage("b", "", 1, new(0.0)), 20)}, "a b"},
		"none":               {[]Resource{stage("a", "", 0.5, new(0.0)), stage("b", "a", 0.6, new(0.0))}, ""},
		"in a circle":        {[]Resource{stage("a", "b", 0.97, new(0.0)), stage("b", "a", 0.5, new(0.0))}, "a"},
		"after itself":       {[]Resource{stage("a", "a", 0.97, new(0.0))}, "a"},
	} {
		in := Input{Capacity: x, Components: []Component{{Name: "api", Resources: c.stages}}}
		var got []string
		for _, l := range in.limits() {
			if l.saturated {
				got = append(got, l.Name)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// A stage waits for its CPU, too: what is short then is the CPU.
func TestAStageThatLacksCPUIsNotTheLimit(t *testing.T) {
	t.Parallel()
	const x = 200
	store := component("store", x, 0.96, 0.8)
	store.Resources = []Resource{{Name: "insert", Kind: Stage, Busy: 0.99, Bound: x / 0.99, Rate: x, Backpressured: new(0.0)}}
	if v := Evaluate(Input{Capacity: x, Components: []Component{store}}); v.Resource != CPU || v.Agreement != "2/2" {
		t.Errorf("got %+v, want the CPU of store", v)
	}
}

func TestACapacityAboveItsBoundIsAContradiction(t *testing.T) {
	t.Parallel()
	const x = 1000
	api := component("api", x, 0.96, 0.8)
	queue := Resource{Name: "jobs", Kind: Queue, Busy: 1, NotEmpty: 1, Bound: 800, Left: 100}
	for name, c := range map[string]struct {
		edit func(*Component)
		want string
	}{
		"as it should be":   {func(*Component) {}, ""},
		"a little above":    {func(c *Component) { c.Bound = 0.96 * x }, ""},
		"more than a bound": {func(c *Component) { c.Bound = 0.9 * x }, "the measurement contradicts itself"},
		"work piled up":     {func(c *Component) { c.Resources = []Resource{queue} }, "because what it could not do in time waited"},
	} {
		edited := api
		c.edit(&edited)
		in := Input{Capacity: x, Components: []Component{edited}}
		w := demand(in, in.limits())
		if says := strings.Contains(w.Evidence, "contradicts") || strings.Contains(w.Evidence, "waited"); says != (c.want != "") || !strings.Contains(w.Evidence, c.want) {
			t.Errorf("%s: %q, want %q", name, w.Evidence, c.want)
		}
	}
}

func TestVisitsAreSaidWhereThereAreSeveral(t *testing.T) {
	t.Parallel()
	const x = 1000
	store := component("store", x, 0.96, 0.8)
	store.DemandMS, store.Visits = 0.9, 3
	v := Evaluate(Input{Capacity: x, Components: []Component{store}})
	const want = "0.9 ms"
	if !strings.Contains(v.Summary, "900 µs (3 visits of 300 µs)") || !strings.Contains(v.Witnesses[0].Evidence, "900 µs CPU for each request (3 visits of 300 µs)") {
		t.Errorf("got %q and %q, want %s in three visits", v.Summary, v.Witnesses[0].Evidence, want)
	}
	store.Visits = 1.02
	if v := Evaluate(Input{Capacity: x, Components: []Component{store}}); strings.Contains(v.Summary, "visits") {
		t.Errorf("one visit: got %q", v.Summary)
	}
}

func TestAPerturbedPoolIsNamedByItsName(t *testing.T) {
	t.Parallel()
	const x = 200
	api := with(x, Resource{Name: "connections", Kind: Pool, Capacity: 4, Busy: 0.97, Full: 0.9, Waiting: 3})
	api.Resources = append(api.Resources, Resource{Name: "threads", Kind: Pool, Capacity: 50, Busy: 0.3})
	moved := func(name string, e float64) Perturbation {
		return Perturbation{Component: "api", Resource: Pool, Name: name, Elasticity: e, Low: e - 0.2, High: e + 0.2}
	}
	v := Evaluate(Input{Capacity: x, Components: []Component{api}, Perturbations: []Perturbation{moved("threads", 0.05), moved("connections", 0.9)}})
	if v.ResourceName != "connections" || v.Agreement != "3/3" || !strings.Contains(v.Witnesses[2].Evidence, "1 % of the pool connections of api moves it by 0.90 %") {
		t.Errorf("got %+v, want connections named 3/3", v)
	}
	// What was not changed it knows nothing of.
	v = Evaluate(Input{Capacity: x, Components: []Component{api}, Perturbations: []Perturbation{moved("threads", 0.05)}})
	if v.Agreement != "2/3 (perturbation names nothing)" || len(v.Dissent) > 0 {
		t.Errorf("another pool was changed: got %s, dissent %q", v.Agreement, v.Dissent)
	}
}
