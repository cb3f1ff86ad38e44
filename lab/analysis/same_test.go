package analysis_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/archive/archivetest"
	"loadstone/lab/host"
	"loadstone/lab/report"
	"loadstone/lab/result"
)

// trialled plants variants that sustain so many times the same, in six rounds on a
// machine that drifts by a tenth, with 5 % noise, and derives the result.
func trialled(t *testing.T, seed uint64, factors ...float64) *result.Result {
	t.Helper()
	r := rand.New(rand.NewPCG(20260601, seed))
	p := archivetest.Run{Name: "same", Seed: seed, Started: began, Environment: archive.Environment{Machine: host.Machine{Cores: 2, LimitsEnforced: true}}}
	for i := range factors {
		p.Variants = append(p.Variants, archivetest.Variant{
			Name: string(rune('a' + i)), Service: 2 * time.Millisecond,
			Components: []archivetest.Component{{Name: "api", Instances: 1, CPUs: 0.25, Demand: 200 * time.Microsecond}},
		})
	}
	for range 6 {
		level := 1000 * (1 + 0.1*(2*r.Float64()-1))
		for i, f := range factors {
			v := &p.Variants[i]
			v.Capacities = append(v.Capacities, level*f*math.Exp(0.05*r.NormFloat64()))
		}
	}
	return derived(t, p, "")
}

// Experiments in which nothing differs show "~" throughout in 19 of 20 or more,
// and one with a real difference does not.
func TestEqualsAreNotToldApart(t *testing.T) {
	t.Parallel()
	const experiments = 20
	same := 0
	for i := range experiments {
		if all(trialled(t, uint64(i), 1, 1, 1)) {
			same++
		}
	}
	t.Logf("three equal variants: ~ in %d of %d", same, experiments)
	if same < 19 {
		t.Errorf("three equal variants: ~ in %d of %d experiments, want 19", same, experiments)
	}
	res := trialled(t, 7, 1, 1.3, 1)
	if res.Scaling != nil {
		t.Errorf("scaling %+v without a sweep", res.Scaling)
	}
	if c := res.Comparisons; !c[0].Significant || c[0].P >= 0.05 || c[1].Significant {
		t.Errorf("comparisons %+v, want b to differ and c not to", c)
	}
	var text bytes.Buffer
	if err := report.Text(&text, res, report.Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(text.String(), "~ "); got != 1 {
		t.Errorf("%d rows with ~, want that of c alone:\n%s", got, text.String())
	}
}

func all(res *result.Result) bool {
	for _, c := range res.Comparisons {
		if c.Significant {
			return false
		}
	}
	return len(res.Comparisons) > 0
}

// A lower bound is no difference to what may still be below it.
func TestLowerBoundsMayBeOnTheOtherSide(t *testing.T) {
	t.Parallel()
	p := archivetest.Run{Name: "bounds", Started: began, Environment: archive.Environment{Machine: host.Machine{Cores: 2, LimitsEnforced: true}}}
	for i, limited := range []bool{true, false} {
		v := archivetest.Variant{
			Name: string(rune('a' + i)), Service: 2 * time.Millisecond, GeneratorLimited: limited,
			Components: []archivetest.Component{{Name: "api", Instances: 1, CPUs: 0.25, Demand: 200 * time.Microsecond}},
		}
		for j := range 6 {
			v.Capacities = append(v.Capacities, 1000+500*float64(i)+float64(j))
		}
		p.Variants = append(p.Variants, v)
	}
	res := derived(t, p, "")
	if c := res.Comparisons[0]; c.Significant || !res.Variants[0].Capacity.LowerBound {
		t.Errorf("%+v: the baseline sustains at least 1000, and perhaps more than the other", c)
	}
}
