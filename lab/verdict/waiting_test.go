package verdict

import (
	"math"
	"strings"
	"testing"
)

// The prototype's system: a proxy before a server with four slots of 20 ms that nobody
// declared. Neither is near its CPU.
func TestWhereRequestsWaitIsLocated(t *testing.T) {
	t.Parallel()
	const x = 195
	proxy, server := component("proxy", x, 0.1, 0), component("server", x, 0.2, 0)
	still := Wait{Component: "proxy", LightMS: 41, MS: 41, Visits: 1, CallMS: 21}
	for name, c := range map[string]struct {
		waits  []Wait
		want   string // where
		atOnce float64
		says   string
		advice string
	}{
		"hidden slots":       {[]Wait{still, {Component: "server", LightMS: 20.5, MS: 80, Visits: 1}}, "server", 4, "it works on about 4 at a time", "server: find out what it has about 4 of"},
		"one at a time":      {[]Wait{still, {Component: "server", LightMS: 5.1, MS: 80, Visits: 1}}, "server", 1, "it works on about 0.99 at a time", "server: find out what it has only one of"},
		"a hidden pool":      {[]Wait{{Component: "proxy", LightMS: 1, MS: 60, Visits: 1, CallMS: 20, Calls: 3.9, CallsTo: "server"}, {Component: "server", LightMS: 20, MS: 20.5, Visits: 1}}, "proxy", 3.9, "it has about 3.9 calls to server under way", "proxy: let more than about 3.9 calls to server be under way"},
		"a pool of no use":   {[]Wait{{Component: "proxy", LightMS: 1, MS: 200, Visits: 1, CallMS: 20, Calls: 8, CallsTo: "127.0.0.1:9000"}, {Component: "127.0.0.1:9000", Outside: true, LightMS: 20, MS: 41, Visits: 1}}, "proxy", 8, "it has about 8 calls to 127.0.0.1:9000 under way", "look at 127.0.0.1:9000: it takes 41 ms for what takes it 20 ms"},
		"outside the file":   {[]Wait{still, {Component: "127.0.0.1:9000", Outside: true, LightMS: 5, MS: 50, Visits: 1}}, "127.0.0.1:9000", 0.975, "which is no service of the file", "nothing that is changed in the file helps"},
		"several slots":      {[]Wait{{Component: "proxy", LightMS: 0.18, MS: 0.21, Visits: 1}, {Component: "127.0.0.1:9000", Outside: true, LightMS: 16.5, MS: 25.8, Visits: 1}}, "127.0.0.1:9000", 3.2, "it works on about 3.2 at a time", "nothing that is changed in the file helps"},
		"asked three times":  {[]Wait{{Component: "proxy", LightMS: 10, MS: 20, Visits: 1}, {Component: "server", LightMS: 2, MS: 9, Visits: 3}}, "server", 1.17, "", "only one of"},
		"nobody":             {[]Wait{still, {Component: "server", LightMS: 20, MS: 25, Visits: 1}}, "", 0, "", ""},
		"microseconds":       {[]Wait{{Component: "server", LightMS: 0.1, MS: 0.5, Visits: 1}}, "", 0, "", ""},
		"both":               {[]Wait{{Component: "proxy", LightMS: 5, MS: 30, Visits: 1}, {Component: "server", LightMS: 5, MS: 30, Visits: 1}}, "", 0, "", ""},
		"it was not watched": {nil, "", 0, "", ""},
	} {
		// What a short attempt offers may be more than what is done.
		v := Evaluate(Input{Capacity: 1.3 * x, Carried: x, Components: []Component{proxy, server}, Waits: c.waits})
		if v.Status != Undecided || v.Component != "" {
			t.Errorf("%s: got %s %s, want it to be located and not named", name, v.Status, v.Component)
		}
		switch l := v.Located; {
		case (l != nil) != (c.want != ""):
			t.Errorf("%s: got %+v, want %q", name, l, c.want)
		case (v.Advice != "") != (c.advice != "") || !strings.Contains(v.Advice, c.advice):
			t.Errorf("%s: got the advice %q, want %q", name, v.Advice, c.advice)
		case l != nil && (l.Component != c.want || math.Abs(l.AtOnce-c.atOnce) > 0.02*c.atOnce || !strings.Contains(v.Summary, c.says)):
			t.Errorf("%s: got %+v (%s), want %s with %v at once, saying %q", name, l, v.Summary, c.want, c.atOnce, c.says)
		}
	}
}

