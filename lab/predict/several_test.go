package predict

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"loadstone/lab/result"
	"loadstone/lab/verdict"
)

func topologies(t *testing.T, r *result.Result, texts ...string) []Topology {
	t.Helper()
	var out []Topology
	for _, text := range texts {
		x, err := ParseTopology(text, r, "")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

func TestParseTopology(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 60e-6, seed: 1}
	res := derive(t, world.variant("plain", 1, 2), world.variant("cached", 2, 2))
	for text, want := range map[string]string{
		"cached: api.replicas=3,lb.cpus=0.4": "cached: api.replicas=3, lb.cpus=0.4",
		"api.cpus=0.5":                       "plain: api.cpus=0.5",
		" cached :api.replicas = 4 ":         "cached: api.replicas=4",
	} {
		if x, err := ParseTopology(text, res, ""); err != nil || x.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, x, err, want)
		}
	}
	if x, err := ParseTopology("api.cpus=0.5", res, "cached"); err != nil || x.Variant != "cached" {
		t.Errorf("%v, %v; want the given variant", x, err)
	}
	for text, want := range map[string]string{
		"":                                "is not a change",
		"cached:":                         "is not a change",
		": api.cpus=1":                    "no variant before the colon",
		"cached: api.replicas=3,":         "is not a change",
		"cached: api.cpus=1, api.cpus=2":  "set the same",
		"cached: apo.cpus=1":              `write "api"`,
		"cached: api.replicas=0":          "a whole number from 1",
		"cached: api.replicas=3; lb.cpus": "a whole number from 1",
	} {
		if _, err := ParseTopology(text, res, ""); !errors.Is(err, ErrTopology) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ParseTopology("cachd: api.cpus=1", res, ""); !errors.Is(err, ErrVariant) || !strings.Contains(err.Error(), `write "cached"`) {
		t.Errorf("got %v", err)
	}
	twice := topologies(t, res, "cached: api.cpus=1, lb.cpus=1", "cached: lb.cpus=1, api.cpus=1")
	if _, err := AskSeveral(res, "run", twice); !errors.Is(err, ErrTopology) || !strings.Contains(err.Error(), "is there twice") {
		t.Errorf("got %v", err)
	}
}

func FuzzParseTopology(f *testing.F) {
	for _, s := range []string{"v: api.replicas=8", "lb.cpus=0.5", "", ":", "v:,", "v: api.cpus=1, lb.replicas=2", "v:v:api.cpus=1"} {
		f.Add(s)
	}
	r := &result.Result{Variants: []result.Variant{{Name: "v", Components: []verdict.Component{{Name: "api"}, {Name: "lb"}}}}}
	f.Fuzz(func(t *testing.T, text string) {
		x, err := ParseTopology(text, r, "")
		if err != nil {
			return
		}
		again, err := ParseTopology(x.String(), r, "")
		if err != nil || again.String() != x.String() {
			t.Errorf("%q is read as %s, which is read as %s, %v", text, x, again, err)
		}
	})
}

// A check scores right predictions as right, and shows wrong ones and those of
// systems that sustain nothing.
func TestSeveralAreScored(t *testing.T) {
	t.Parallel()
	world := truth{api: 500e-6, lb: 60e-6, noise: 0.01, seed: 7}
	res := derive(t, world.variant("v", 2, 6))
	s, err := AskSeveral(res, "run", topologies(t, res, "v: api.replicas=4", "api.replicas=3", "api.replicas=40"))
	if err != nil {
		t.Fatal(err)
	}
	changed := []string{"v.predicted-1", "v.predicted-2", "v.predicted-3"}
	measured := derive(t, world.variant("v", 2, 6), world.variant(changed[0], 4, 6), world.variant(changed[1], 3, 6), world.variant(changed[2], 40, 6))
	if err := s.Against(measured, "run-2", changed); err != nil {
		t.Fatal(err)
	}
	c := s.Check
	if c.Error == nil || *c.Error > 0.05 || c.ErrorOfRatio == nil || *c.ErrorOfRatio > 0.05 || c.Topologies != 3 || c.Intervals != 3 {
		t.Errorf("%+v: errors of a right prediction", c)
	}
	if c.Named < 2 || c.Right < 2 {
		t.Errorf("%d limits named, %d of them right", c.Named, c.Right)
	}

	slow := truth{api: 1000e-6, lb: 120e-6, noise: 0.01, seed: 7}
	nothing := slow.variant(changed[2], 40, 6)
	clear(nothing.Capacities)
	measured = derive(t, slow.variant("v", 2, 6), slow.variant(changed[0], 4, 6), slow.variant(changed[1], 3, 6), nothing)
	if err := s.Against(measured, "run-3", changed); err != nil {
		t.Fatal(err)
	}
	if c := s.Check; c.Error == nil || math.Abs(*c.Error-1) > 0.1 || c.Inside != 0 {
		t.Errorf("%+v: want an error of about 100 %% on a machine of half the speed, and no interval that holds it", c)
	}
	var text, object bytes.Buffer
	if err := s.Text(&text); err != nil {
		t.Fatal(err)
	}
	if s.Predictions[2].Check != nil {
		t.Errorf("%+v of a topology that held no rate", s.Predictions[2].Check)
	}
	for _, want := range []string{"held no rate ", "v: api.replicas=4", "median of 3 topologies"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the table lacks %q", want)
		}
	}
	if err := json.NewEncoder(&object).Encode(s); err != nil || !strings.Contains(object.String(), `"median_error":`) {
		t.Errorf("%v in %s", err, object.String())
	}
	t.Log("\n" + text.String())
	if err := s.Against(measured, "run-3", changed[:2]); err == nil {
		t.Error("three predictions were checked against two measurements")
	}
}

func TestMedianOfErrors(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	if m := middle([]float64{0.1, inf, 0.2}); m == nil || *m != 0.2 {
		t.Errorf("got %v, want 0.2", m)
	}
	for _, xs := range [][]float64{nil, {inf}, {0.1, inf}, {0.1, inf, inf}} {
		if m := middle(xs); m != nil {
			t.Errorf("%v: got %v, want none", xs, *m)
		}
	}
}

// The experiment of a check has each variant once that something is predicted
// from, and no sweep.
func TestExperimentOfSeveral(t *testing.T) {
	t.Parallel()
	eight := 8
	more := []Change{{Service: "api", Replicas: &eight}}
	text, names, err := Experiment(parse(t, file), []Topology{{"cached", more}, {"plain", more}, {"cached", []Change{{Service: "lb", Replicas: &eight}}}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range parse(t, text).Variants {
		got = append(got, v.Name)
	}
	if want := "cached plain cached.predicted-1 plain.predicted-2 cached.predicted-3"; strings.Join(got, " ") != want || strings.Join(names, " ") != strings.Join(got[2:], " ") {
		t.Errorf("variants %v, names %v; want %s", got, names, want)
	}
	for source, want := range map[string]string{
		"name: e\nsweep:\n  service: api\n  replicas: [1, 2]\nentry: lb\n": "name: e\nVARIANTS\nentry: lb\n",
		"variants: {a: {}}\nsweep: {service: api}\ntrials: 6":              "VARIANTS\ntrials: 6",
	} {
		if got, err := replaceVariants(source, "VARIANTS\n"); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	if _, err := replaceVariants("{name: e}", ""); err == nil {
		t.Error("variants were replaced where there are none")
	}
}
