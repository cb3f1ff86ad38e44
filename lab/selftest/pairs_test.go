package selftest

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"

	"loadstone/lab/experiment"
	"loadstone/lab/result"
	"loadstone/lab/topology"
)

// The second variant of a pair has a tenth more of the CPU that limits, or is the first
// one again, and nothing else differs.
func TestPairsDifferByWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for _, p := range Pairs() {
		for seed := range uint64(10) {
			made := p.build(newDraw(seed, p.Name))
			path, err := p.write(t.TempDir(), seed, made)
			if err != nil {
				t.Fatal(err)
			}
			exp, err := experiment.Load(path)
			if err != nil {
				t.Fatalf("%s, seed %d: %v", p.Name, seed, err)
			}
			cpus := map[string]map[string]float64{}
			for _, v := range exp.Variants {
				system, err := topology.Load(t.Context(), topology.Config{ComposeFiles: exp.SystemPaths(), Overlay: v.Overlay})
				if err != nil {
					t.Fatalf("%s, seed %d: %v", p.Name, seed, err)
				}
				cpus[v.Name] = map[string]float64{}
				for _, s := range system.Services {
					cpus[v.Name][s.Name] = *s.Limits.CPUs
				}
			}
			for service, before := range cpus["planted"] {
				want := before
				if service == made.limit {
					want *= p.Truth.Apart
				}
				if after := cpus["again"][service]; math.Abs(after-want) > 1e-9 {
					t.Errorf("%s, seed %d: %s has %g CPUs and then %g, want %g", p.Name, seed, service, before, after, want)
				}
			}
		}
	}
}

func TestPairsAreScored(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		comparison        result.Comparison
		same, tenth       bool // right
		misSame, misTenth bool
		bound             bool // of the second variant only a lower bound is known
	}{
		"no difference": {result.Comparison{Ratio: 1.02, Low: 0.97, High: 1.08}, true, false, false, false, false},
		"more":          {result.Comparison{Ratio: 1.1, Low: 1.02, High: 1.2, Significant: true}, false, true, true, false, false},
		"less":          {result.Comparison{Ratio: 0.9, Low: 0.8, High: 0.97, Significant: true}, false, false, true, true, false},
		"too few":       {result.Comparison{Ratio: 1, Needed: 6}, false, false, false, false, false},
		"a lower bound": {result.Comparison{Ratio: 1.02}, false, false, false, false, true},
	} {
		c.comparison.Variant = "again"
		s, err := Run(t.Context(), Config{Dir: t.TempDir(), Systems: Pairs(), Measure: func(context.Context, string, string) (*result.Result, string, error) {
			bound := &result.Estimate{LowerBound: c.bound}
			return &result.Result{Comparisons: []result.Comparison{c.comparison}, Variants: []result.Variant{{Name: "planted"}, {Name: "again", Capacity: bound}}}, "", nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct{ right, misleads bool }{{c.same, c.misSame}, {c.tenth, c.misTenth}} {
			if r := &s.Rows[i]; r.Right() != want.right || r.Misleads != want.misleads {
				t.Errorf("%s, of %s: right %v, misleads %v; want %+v", name, r.Name, r.Right(), r.Misleads, want)
			}
		}
	}
}

// Of differences that are to be found four of five have to be, and of the others eleven of
// twelve: neither makes up for the other.
func TestSharesOfPairs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		same, tenth []bool // called different
		passed      bool
		says        string
	}{
		"as they are":          {make([]bool, 12), []bool{true, true, true, true, true}, true, "tenth: called different in 5 of 5, 100 % [48, 100]"},
		"one is not found":     {make([]bool, 12), []bool{true, true, true, true, false}, true, "same: called different in 0 of 12, 0 % [0, 26]"},
		"two are not found":    {make([]bool, 12), []bool{true, true, true, false, false}, false, "tenth: called different in 3 of 5"},
		"two equals different": {[]bool{true, true, false, false, false, false, false, false, false, false, false, false}, nil, false, "same: called different in 2 of 12"},
	} {
		s := &Score{}
		for i, all := range [][]bool{c.same, c.tenth} {
			p := Pairs()[i]
			for _, different := range all {
				r := Row{Name: p.Name, Truth: p.Truth}
				ratio := 1.1
				r.compare(&result.Result{Comparisons: []result.Comparison{{Variant: "again", Ratio: ratio, Significant: different}}})
				s.Rows = append(s.Rows, r)
			}
		}
		s.conclude()
		var text bytes.Buffer
		if err := WriteText(&text, s); err != nil {
			t.Fatal(err)
		}
		if s.Passed != c.passed || !strings.Contains(text.String(), c.says) || strings.Contains(text.String(), "naming what does not limit") {
			t.Errorf("%s: passed %v, want %v and %q:\n%s", name, s.Passed, c.passed, c.says, text.String())
		}
	}
}
