package stats

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func sample(name string, values ...float64) Sample {
	s := Sample{Name: name}
	for i, v := range values {
		s.Trials = append(s.Trials, Trial{Round: i + 1, Value: v})
	}
	return s
}

func must(t *testing.T, a, b Sample, d Design) Result {
	t.Helper()
	r, err := compare(1, Level, a, b, d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance }

func TestCompareByHand(t *testing.T) {
	t.Parallel()
	base := sample("base", 100, 110, 95, 105, 102, 99)
	for _, c := range []struct {
		name    string
		a       Sample
		d       Design
		test    Test
		p       float64
		outcome Outcome
	}{
		// All six ratios are above 1: p = 2/2⁶.
		{"six rounds, all faster", sample("a", 120, 130, 116, 125, 121, 117), Interleaved, SignedRank, 0.03125, Different},
		// One of six is slower and has the smallest rank: p = 4/64.
		{"six rounds, one slower", sample("a", 120, 130, 116, 125, 121, 98.5), Interleaved, SignedRank, 0.0625, Indistinct},
		{"the same values", base, Interleaved, SignedRank, 1, Indistinct},
		// No value of one sample lies among the other's: p = 2/C(12,6).
		{"two runs", sample("a", 120, 130, 116, 125, 121, 117), Separate, RankSum, 2.0 / 924, Different},
		{"four rounds are a rank sum", sample("a", 120, 130, 116, 125), Interleaved, RankSum, 2.0 / 210, Different},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := must(t, c.a, base, c.d)
			if r.Test != c.test || !near(r.P, c.p, 1e-12) || r.Outcome != c.outcome {
				t.Errorf("got %s, p %.6f, %s; want %s, p %.6f, %s", r.Test, r.P, r.Outcome, c.test, c.p, c.outcome)
			}
		})
	}
}

// Three against three can give p = 0.1 at best, which is no reason to panic or
// to say "~".
func TestTooFewTrialsSaysSo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ n, m int }{{1, 1}, {1, 40}, {2, 5}, {3, 3}, {3, 4}} {
		want := TooFew
		if c.n == 1 && c.m == 40 { // 2/41 < 0.05
			want = Different
		}
		a, b := make([]float64, c.n), make([]float64, c.m)
		for i := range a {
			a[i] = 200 + float64(i)
		}
		for i := range b {
			b[i] = 100 + float64(i)
		}
		r := must(t, sample("a", a...), sample("b", b...), Interleaved)
		if r.Outcome != want || r.Needed != 4 || r.Ratio.Value <= 1 {
			t.Errorf("%d against %d: %+v, want %s and 4 needed", c.n, c.m, r, want)
		}
		if c.n*c.m == 1 && r.Ratio.Confidence != 0 {
			t.Errorf("one against one has the confidence %v, want none", r.Ratio.Confidence)
		}
	}
}

func TestTheIntervalAndTheTestAgree(t *testing.T) {
	t.Parallel()
	w := world{seed: 3, drift: 0.10, noise: 0.05}
	for i := range 300 {
		for _, n := range []int{4, 6, 7, 11} {
			a, b := w.round(n, i, 1+0.02*float64(i%8))
			r := must(t, a, b, Interleaved)
			outside := r.Ratio.Low > 1 || r.Ratio.High < 1
			if (r.P < Alpha) != outside {
				t.Fatalf("%d rounds: p %v, interval %v to %v", n, r.P, r.Ratio.Low, r.Ratio.High)
			}
		}
	}
}

func TestTiesAreExact(t *testing.T) {
	t.Parallel()
	// Brute force over all 2ⁿ signs.
	for _, logs := range [][]float64{
		{1, 1, 1, -1, 2, 2, 3}, {0, 0, 1, 1, 2, -2, 5}, {1, 2, 3, 4, 5, 6, -7}, {0, 0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1, 1},
	} {
		if got, want := signedRankP(logs), brute(logs); !near(got, want, 1e-12) {
			t.Errorf("%v: p %v, want %v", logs, got, want)
		}
	}
	// Equal values in both samples never differ, whatever the test.
	same := []float64{5, 5, 5, 5, 5, 5}
	for _, d := range []Design{Interleaved, Separate} {
		if r := must(t, sample("a", same...), sample("b", same...), d); r.P != 1 || r.Outcome != Indistinct || r.Ratio.Value != 1 {
			t.Errorf("%s: %+v, want p 1", d, r)
		}
	}
}

