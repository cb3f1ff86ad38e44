package load

import (
	"math"
	"strings"
	"testing"
	"time"

	"loadstone/lab/load/feed"
)

func TestValidPlans(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]Plan{
		"open":   openPlan("http://127.0.0.1:80", 1, time.Second, 1),
		"closed": closedPlan("http://[::1]/base", 1, time.Second),
	} {
		if err := plan.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	open := func(change func(*Plan, *Scenario)) Plan {
		p := openPlan("http://h", 100, time.Second, 10)
		change(&p, &p.Scenarios[0])
		return p
	}
	executor := func(name string, change func(*Scenario)) Plan {
		return open(func(_ *Plan, s *Scenario) {
			s.Executor, s.Stages = name, []Stage{{time.Second, 5}}
			change(s)
		})
	}
	tests := []struct {
		plan Plan
		want string
	}{
		{open(func(p *Plan, _ *Scenario) { p.Targets = nil }), "targets: there are none"},
		{open(func(p *Plan, _ *Scenario) { p.Protocol = "h3" }), `protocol: "h3" is unknown`},
		{open(func(p *Plan, _ *Scenario) { p.Threads = 1000 }), "threads: 1000"},
		{open(func(_ *Plan, s *Scenario) { s.Executor, s.Log = Replay, &AccessLog{Path: "x"} }), "speed 0"},
		{open(func(_ *Plan, s *Scenario) { s.Executor = SharedIterations }), "vus: 0: give"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Checks = []Check{{Name: "c"}} }), "it looks for nothing"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Checks = []Check{{Name: "c", Status: []int{99}}} }), "status 99"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].ExpectedStatuses = []int{99} }), "expected_statuses: 99"},
		{open(func(_ *Plan, s *Scenario) {
			s.Steps[0].Request.Body, s.Steps[0].Request.Form = "x", map[string]string{"a": "b"}
		}), "it has 2 of body, form and multipart: give one"},
		{open(func(_ *Plan, s *Scenario) {
			s.Steps[0].Request.Form = map[string]string{"a": "{none}"}
		}), "the form field a has {none}, but there is no feed of that name"},
		{open(func(_ *Plan, s *Scenario) {
			s.Steps[0].Request.Header, s.Steps[0].Request.Multipart = map[string]string{"content-type": "x/y"}, []FormField{{Name: "a"}}
		}), "Content-Type is set by the generator"},
		{open(func(_ *Plan, s *Scenario) {
			s.Steps[0].Request.Multipart = []FormField{{Name: "a", Value: "x", File: "y"}}
		}), "is a text and a file: give one"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Multipart = []FormField{{Value: "x"}} }), "field 1 of the form has no name"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Multipart = []FormField{{Name: "a", Type: "x\n"}} }), "give one such as image/png"},
		{open(func(_ *Plan, s *Scenario) {
			s.Steps[0].Request.Path, s.Feed = "/{u.c}", map[string]feed.Feed{"u": {CSV: &feed.File{Path: "x", Column: "c"}}}
		}), "has no columns to choose from"},
		{open(func(p *Plan, _ *Scenario) { p.Targets[0] = "127.0.0.1:8080" }), "give a base URL"},
		{open(func(p *Plan, _ *Scenario) { p.Targets[0] = "h/path" }), "does not begin with http:// or https://"},
		{open(func(p *Plan, _ *Scenario) { p.Targets[0] = "http:///x" }), "names no host"},
		{open(func(p *Plan, _ *Scenario) { p.Targets[0] = "http://h/?a=b" }), "no user, query or fragment"},
		{open(func(p *Plan, _ *Scenario) { p.Timeout = 0 }), "timeout: 0s"},
		{open(func(p *Plan, _ *Scenario) { p.Warmup = -1 }), "warmup: -1ns is negative"},
		{open(func(p *Plan, _ *Scenario) { p.Warmup = time.Second }), "leaves nothing to measure"},
		{open(func(_ *Plan, s *Scenario) { s.Name, s.Rate = "100%d", 0 }), `scenario "100%d": rate: 0`},
		{open(func(_ *Plan, s *Scenario) { s.Rate = math.NaN() }), "rate: NaN"},
		{open(func(_ *Plan, s *Scenario) { s.Rate = math.Inf(1) }), "rate: +Inf"},
		{open(func(_ *Plan, s *Scenario) { s.Duration = 0 }), "duration: 0s"},
		{open(func(_ *Plan, s *Scenario) { s.Duration = math.MaxInt64 }), "make it shorter"},
		{open(func(_ *Plan, s *Scenario) { s.Arrivals = "" }), `arrivals: "" is unknown: use poisson or uniform`},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Method = "G T" }), "method"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Path = "x" }), "begin it with /"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Path = "/a b" }), "has a space"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Path = "/\r\nX: y" }), "control character"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Path = "/a#b" }), "never sent"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Header = map[string]string{"X": "a\r\nY: b"} }), "control character"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Header = map[string]string{"X Y": "a"} }), "header name"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Header = map[string]string{"Content-length": "5"} }), "set by the generator"},
		{open(func(_ *Plan, s *Scenario) { s.Steps[0].Request.Path = "/{id}" }), "there is no feed of that name"},
		{open(func(_ *Plan, s *Scenario) { s.Feed = map[string]feed.Feed{"id": {Uniform: &[2]int64{1, 2}}} }), "nothing in the request uses it"},
		{executor(ConstantVUs, func(s *Scenario) { s.VUs = 0 }), "vus: 0"},
		{executor(RampingVUs, func(s *Scenario) { s.Stages[0].Target = 0 }), "none has any virtual users"},
		{executor(RampingArrivalRate, func(s *Scenario) { s.Stages[0].Duration = -1 }), "stages[0].duration: -1ns"},
		{executor(RampingArrivalRate, func(s *Scenario) { s.Stages[0].Duration = 0 }), "duration: 0s"},
		{executor(RampingArrivalRate, func(s *Scenario) { s.Stages[0].Target = 0 }), "none has any requests per second"},
	}
	for _, test := range tests {
		if err := test.plan.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

func TestValidateLooksAtTheFlow(t *testing.T) {
	t.Parallel()
	one, none := []Part{{Step: 0}}, ""
	deep := one
	for range MaxNested + 1 {
		deep = []Part{{Repeat: 2, Parts: deep}}
	}
	for name, test := range map[string]struct {
		flow   []Part
		change func(*Scenario)
		want   string // empty if nothing is wrong
	}{
		"good":                {[]Part{{Step: 0}, {ForEach: "ids", As: "id", Parallel: 6, Parts: []Part{{Repeat: 100_000, Parts: one}}}}, nil, ""},
		"four deep":           {deep[0].Parts, nil, ""},
		"five deep":           {deep, nil, "groups lie more than 4 deep"},
		"nothing":             {[]Part{}, nil, "it has no parts"},
		"weighted":            {one, func(s *Scenario) { s.Weighted = true }, "weighted scenario"},
		"no such step":        {[]Part{{Parts: []Part{{Step: 1}}}}, nil, "step 1: there are 1"},
		"a step below 0":      {[]Part{{Step: -1}}, nil, "step -1: there are 1"},
		"a step that repeats": {[]Part{{Repeat: 2}}, nil, "only a group has repeat"},
		"parallel below 0":    {[]Part{{Parallel: -1, Parts: one}}, nil, "parallel: -1"},
		"parallel above 100":  {[]Part{{Parallel: 101, Parts: one}}, nil, "parallel: 101"},
		"parallel twice":      {[]Part{{Parallel: 2, Parts: []Part{{Repeat: 2, Parts: []Part{{Parallel: 3, Parts: one}}}}}}, nil, "parallel: 3: a group around it"},
		"repeat below 0":      {[]Part{{Repeat: -1, Parts: one}}, nil, "repeat: -1"},
		"too many passes":     {[]Part{{Repeat: 1000, Parts: []Part{{Repeat: 101, Parts: one}}}}, nil, "repeat: 101"},
		"no such list":        {[]Part{{ForEach: "x", As: "id", Parts: one}}, nil, `no step extracts "x"`},
		"no name":             {[]Part{{ForEach: "ids", Parts: one}}, nil, "give the placeholder"},
		"no list":             {[]Part{{As: "id", Parts: one}}, nil, `no step extracts ""`},
		"a list's own name":   {[]Part{{ForEach: "ids", As: "ids", Parts: one}}, nil, "give another name"},
		"a list that repeats": {[]Part{{ForEach: "ids", As: "id", Repeat: 2, Parts: one}}, nil, "or repeats"},
		"a header":            {[]Part{{ForEach: "ids", As: "id", Parts: one}}, func(s *Scenario) { s.Steps[0].Extract["ids"] = Extract{Header: "ids"} }, "a path into a JSON body"},
		"an initial value":    {[]Part{{ForEach: "ids", As: "id", Parts: one}}, func(s *Scenario) { s.Steps[0].Extract["ids"] = Extract{JSON: "ids", Initial: &none} }, "neither an initial value nor join"},
	} {
		p := openPlan("http://h", 100, time.Second, 10)
		s := &p.Scenarios[0]
		s.Flow, s.Steps[0].Extract = test.flow, map[string]Extract{"ids": {JSON: "ids"}}
		if test.change != nil {
			test.change(s)
		}
		if err := p.Validate(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestValidateFindsAllProblems(t *testing.T) {
	t.Parallel()
	p := openPlan("ftp://h", 0, 0, 0)
	p.Timeout = 0
	err := p.Validate()
	if err == nil {
		t.Fatal("got no error")
	}
	if got := strings.Count(err.Error(), "\n") + 1; got < 5 {
		t.Errorf("got %d problems, want five or more: %v", got, err)
	}
}

// openPlan is a plan of one open scenario.
func openPlan(url string, rate float64, d time.Duration, users int) Plan {
	return Plan{
		Targets: []string{url}, Seed: 1, Timeout: 10 * time.Second,
		Scenarios: []Scenario{{
			Name: "open", Executor: ConstantArrivalRate, Rate: rate, Duration: d, Arrivals: Poisson,
			PreAllocatedVUs: 1, MaxVUs: users, GracefulStop: 5 * time.Second, Steps: []Step{{Request: Request{Method: "GET", Path: "/"}}},
		}},
	}
}

// closedPlan is a plan of one closed scenario.
func closedPlan(url string, users int, d time.Duration) Plan {
	return Plan{
		Targets: []string{url}, Seed: 1, Timeout: 10 * time.Second,
		Scenarios: []Scenario{{
			Name: "closed", Executor: ConstantVUs, VUs: users, Duration: d, GracefulStop: 5 * time.Second, Steps: []Step{{Request: Request{Method: "GET", Path: "/"}}},
		}},
	}
}
