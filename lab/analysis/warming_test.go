package analysis

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"loadstone/lab/capacity"
)

// cached is a system of a cache and a store, whose work is for the requests that miss,
// and of something beside them that works at any rate. It is searched as any system is.
type cached struct {
	keys   float64 // 0: nothing is ever found in the cache
	warmup float64 // requests before the search
	fixed  float64 // cores that the cache uses at any rate
	noise  float64 // of a demand, as a share
}

// search is one trial's: the store has half a core and 2 ms for a miss.
func (c cached) search(r *rand.Rand) []attempt {
	const store, hit, share = 2.0, 0.2, 0.5
	asked := c.warmup
	missing := func() float64 {
		if c.keys == 0 {
			return 1
		}
		return math.Exp(-asked / c.keys)
	}
	noisy := func(x float64) float64 { return x * math.Exp(c.noise*r.NormFloat64()) }
	var out []attempt
	var history []capacity.Try
	spent := time.Duration(0)
	for {
		step, ok := capacity.DefaultConfig().Next(history, spent, 1000*share/store/missing()/(1+0.4*r.Float64()))
		if !ok {
			return out
		}
		bears := noisy(1000 * share / store / missing())
		done, miss := min(step.Rate, bears), missing()
		demand := map[string]float64{"store": noisy(store * miss), "cache": noisy(hit) + 1000*c.fixed/done}
		out = append(out, attempt{done, demand, map[string]float64{
			"store": done * demand["store"] / 1000 / share, "cache": done * demand["cache"] / 1000,
		}})
		asked += done * step.Duration.Seconds()
		spent += step.Duration
		history = append(history, capacity.Try{Purpose: step.Purpose, Rate: step.Rate, Held: step.Rate <= bears})
	}
}

func TestWarming(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		system cached
		trials int
		most   float64 // share of the runs that may warn
		least  float64 // and that must
	}{
		"the cache fills":              {cached{keys: 2500, noise: 0.02}, 1, 1, 0.95},
		"the cache fills, many trials": {cached{keys: 4000, noise: 0.1}, 5, 1, 0.95},
		"it was filled before":         {cached{keys: 2500, warmup: 25_000, noise: 0.02}, 3, 0.01, 0},
		"there is no cache":            {cached{noise: 0.05}, 3, 0.01, 0},
		"nor much that is certain":     {cached{noise: 0.5}, 3, 0.015, 0},
		"a part works at any rate":     {cached{fixed: 0.1, noise: 0.02}, 3, 0.015, 0},
		"less than matters":            {cached{keys: 200_000, noise: 0.0001}, 3, 0.001, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const runs = 1000
			warned := 0
			for seed := range uint64(runs) {
				r := rand.New(rand.NewPCG(seed, 1))
				var trials []observed
				for range c.trials {
					trials = append(trials, observed{attempts: c.system.search(r)})
				}
				switch got := warming(trials, 0.05); {
				case len(got) == 0:
				case !strings.HasPrefix(got[0], "service demand of store fell by ") || !strings.HasSuffix(got[0], "raise `warmup` of the load"):
					if c.least > 0 {
						t.Fatalf("got %q", got)
					}
					fallthrough
				default:
					warned++
				}
			}
			if share := float64(warned) / runs; share > c.most || share < c.least {
				t.Errorf("%.3f of the runs warn, want %v to %v", share, c.least, c.most)
			}
		})
	}
}

func TestAttemptsAreOfTheSearch(t *testing.T) {
	t.Parallel()
	api := planted{capacity: 4800, demand: 50 * time.Microsecond, instances: 1}
	r := write(t, map[string]planted{"one": api, "two": api})
	w, err := readWatched(r.TrialDir(r.Trials[0].Planned))
	if err != nil {
		t.Fatal(err)
	}
	got := attempts(r.Trials[0], w.samples)
	if len(got) != 3 || got[0].rate != 4800 || !near(got[0].demand["api"], 0.05, 0.001) || !near(got[2].busy["api"], 0.96, 0.001) {
		t.Errorf("got %+v, want three without the sweep, of 0.05 ms, at 96 %% of its share", got)
	}
}
