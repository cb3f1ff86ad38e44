package result

import (
	"testing"

	"loadstone/lab/stats"
)

func TestRange(t *testing.T) {
	t.Parallel()
	iv := Estimate{Interval: stats.Interval{Value: 4312, Low: 4180.4, High: 4420.2, Confidence: 0.96875}}
	if got, want := iv.Range(), "[4,180, 4,420]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	iv.HighOpen = true
	if got, want := iv.Range(), "[4,180 or more]"; got != want {
		t.Errorf("without an upper end: got %s, want %s", got, want)
	}
	iv.LowerBound, iv.Low = true, 0
	if got := iv.WithRange(); got != "≥ 4,310" || iv.HasRange() || iv.Range() != "–" {
		t.Errorf("without a lower one, too: got %q and %q, want no interval", got, iv.Range())
	}
}
