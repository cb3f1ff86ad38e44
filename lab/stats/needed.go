package stats

import "math"

// Needed is the fewest trials of each variant with which an experiment of so many variants
// can tell one from its baseline; see Variants. A single variant has none to be told from: it is 1.
func Needed(variants int) int { return needed(variants-1, Interleaved) }

// needed is the fewest trials of each sample in which one of so many rows of a
// table can be told apart: with the lowest p that so many trials can give, after
// Holm's correction for all rows.
func needed(rows int, design Design) int {
	n := 1
	for n < MaxTrials && float64(rows)*(Result{Test: testFor(rows, n, design), N: n, BaseN: n}).least() >= Alpha {
		n++
	}
	return n
}

// testFor is the test of one of so many rows, whose p-values will be corrected for
// their number. The signed-rank test is used only if it could survive that: six
// rounds give it 0.031 at best, and the rank-sum test 0.002.
func testFor(rows, rounds int, design Design) Test {
	if design == Interleaved && rounds >= minRounds && float64(rows)*math.Exp2(1-float64(rounds)) < Alpha {
		return SignedRank
	}
	return RankSum
}

// decidable says of each row whether any values of so many trials could have
// been told apart: with every p as low as it can be. Holm's correction only rises
// with any of them, so nothing that was measured does better.
func decidable(least []float64) []bool {
	out := make([]bool, len(least))
	for i, p := range Holm(least) {
		out[i] = p < Alpha
	}
	return out
}