// Where requests wait is a voice for what is observed there, and none against what limits
// behind it.
func TestWaitingHasAVoice(t *testing.T) {
	t.Parallel()
	const x = 200
	api := with(x, Resource{Name: "ledger", Kind: Lock, Capacity: 1, Busy: 0.95})
	here := []Wait{{Component: "api", LightMS: 5, MS: 60, Visits: 1}, {Component: "db", LightMS: 1, MS: 1, Visits: 1}}
	there := []Wait{{Component: "api", LightMS: 5, MS: 5, Visits: 1}, {Component: "db", LightMS: 1, MS: 40, Visits: 1}}
	components := []Component{api, component("db", x, 0.2, 0)}
	for name, c := range map[string]struct {
		waits     []Wait
		status    string
		agreement string
	}{
		"they wait here":  {here, Named, "3/3"},
		"they wait there": {there, Undecided, ""},
		"not known":       {nil, Undecided, ""},
	} {
		v := Evaluate(Input{Capacity: x, Components: components, Waits: c.waits})
		if v.Status != c.status || v.Agreement != c.agreement || len(v.Dissent) > 0 {
			t.Errorf("%s: got %s %s (%s), dissent %q, want %s %s", name, v.Status, v.Agreement, v.Summary, v.Dissent, c.status, c.agreement)
		}
	}
	// Requests wait in front of a store for want of connections, because its CPU is short.
	full := with(x, Resource{Name: "connections", Kind: Pool, Capacity: 4, Busy: 0.97, Full: 0.9, Waiting: 5})
	v := Evaluate(Input{Capacity: x, Components: []Component{full, component("db", x, 0.95, 0.8)}, Waits: here})
	if v.Status != Named || v.Component != "db" || len(v.Dissent) > 0 {
		t.Errorf("got %s %s (%s), want the CPU of db", v.Status, v.Component, v.Summary)
	}
}

// Of two pools that are alike, and that perturbation cannot tell apart, requests wait more in
// the one that comes first. Neither is named, however surely it moved throughput.
func TestWaitingBreaksNoTie(t *testing.T) {
	t.Parallel()
	const x = 200
	pool := func(name string) Component {
		c := component(name, x, 0.2, 0)
		c.Resources = []Resource{{Name: "slots", Kind: Pool, Capacity: 4, Busy: 0.7, DemandMS: 14, Bound: 1.4 * x, BoundLow: 1.3 * x, BoundHigh: 1.5 * x}}
		return c
	}
	moved := func(component string, e, low, high float64) Perturbation {
		return Perturbation{Component: component, Resource: Pool, Name: "slots", Elasticity: e, Low: low, High: high}
	}
	still := []Perturbation{changed("left", 0, -0.1, 0.1), changed("right", 0, -0.1, 0.1)}
	waits := []Wait{{Component: "left", LightMS: 1, MS: 20, Visits: 1}, {Component: "right", LightMS: 1, MS: 5, Visits: 1}}
	for name, c := range map[string]struct {
		moved  []Perturbation
		status string
	}{
		"both":             {[]Perturbation{moved("right", 0.5, 0.3, 0.7), moved("left", 0.4, 0.2, 0.6)}, Undecided},
		"one of them more": {[]Perturbation{moved("left", 0.8, 0.6, 1), moved("right", 0.5, 0.2, 0.8)}, Undecided},
		"only one of them": {[]Perturbation{moved("left", 0.8, 0.6, 1), moved("right", 0.1, 0, 0.2)}, Named},
	} {
		v := Evaluate(Input{Capacity: x, Components: []Component{pool("left"), pool("right")}, Perturbations: append(still, c.moved...), Waits: waits})
		if v.Status != c.status || (v.Component != "") != (c.status == Named) {
			t.Errorf("%s: got %s %s (%s), want %s", name, v.Status, v.Component, v.Summary, c.status)
		}
	}
}
