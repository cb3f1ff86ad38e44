package report

import (
	"math"
	"strings"
	"testing"

	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	variant := func(name string, value, low, high float64) result.Variant {
		return result.Variant{Name: name, Trials: 6, Capacity: &result.Estimate{Interval: stats.Interval{Value: value, Low: low, High: high, Confidence: 0.96875}, Unit: "req/s"},
			Verdict: verdict.Verdict{Status: verdict.Named, Component: "api", Resource: "cpu"}}
	}
	lower := func(v result.Variant) result.Variant {
		v.Capacity.LowerBound = true
		v.Verdict = verdict.Verdict{Status: verdict.LowerBoundOnly}
		return v
	}
	to := func(variant string, ratio, low, high float64) result.Comparison {
		return result.Comparison{Variant: variant, Baseline: "a", Ratio: ratio, Low: low, High: high, Confidence: 0.96875, Significant: low > 1 || high < 1}
	}
	few := func(name string, value float64, trials int) result.Variant {
		v := variant(name, value, 0.99*value, 1.01*value)
		v.Trials, v.Capacity.Confidence = trials, 1-math.Exp2(float64(1-trials))
		return v
	}
	short := func(variant string, ratio float64, needed int) result.Comparison {
		c := to(variant, ratio, 0.9*ratio, 1.1*ratio)
		c.Significant, c.Needed = false, needed
		if needed == 5 { // of the single trial
			c.Confidence = 0
		}
		return c
	}
	a, b, c := variant("a", 100, 95, 105), variant("b", 300, 280, 320), variant("c", 310, 290, 330)
	undecided := b
	undecided.Verdict = verdict.Verdict{Status: verdict.Undecided}
	otherLimit := variant("b", 102, 96, 106)
	otherLimit.Verdict = verdict.Verdict{Status: verdict.Undecided}
	for name, test := range map[string]struct {
		result result.Result
		want   string
	}{
		"one variant": {result.Result{Variants: []result.Variant{a}}, "The capacity of a is 100 req/s; api (cpu) limits it."},
		"a clear winner": {result.Result{Variants: []result.Variant{a, b}, Comparisons: []result.Comparison{to("b", 3, 2.7, 3.2)}},
			"b has the highest capacity: 300 req/s, 3.00 times the baseline a (between 2.70 and 3.20); api (cpu) limits it."},
		"the baseline wins": {result.Result{Variants: []result.Variant{b, a}, Comparisons: []result.Comparison{{Variant: "a", Baseline: "b", Ratio: 0.33, Low: 0.3, High: 0.36, Confidence: 0.97, Significant: true}}},
			"The baseline b has the highest capacity: 300 req/s; api (cpu) limits it."},
		"two overlap": {result.Result{Variants: []result.Variant{a, b, c}, Comparisons: []result.Comparison{to("b", 3, 2.7, 3.2), to("c", 3.1, 2.8, 3.3)}},
			"The highest capacity is that of b (300 req/s) or c (310 req/s): no difference was shown between them; api (cpu) limits each of them."},
		"pairs decide over overlap": {result.Result{Variants: []result.Variant{variant("a", 295, 270, 315), b}, Comparisons: []result.Comparison{to("b", 1.04, 1.02, 1.06)}},
			"b has the highest capacity: 300 req/s, 1.04 times the baseline a (between 1.02 and 1.06); api (cpu) limits it."},
		"not told apart from the baseline": {result.Result{Variants: []result.Variant{a, variant("b", 110, 107, 112)}, Comparisons: []result.Comparison{to("b", 1.1, 0.98, 1.2)}},
			"No difference was shown between a (100 req/s) and b (110 req/s); api (cpu) limits each of them."},
		"too few trials": {result.Result{Variants: []result.Variant{few("a", 100, 2), few("b", 300, 2)}, Comparisons: []result.Comparison{short("b", 3, 4)}},
			"There are too few trials to tell a (100 req/s) and b (300 req/s) apart (2 of each, the test needs 4); api (cpu) limits each of them."},
		"too few, and the baseline wins": {result.Result{Variants: []result.Variant{few("a", 300, 2), few("b", 100, 2)}, Comparisons: []result.Comparison{short("b", 1.0/3, 4)}},
			"There are too few trials to tell a (300 req/s) and b (100 req/s) apart (2 of each, the test needs 4); api (cpu) limits each of them."},
		"a single trial": {result.Result{Variants: []result.Variant{few("a", 100, 1), few("b", 300, 1), few("c", 200, 1)}, Comparisons: []result.Comparison{short("b", 3, 5), short("c", 2, 5)}},
			"There are too few trials to tell a (100 req/s), b (300 req/s) and c (200 req/s) apart (1 of each, the test needs 5); api (cpu) limits each of them."},
		"too few of unequal numbers": {result.Result{Variants: []result.Variant{few("a", 100, 2), few("b", 300, 3)}, Comparisons: []result.Comparison{short("b", 3, 4)}},
			"There are too few trials to tell a (100 req/s) and b (300 req/s) apart (the test needs 4 of each); api (cpu) limits each of them."},
		"undecided": {result.Result{Variants: []result.Variant{undecided}}, "The capacity of b is 300 req/s; what limits it is undecided."},
		"the best is a lower bound": {result.Result{Variants: []result.Variant{a, lower(variant("b", 300, 280, 320))}, Comparisons: []result.Comparison{to("b", 3, 2.7, 3.2)}},
			"The capacity of b is at least 300 req/s, at least 3.00 times the baseline a (between 2.70 and 3.20); the measurement ended before its limit was reached."},
		"another is a lower bound": {result.Result{Variants: []result.Variant{lower(variant("a", 100, 95, 105)), b}, Comparisons: []result.Comparison{to("b", 3, 2.7, 3.2)}},
			"Which capacity is the highest is not known: the measurement ended before the limit of a (at least 100 req/s) was reached; the capacity of b is 300 req/s, at most 3.00 times the baseline a (between 2.70 and 3.20); api (cpu) limits it."},
		"both are lower bounds": {result.Result{Variants: []result.Variant{lower(variant("a", 100, 95, 105)), lower(variant("b", 300, 280, 320))}, Comparisons: []result.Comparison{to("b", 3, 2.7, 3.2)}},
			"Which capacity is the highest is not known: the measurement ended before the limit of a (at least 100 req/s) and b (at least 300 req/s) was reached."},
		"all equal": {result.Result{Variants: []result.Variant{a, variant("b", 102, 96, 106), variant("c", 99, 94, 104)}, Comparisons: []result.Comparison{to("b", 1.02, 0.97, 1.06), to("c", 0.99, 0.95, 1.03)}},
			"No difference was shown between a (100 req/s), b (102 req/s) and c (99.0 req/s); api (cpu) limits each of them."},
		"all equal, with different limits": {result.Result{Variants: []result.Variant{a, otherLimit}, Comparisons: []result.Comparison{to("b", 1.02, 0.97, 1.06)}},
			"No difference was shown between a (100 req/s) and b (102 req/s)."},
		"two lines of a single trial without a test": {result.Result{Variants: []result.Variant{few("a", 100, 1), few("b", 300, 1)}},
			"There are too few trials to tell a (100 req/s) and b (300 req/s) apart; api (cpu) limits each of them."},
		"two at the top with too few trials": {result.Result{Variants: []result.Variant{a, variant("b", 300, 280, 320), few("c", 310, 2)}, Comparisons: []result.Comparison{to("b", 3, 2.7, 3.2), short("c", 3.1, 4)}},
			"The highest capacity is that of b (300 req/s) or c (310 req/s): there are too few trials to tell them apart (the test needs 4 of each); api (cpu) limits each of them."},
		"a lower bound on top that is not significant": {result.Result{Variants: []result.Variant{a, lower(variant("b", 105, 100, 110))}, Comparisons: []result.Comparison{to("b", 1.05, 0.97, 1.1)}},
			"Which capacity is the highest is not known: the measurement ended before the limit of b (at least 105 req/s) was reached; the capacity of a is 100 req/s; api (cpu) limits it."},
		"a lower bound beside a winner": {result.Result{Variants: []result.Variant{a, lower(variant("b", 105, 100, 110)), c}, Comparisons: []result.Comparison{to("b", 1.05, 0.97, 1.1), to("c", 3.1, 2.8, 3.3)}},
			"Which capacity is the highest is not known: the measurement ended before the limit of b (at least 105 req/s) was reached; of the others, c has the highest capacity: 310 req/s, 3.10 times the baseline a (between 2.80 and 3.30); api (cpu) limits it."},
		"a lower bound beside equals": {result.Result{Variants: []result.Variant{a, lower(variant("b", 105, 100, 110)), variant("c", 101, 96, 106)}, Comparisons: []result.Comparison{to("b", 1.05, 0.97, 1.1), to("c", 1.01, 0.98, 1.03)}},
			"Which capacity is the highest is not known: the measurement ended before the limit of b (at least 105 req/s) was reached; of the others, no difference was shown between a (100 req/s) and c (101 req/s); api (cpu) limits each of them."},
		"medians and pairs contradict each other": {result.Result{Variants: []result.Variant{a, variant("b", 101, 96, 106)}, Comparisons: []result.Comparison{to("b", 0.98, 0.97, 0.99)}},
			"No difference was shown between a (100 req/s) and b (101 req/s); api (cpu) limits each of them."},
		"nothing held":                {result.Result{Variants: []result.Variant{{Name: "a"}}}, "No capacity was found: no variant met the objectives at any rate that was tried."},
		"no finite number":            {result.Result{Variants: []result.Variant{variant("a", math.NaN(), 1, 2)}}, "No capacity was found: no variant met the objectives at any rate that was tried."},
		"nothing held in most trials": {result.Result{Variants: []result.Variant{variant("a", 0, 0, 120)}}, "No capacity was found: in most trials no rate that was tried held."},
		"nothing":                     {result.Result{}, "Nothing was measured: the result has no variants."},
		"load, no variants":           {result.Result{Measure: "load"}, "Nothing was measured: the result has no variants."},
		"load, none met": {result.Result{Measure: "load", Variants: []result.Variant{{Name: "a", SLO: []result.SLO{{}}, Latency: result.LatencyPair{Response: result.Percentiles{P95: 12}}}}},
			"No variant met every objective under the load as written; a had the lowest p95: 12.0 ms."},
		"load, all met":       {result.Result{Measure: "load", Variants: []result.Variant{{Name: "a", SLO: []result.SLO{{Met: true}}}, {Name: "b", SLO: []result.SLO{{Met: true}}}}}, "Every variant met every objective under the load as written."},
		"load, no objectives": {result.Result{Measure: "load", Variants: []result.Variant{{Name: "a"}}}, "Under the load as written, no objective was set."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := answer(&test.result).String(); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestConfidenceIsTheActualOne(t *testing.T) {
	t.Parallel()
	r := sampleResult()
	if got, want := confidences(r), "96.9 % interval over 6 trials"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ratioConfidence(r); got != "" {
		t.Errorf("got %q, want the ratios' confidence left out where it is the same", got)
	}
	r.Comparisons[0].Confidence = 0.95
	if got, want := ratioConfidence(r), " Ratios: 95 % interval."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r.Variants[1].Trials, r.Variants[1].Capacity.Confidence = 5, 0.9375
	r.Variants[2].Trials, r.Variants[2].Capacity.Confidence = 1, 0
	want := "query and snapshot: 96.9 % interval over 6 trials; query-3: 93.8 % interval over 5 trials; cached: 1 trial, no interval"
	if got := confidences(r); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestATieIsSaid(t *testing.T) {
	t.Parallel()
	v := result.Variant{Name: "one", Verdict: verdict.Verdict{
		Status: verdict.Tied, Agreement: "2/2", Advice: "Change left and right together.",
		Tied: []verdict.Limit{{Component: "left", Resource: "cpu"}, {Component: "right", Resource: "cpu"}},
	}}
	if got, want := limitedBy(&v), "left = right"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var b strings.Builder
	if err := Text(&b, &result.Result{Schema: result.Schema, Measure: "capacity", Variants: []result.Variant{v}}, Options{Width: 100}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"left = right", "agreement     2 of 2 methods agree", "change        Change left and right together."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text does not say %q:\n%s", want, b.String())
		}
	}
	v.Components = []verdict.Component{{Name: "left", Instances: 1}, {Name: "mid", Instances: 1}, {Name: "right", Instances: 1}}
	card := newLimitCard(&result.Result{Variants: []result.Variant{v}}, 0)
	if rows := card.Components; !card.Decided || !rows[0].Limiting || rows[1].Limiting || !rows[2].Limiting {
		t.Errorf("the page marks %+v, want left and right as limits", rows)
	}
	v.Verdict.Tied[1] = verdict.Limit{Component: "left", Resource: "pool", Name: "connections"}
	if got, want := limitedBy(&v), "left cpu = left connections"; got != want {
		t.Errorf("one component: got %q, want %q", got, want)
	}
	if got := v.Verdict.Limiting(); len(got) != 1 || got[0] != "left" {
		t.Errorf("one component: %v limits, want left alone", got)
	}
}

func TestAgreementInWords(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"3/3": "3 of 3 methods agree", "2/3 (saturation: barely)": "2 of 3 methods agree (saturation: barely)", "": "",
	} {
		if got := agreement(&verdict.Verdict{Agreement: written}); got != want {
			t.Errorf("%q: got %q, want %q", written, got, want)
		}
	}
}
