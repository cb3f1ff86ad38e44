package capacity

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestSmallBudgetsFindTheEdge: a search of four seconds from a start that is far off came out
// at 0.27, 0.41 and 0.69 of the edge (from 0.2, 2 and 1.3 times it): the strides, which grow,
// had used the budget up, and of a bracket 2.6 wide the lower end was confirmed. The noise
// is that of tries as short as they are, and not of the budget's share.
func TestSmallBudgetsFindTheEdge(t *testing.T) {
	t.Parallel()
	for _, budget := range []time.Duration{4 * time.Second, 11 * time.Second} {
		for _, noise := range []float64{0.02, 0.06} {
			for _, guess := range []float64{0.2, 0.5, 0.8, 1, 1.3, 2} {
				c, e := DefaultConfig(), &edge{noise: noise, rng: rand.New(rand.NewPCG(3, 4)), absolute: true}
				c.Budget = budget
				var found, spents []float64
				for i := range 300 {
					history, spent := e.trial(c, Start(guess*trueEdge, 1, i))
					found, spents = append(found, Conclude(history).Rate/trueEdge), append(spents, spent.Seconds()/budget.Seconds())
				}
				slices.Sort(found)
				slices.Sort(spents)
				median, late := quantile(found, 0.5), quantile(spents, 0.95)
				t.Logf("%v, noise %g %%, from %g: %.2f (p10 %.2f, p90 %.2f) of the edge; %.2f of the budget, p95 %.2f", budget, 100*noise, guess, median, quantile(found, 0.1), quantile(found, 0.9), quantile(spents, 0.5), late)
				if median < 0.8 || median > 1.03 || quantile(found, 0.1) < 0.6 {
					t.Errorf("%v, noise %g %%, from %g: came out at %.2f (p10 %.2f) of the edge", budget, 100*noise, guess, median, quantile(found, 0.1))
				}
				if late > 1.32 {
					t.Errorf("%v from %g: took %.2f of the budget (p95)", budget, guess, late)
				}
			}
		}
	}
}
