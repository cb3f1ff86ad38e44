package compare

import (
	"testing"

	"loadstone/lab/stats"
)

func TestInWords(t *testing.T) {
	t.Parallel()
	ratio := func(v, low, high float64) stats.Interval {
		return stats.Interval{Value: v, Low: low, High: high, Confidence: 0.95}
	}
	for name, c := range map[string]struct {
		result stats.Result
		p      float64
		change stats.Change
		note   string
		want   Compared
	}{
		"better": {stats.Result{Ratio: ratio(1.031, 1.01, 1.052), Outcome: stats.Different}, 0.0123, stats.Better, "",
			Compared{"+3.1 %", "[+1.0 %, +5.2 %]", "=0.012", "better"}},
		"worse": {stats.Result{Ratio: ratio(0.9, 0.88, 0.92), Outcome: stats.Different}, 0.0001, stats.Worse, "",
			Compared{"−10.0 %", "[−12.0 %, −8.0 %]", "<0.001", "worse"}},
		"a factor": {stats.Result{Ratio: ratio(2.94, 2.8, 3.1), Outcome: stats.Different}, 0.01, stats.Better, "",
			Compared{"×2.94", "[×2.80, ×3.10]", "=0.010", "better"}},
		"alike": {stats.Result{Ratio: ratio(1.0001, 0.98, 1.02), Outcome: stats.Indistinct}, 0.7, stats.Unclear, "",
			Compared{"0.0 %", "[−2.0 %, +2.0 %]", "=0.700", "~ no difference was shown"}},
		"too few": {stats.Result{Ratio: stats.Interval{Value: 1.5, Low: 1.5, High: 1.5}, Outcome: stats.TooFew, Needed: 5}, 1, stats.Unclear, "",
			Compared{"+50.0 %", "[no interval]", "", "too few trials, 5 of each are needed"}},
		"a note": {stats.Result{Ratio: ratio(1.5, 1.4, 1.6), Outcome: stats.Different}, 0.01, stats.Unclear, "a lower bound",
			Compared{"+50.0 %", "[+40.0 %, +60.0 %]", "=0.010", "a lower bound"}},
	} {
		if got := InWords(&c.result, c.p, c.change, c.note); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if got := Median(stats.Interval{Value: 4312, Low: 4180, High: 4420, Confidence: 0.95}, true); got != "≥4,310 [4,180, 4,420]" {
		t.Errorf("got %q", got)
	}
	if got := Median(stats.Interval{}, false) + Median(stats.Interval{Value: 2}, false); got != "–2.00" {
		t.Errorf("got %q", got)
	}
}
