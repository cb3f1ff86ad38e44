package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// Percentage points of the studentized range (Pearson and Hartley, Biometrika Tables for
// Statisticians, 1966), and Student's t, which it is for two.
func TestTheStudentizedRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		k       int
		freedom float64
		want    float64
	}{{3, 10, 3.877}, {4, 15, 4.076}, {5, 20, 4.232}, {10, 60, 4.646}} {
		if got := widestRange(c.k, c.freedom); !near(got, c.want, 0.001) {
			t.Errorf("of %d with %v degrees of freedom: got %.4f, want %.3f", c.k, c.freedom, got, c.want)
		}
		if p := 1 - rangeBelow(c.want, c.k, c.freedom); !near(p, 0.05, 0.0002) {
			t.Errorf("of %d with %v degrees of freedom: p of %v is %.5f, want 0.05", c.k, c.freedom, c.want, p)
		}
	}
	for _, freedom := range []float64{5, 9, 30} {
		if got, want := widestRange(2, freedom), math.Sqrt2*(distuv.StudentsT{Sigma: 1, Nu: freedom}).Quantile(0.975); !near(got, want, 0.001) {
			t.Errorf("of two with %v degrees of freedom: got %.4f, want %.4f", freedom, got, want)
		}
	}
}

// spread is how capacities of variants vary, on a logarithmic scale.
type spread struct {
	name  string
	round float64   // deviation of a round, which all of its trials share
	trial []float64 // that of a trial by variant, the last for all others
	slow  float64   // share of trials that lose up to a third
	heavy bool      // errors are often small and sometimes large (Laplace)
	step  float64   // values come in steps of that, a search's tolerance
}

func (s spread) draw(rng *rand.Rand, n int, factors ...float64) []Sample {
	out := make([]Sample, len(factors))
	for r := range n {
		round := s.round * rng.NormFloat64()
		for v, factor := range factors {
			e := rng.NormFloat64()
			if s.heavy {
				e = (rng.ExpFloat64() - rng.ExpFloat64()) / math.Sqrt2
			}
			x := round + s.trial[min(v, len(s.trial)-1)]*e + math.Log(factor)
			if rng.Float64() < s.slow {
				x += math.Log(1 - rng.Float64()/3)
			}
			if s.step > 0 { // each trial's search starts at another point within a step
				from := s.step * rng.Float64()
				x = from + s.step*math.Floor((x-from)/s.step)
			}
			out[v].Name = fmt.Sprint(v)
			out[v].Trials = append(out[v].Trials, Trial{Round: r + 1, Value: 1000 * math.Exp(x)})
		}
	}
	return out
}

const experiments = 5000

// simulated is the share of experiments in which any pair of equals is called different, in which
// the last is told from the first, and in which an interval misses its ratio.
func (s spread) simulated(seed uint64, n int, factors ...float64) (wrong, found, missed float64) {
	k := len(factors)
	rng := rand.New(rand.NewPCG(seed, uint64(100*n+k)))
	far := widestRange(k, float64((k-1)*(n-1)))
	for range experiments {
		b := newBlock(common(s.draw(rng, n, factors...)), far)
		anyWrong, anyMissed, last := false, false, false
		for i := range factors {
			for j := range i {
				_, low, high := b.interval(i, j)
				truth, different := math.Log(factors[i]/factors[j]), low > 0 || high < 0
				anyWrong = anyWrong || different && truth == 0
				anyMissed = anyMissed || truth < low || truth > high
				last = last || different && i == k-1 && j == 0
			}
		}
		wrong, found, missed = wrong+share(anyWrong), found+share(last), missed+share(anyMissed)
	}
	return wrong, found, missed
}

func share(yes bool) float64 {
	if yes {
		return 1.0 / experiments
	}
	return 0
}