func brute(logs []float64) float64 {
	ranks := make([]float64, len(logs))
	for i, a := range logs {
		lower, equal := 0, 0
		for _, b := range logs {
			if math.Abs(b) < math.Abs(a) {
				lower++
			} else if math.Abs(b) == math.Abs(a) {
				equal++
			}
		}
		ranks[i] = float64(lower) + float64(equal+1)/2
	}
	statistic := func(sign func(int) float64) float64 {
		sum := 0.0
		for i := range logs {
			if logs[i] != 0 {
				sum += sign(i) * ranks[i]
			}
		}
		return math.Abs(sum)
	}
	seen := statistic(func(i int) float64 { return math.Copysign(1, logs[i]) })
	extreme, all := 0, 1<<len(logs)
	for mask := range all {
		s := statistic(func(i int) float64 { return float64(1 - 2*(mask>>i&1)) })
		if s >= seen {
			extreme++
		}
	}
	return float64(extreme) / float64(all)
}

func TestBadValuesAreRefused(t *testing.T) {
	t.Parallel()
	good := sample("good", 1, 2, 3, 4)
	twice := Sample{Name: "twice", Trials: []Trial{{1, 5}, {1, 6}}}
	for _, c := range []struct {
		s    Sample
		d    Design
		want string
	}{
		{sample("bad", 1, math.NaN()), Interleaved, "NaN in round 2"},
		{sample("bad", 1, math.Inf(1)), Separate, "+Inf"},
		{sample("bad", 0), Separate, "the value 0"},
		{sample("bad", -3), Separate, "-3"},
		{sample("none"), Separate, "no trials"},
		{twice, Interleaved, "two trials in round 1"},
		{good, "", "design"},
		{sample("many", make([]float64, MaxTrials+1)...), Separate, "301 trials"},
	} {
		_, err := compare(1, Level, c.s, good, c.d)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.s.Name, err, c.want)
		}
		if _, err := Table([]Line{{Sample: good, Base: c.s}}, c.d); err == nil {
			t.Errorf("%s: a table of it has no error", c.s.Name)
		}
	}
	if _, err := compare(1, Level, twice, good, Separate); err != nil {
		t.Errorf("rounds do not matter to separate samples: %v", err)
	}
}

func TestExtremeValuesStayFinite(t *testing.T) {
	t.Parallel()
	huge, tiny := make([]float64, MaxTrials), make([]float64, MaxTrials)
	for i := range huge {
		huge[i], tiny[i] = 1e300*(1+float64(i)/1000), 1e-300*(1+float64(i)/1000)
	}
	for _, d := range []Design{Interleaved, Separate} {
		r := must(t, sample("huge", huge...), sample("huge too", huge...), d)
		if r.Outcome != Indistinct || math.IsNaN(r.Ratio.Low) || !near(r.Ratio.Value, 1, 1e-9) {
			t.Errorf("%s: %+v", d, r)
		}
		if r := must(t, sample("huge", huge[:6]...), sample("tiny", tiny[:6]...), d); math.IsNaN(r.Ratio.Value) || r.Outcome != Different {
			t.Errorf("%s: %+v", d, r)
		}
	}
}

func TestMissingTrialsAreLeftOut(t *testing.T) {
	t.Parallel()
	a := sample("a", 1, 2, 3, 4, 5, 6, 7)
	b := sample("b", 2, 4, 6, 8, 10, 12)
	r := must(t, a, b, Interleaved)
	if r.Test != SignedRank || r.N != 6 || !near(r.Ratio.Value, 0.5, 1e-12) || len(r.Warnings) != 1 {
		t.Errorf("%+v, want a half from 6 rounds, with one warning", r)
	}
	if r := must(t, a, b, Separate); len(r.Warnings) != 1 {
		t.Errorf("separate runs have the warnings %q, want the one about the machine", r.Warnings)
	}
}

