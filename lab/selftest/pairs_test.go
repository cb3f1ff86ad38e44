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
	"loadstone/lab/verdict"
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

// compared is a result of two variants. bounded is the one of which only a lower bound is known;
// empty for none.
func compared(c result.Comparison, bounded string) *result.Result {
	c.Variant, c.Confidence = "again", 0.95
	r := &result.Result{Comparisons: []result.Comparison{c}}
	for _, name := range []string{"planted", "again"} {
		r.Variants = append(r.Variants, result.Variant{
			Name: name, Capacity: &result.Estimate{LowerBound: name == bounded}, Conditions: &result.Conditions{Outside: 0.3},
			Verdict: verdict.Verdict{Summary: "the machine was full"},
		})
	}
	return r
}

func TestPairsAreScored(t *testing.T) {
	t.Parallel()
	type said struct{ right, misleads, failed bool }
	for name, c := range map[string]struct {
		result      *result.Result
		same, tenth said
	}{
		"no difference":          {compared(result.Comparison{Ratio: 1.02, Low: 0.97, High: 1.08}, ""), said{right: true}, said{}},
		"more":                   {compared(result.Comparison{Ratio: 1.1, Low: 1.02, High: 1.2, Significant: true}, ""), said{misleads: true}, said{right: true}},
		"less":                   {compared(result.Comparison{Ratio: 0.9, Low: 0.8, High: 0.97, Significant: true}, ""), said{misleads: true}, said{misleads: true}},
		"too few":                {compared(result.Comparison{Ratio: 1, Needed: 6}, ""), said{failed: true}, said{failed: true}},
		"a lower bound":          {compared(result.Comparison{Ratio: 1.02, Low: 0.97, High: 1.08}, "planted"), said{failed: true}, said{failed: true}},
		"different from a bound": {compared(result.Comparison{Ratio: 1.1, Low: 1.02, High: 1.2, Significant: true}, "again"), said{misleads: true}, said{right: true}},
		"one variant":            {&result.Result{Variants: []result.Variant{{}}}, said{failed: true}, said{failed: true}},
	} {
		measured := 0
		s, err := Run(t.Context(), Config{Dir: t.TempDir(), Systems: Pairs(), Busy: true, Measure: func(context.Context, string, string) (*result.Result, string, error) {
			measured++
			return c.result, "", nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if measured != 2 {
			t.Errorf("%s: measured %d times, want each pair once: one that is measured until it is right says nothing", name, measured)
		}
		for i, want := range []said{c.same, c.tenth} {
			r := &s.Rows[i]
			if got := (said{r.Right(), r.Misleads, r.Error != ""}); got != want || r.LeftOut || len(c.result.Variants) > 1 && r.Outside != 0.3 {
				t.Errorf("%s, of %s: got %+v, left out %v, outside %v; want %+v", name, r.Name, got, r.LeftOut, r.Outside, want)
			}
		}
	}
}

// Pairs pass as long as they leave it open that what is said of the comparison is true, and
// those that could not be measured are few, and named.
func TestSharesOfPairs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pair                  int // of Pairs
		n, different, failing int
		passed                bool
		says                  string
	}{
		"equals":                 {0, 40, 2, 0, true, "passed: same called different in 2 of 40, 5 % [1, 17]; 38 intervals hold the truth; 0 could not be measured"},
		"equals, by chance":      {0, 10, 2, 0, true, "passed: same called different in 2 of 10"},
		"equals, too often":      {0, 40, 7, 0, false, "FAILED: same called different in 7 of 40"},
		"found":                  {1, 20, 18, 0, true, "passed: tenth called different in 18 of 20, 90 % [68, 99]; 20 intervals hold the truth; 0 could not be measured"},
		"found too rarely":       {1, 20, 10, 0, false, "FAILED: tenth called different in 10 of 20"},
		"a few failed":           {0, 10, 0, 2, true, "same called different in 0 of 10, 0 % [0, 31]; 10 intervals hold the truth; 2 could not be measured"},
		"many failed":            {0, 10, 0, 3, false, "3 could not be measured"},
		"none could be measured": {0, 0, 0, 2, false, "same called different in 0 of 0; 0 intervals"},
	} {
		p := Pairs()[c.pair]
		s := &Score{}
		for i := range c.n + c.failing {
			r := Row{Name: p.Name, Truth: p.Truth}
			switch {
			case i >= c.n:
				r.Error = "it did not start"
			case i < c.different:
				r.compare(compared(result.Comparison{Ratio: 1.1, Low: 1.02, High: 1.2, Significant: true}, ""))
			default:
				r.compare(compared(result.Comparison{Ratio: 1.05, Low: 0.99, High: 1.12}, ""))
			}
			s.Rows = append(s.Rows, r)
		}
		s.conclude()
		var text bytes.Buffer
		if err := WriteText(&text, s); err != nil {
			t.Fatal(err)
		}
		if s.Passed != c.passed || !strings.Contains(text.String(), c.says) || strings.Contains(text.String(), "verdicts are right") {
			t.Errorf("%s: passed %v, want %v and %q:\n%s", name, s.Passed, c.passed, c.says, text.String())
		}
	}
}