// byRanks is the share of experiments in which ranks, against the first, tell the last from it.
func (s spread) byRanks(t *testing.T, seed uint64, n int, factors ...float64) (found float64) {
	t.Helper()
	k := len(factors)
	rng := rand.New(rand.NewPCG(seed, uint64(100*n+k)))
	for range experiments {
		samples := s.draw(rng, n, factors...)
		var lines []Line
		for _, sample := range samples[1:] {
			lines = append(lines, Line{Sample: sample, Base: samples[0]})
		}
		rows, err := Variants(lines)
		if err != nil {
			t.Fatal(err)
		}
		found += share(rows[k-2].Result.Outcome == Different)
	}
	return found
}

// correlated is a spread between trials of so much, half of whose variance is the rounds'.
func correlated(cv float64) spread {
	return spread{name: fmt.Sprintf("%.0f %% between trials", 100*cv), round: cv / math.Sqrt2, trial: []float64{cv / math.Sqrt2}}
}

func ones(k int) []float64 {
	out := make([]float64, k)
	for i := range out {
		out[i] = 1
	}
	return out
}

// In at most one experiment of 20 is any pair of equals called different, also where the
// errors are not normal, not alike in all variants, or come in steps.
func TestEqualsAreToldApartInOneOfTwentyAtMost(t *testing.T) {
	t.Parallel()
	usual := correlated(0.05)
	disturbed, heavy, steps, first, last, quiet, coarse := usual, usual, usual, usual, usual, correlated(0.004), correlated(0.02)
	disturbed.name, disturbed.slow = "one trial of ten disturbed", 0.1
	heavy.name, heavy.heavy = "heavy tails", true
	steps.name, steps.step = "steps of 5 %", 0.05
	first.name, first.trial = "the first varies three times as much", []float64{0.10, 0.033}
	last.name, last.trial = "the others vary three times as much", []float64{0.033, 0.033, 0.10}
	quiet.name, quiet.step = "steps of 5 %, and hardly anything else", 0.05
	coarse.name, coarse.step = "steps of 20 %", 0.2
	for _, s := range []spread{usual, disturbed, heavy, steps, first, last, quiet, coarse} {
		for _, k := range []int{2, 4, 6} {
			for _, n := range []int{6, 10} {
				wrong, _, missed := s.simulated(19, n, ones(k)...)
				t.Logf("%s, %d variants, %d rounds: equals differ in %.1f %%, an interval misses in %.1f %%", s.name, k, n, 100*wrong, 100*missed)
				if slack := 3 * math.Sqrt(Alpha*(1-Alpha)/experiments); wrong > Alpha+slack || missed > Alpha+slack {
					t.Errorf("%s, %d variants, %d rounds: equals differ in %.3f of experiments, want at most %v", s.name, k, n, wrong, Alpha)
				}
			}
		}
	}
}

// A difference of 10 % is found with six trials in four of five experiments, where trials differ by
// 3 to 5 % and those of a round by less.
func TestTenPerCentAreFoundInSixRounds(t *testing.T) {
	t.Parallel()
	for _, cv := range []float64{0.03, 0.04, 0.05} {
		for _, k := range []int{2, 3, 4, 6} {
			factors := ones(k)
			factors[k-1] = 1.1
			_, found, _ := correlated(cv).simulated(20, 6, factors...)
			byRanks := correlated(cv).byRanks(t, 20, 6, factors...)
			wrong, _, missed := correlated(cv).simulated(20, 6, append(ones(k), 1.1)...)
			t.Logf("%.0f %% between trials, %d variants: beside one that is 10 %% higher equals differ in %.1f %%, an interval misses in %.1f %%", 100*cv, k+1, 100*wrong, 100*missed)
			t.Logf("%.0f %% between trials, %d variants: 10 %% are found in %.1f %% of experiments, by ranks in %.1f %%", 100*cv, k, 100*found, 100*byRanks)
			if found < 0.8 || found < byRanks {
				t.Errorf("%.0f %% between trials, %d variants: 10 %% are found in %.3f of experiments, want 0.8; by ranks in %.3f", 100*cv, k, found, byRanks)
			}
		}
	}
}