func TestHolm(t *testing.T) {
	t.Parallel()
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	// By hand: 0.005·4, 0.01·3, 0.03·2, and 0.04·1 raised to the one before it.
	for i, want := range []float64{0.03, 0.06, 0.06, 0.02} {
		if !near(got[i], want, 1e-12) {
			t.Errorf("adjusted %v, want %v at %d", got, want, i)
		}
	}
	if got := Holm([]float64{0.9, 0.8}); got[0] != 1 || got[1] != 1 {
		t.Errorf("adjusted %v, want no more than 1", got)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	base := sample("base", 100, 110, 95, 105, 102, 99, 101, 103)
	faster := sample("fast", 150, 160, 145, 155, 152, 149, 151, 153)
	rows, err := Table([]Line{
		{Metric{"capacity", "req/s", true}, faster, base},
		{Metric{"p95", "ms", false}, faster, base},
		{Metric{"demand", "ms", false}, base, base},
		{Metric{"few", "ms", false}, sample("few", 1, 2, 3), sample("few", 4, 5, 6)},
	}, Interleaved)
	if err != nil {
		t.Fatal(err)
	}
	p := math.Exp2(-7)
	for i, want := range []struct {
		change   Change
		outcome  Outcome
		adjusted float64
	}{{Better, Different, 3 * p}, {Worse, Different, 3 * p}, {Unclear, Indistinct, 1}, {Unclear, TooFew, 0.1}} {
		r := rows[i]
		if r.Change != want.change || r.Result.Outcome != want.outcome || !near(r.Adjusted, want.adjusted, 1e-12) {
			t.Errorf("%s: %s, %s, %v; want %+v", r.Metric.Name, r.Change, r.Result.Outcome, r.Adjusted, want)
		}
	}
	if r := rows[0]; r.Base.Value != 101.5 || r.Base.Low > 101.5 || r.Sample.Confidence < Level {
		t.Errorf("summaries %+v and %+v", r.Sample, r.Base)
	}
}

// How many trials are needed follows from the lowest p that they can give, times
// the number of rows; with one fewer no values can be told apart, and no
// comparison of so many trials says that it can be.
func TestNeededFollowsFromTheTestAndItsCorrection(t *testing.T) {
	t.Parallel()
	for rows, want := range map[int]int{1: 4, 2: 5, 6: 5, 7: 6, 11: 6} {
		for _, design := range []Design{Interleaved, Separate} {
			if got := needed(rows, design); got != want {
				t.Errorf("%d rows, %s: %d trials, want %d", rows, design, got, want)
			}
		}
		for n := 1; n <= want; n++ {
			var low, high []float64
			for i := range n { // apart as far as can be
				low, high = append(low, 1+0.01*float64(i)), append(high, 100+float64(i))
			}
			lines := slices.Repeat([]Line{{Metric{}, sample("high", high...), sample("low", low...)}}, rows)
			got, err := Table(lines, Interleaved)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range got {
				if told := r.Result.Outcome == Different; told != (n == want) || r.Decidable != told || r.Result.Needed != want {
					t.Errorf("%d rows of %d trials: %s, decidable %v, %d needed; want %d", rows, n, r.Result.Outcome, r.Decidable, r.Result.Needed, want)
				}
			}
		}
	}
}

// With four rounds, two comparisons are one too many; the row says so.
func TestTableSaysWhatTheCorrectionCost(t *testing.T) {
	t.Parallel()
	base := sample("base", 100, 110, 95, 105)
	faster := sample("fast", 150, 160, 145, 155)
	rows, err := Table([]Line{{Metric{}, faster, base}, {Metric{}, faster, base}}, Interleaved)
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.Result.Outcome != Indistinct || !near(r.Adjusted, 4.0/70, 1e-12) || len(r.Result.Warnings) != 1 {
		t.Errorf("%+v, want ~ at 0.057 with a warning", r)
	}
}

// Six rounds give the signed-rank test 0.031 at best, which two rows do not
// survive: they are told apart by the rank-sum test, one row by round.
func TestTableTakesTheTestThatItsRowsAllow(t *testing.T) {
	t.Parallel()
	base := sample("base", 100, 110, 95, 105, 102, 99)
	faster := sample("fast", 150, 160, 145, 155, 152, 149)
	for rows, want := range map[int]Test{1: SignedRank, 2: RankSum, 20: RankSum} {
		table, err := Table(slices.Repeat([]Line{{Metric{}, faster, base}}, rows), Interleaved)
		if err != nil {
			t.Fatal(err)
		}
		if r := table[0].Result; r.Test != want || r.Outcome != Different {
			t.Errorf("%d rows: %s by %s, want different by %s", rows, r.Outcome, r.Test, want)
		}
	}
}

// TestBracketed has values of which only the ends are known: the interval runs
// from the lower ends to the upper ones, at Median's confidence.
func TestBracketed(t *testing.T) {
	t.Parallel()
	lows, highs := []float64{3, 1, 2, 5, 4, 6}, []float64{30, 10, 20, math.Inf(1), 40, 60}
	got, same := Bracketed(lows, highs), Median(lows)
	if got.Value != same.Value || got.Low != same.Low || got.Confidence != same.Confidence || !math.IsInf(got.High, 1) {
		t.Errorf("got %+v, want the value and low end of %+v and no upper end", got, same)
	}
	highs[3] = 50
	if got := Bracketed(lows, highs); got.High != 60 {
		t.Errorf("got %+v, want up to 60", got)
	}
	if got, want := Bracketed(lows[:1], highs[:1]), (Interval{Value: 3, Low: 3, High: 3}); got != want {
		t.Errorf("of one: got %+v, want %+v", got, want)
	}
	if got := Bracketed(nil, nil); got != (Interval{}) {
		t.Errorf("of none: got %+v", got)
	}
}
