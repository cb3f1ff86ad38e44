package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// equals are so many variants of one distribution in so many rounds, whose machine drifts.
func equals(rng *rand.Rand, variants, rounds int) []Sample {
	out := make([]Sample, variants)
	for r := range rounds {
		drift := 0.02 * rng.NormFloat64()
		for v := range out {
			out[v].Name = fmt.Sprint(v)
			out[v].Trials = append(out[v].Trials, Trial{Round: r + 1, Value: 1000 * math.Exp(drift+0.05*rng.NormFloat64())})
		}
	}
	return out
}

// TestIntervalsOfVariantsAreSimultaneous: the true ratio of equals, 1, is in all of an
// experiment's intervals as often as they say; in all of those that are only right one by
// one it is less often, which this test could not do without.
func TestIntervalsOfVariantsAreSimultaneous(t *testing.T) {
	t.Parallel()
	const experiments = 1500
	for _, rounds := range []int{6, 10} {
		const variants = 5
		rng := rand.New(rand.NewPCG(7, uint64(rounds)))
		together, single, stated := 0, 0, 1.0
		inAll := func(rows []Row) int {
			for i := range rows {
				if r := rows[i].Result.Ratio; r.Low > 1 || r.High < 1 {
					return 0
				}
			}
			return 1
		}
		for range experiments {
			s := equals(rng, variants, rounds)
			var lines []Line
			for v := 1; v < variants; v++ {
				lines = append(lines, Line{Metric: Metric{Name: "capacity"}, Sample: s[v], Base: s[0]})
			}
			joint, err := Variants(lines)
			if err != nil {
				t.Fatal(err)
			}
			apart, err := Table(lines, Interleaved)
			if err != nil {
				t.Fatal(err)
			}
			together, single = together+inAll(joint), single+inAll(apart)
			for i := range joint {
				stated = min(stated, joint[i].Result.Ratio.Confidence)
			}
		}
		share, alone := float64(together)/experiments, float64(single)/experiments
		t.Logf("%d rounds: all of four intervals hold 1 in %.3f of experiments, which they state at %.3f; one by one %.3f", rounds, share, stated, alone)
		// Three standard deviations of a share of 0.95.
		if slack := 3 * math.Sqrt(0.05*0.95/experiments); share < stated-slack || stated < Level {
			t.Errorf("%d rounds: all of four intervals hold 1 in %.3f of experiments, and state %.3f", rounds, share, stated)
		}
		if alone > 0.935 {
			t.Errorf("%d rounds: intervals that are right one by one hold 1 in %.3f of experiments: this test could not tell them apart", rounds, alone)
		}
	}
}
