package report

import (
	"slices"
	"strings"
	"testing"

	"loadstone/lab/chart"
)

// TestOpenInterval has fewer than half the trials of one variant end before the
// system did: its capacity is no lower bound, and its interval has no upper end.
func TestOpenInterval(t *testing.T) {
	t.Parallel()
	r := sampleResult()
	r.Comparisons = nil
	v := &r.Variants[2] // which carries less than the best, as far as is known
	v.Capacity.HighOpen = true
	if got := answer(r).String(); !strings.Contains(got, "or "+v.Name+" (") && !strings.Contains(got, v.Name+" (1,890 req/s) or") {
		t.Errorf("the answer is %q, want it not to rule out %s", got, v.Name)
	}
	c := newCapacityChart(r)
	arrows := func(c *chart.Chart) (at []float64) {
		for _, p := range c.Lanes[0].Points {
			if p.Shape == "more" {
				at = append(at, p.X)
			}
		}
		return at
	}
	if row := c.Rows[2]; !slices.Equal(arrows(row.Chart), []float64{v.Capacity.High}) || row.Interval != "[1,830 or more]" || row.Value != "1,890 req/s" || !strings.Contains(row.Chart.Desc, "interval 1,830 or more at 96.9 %") {
		t.Errorf("its row is %+v", row)
	}
	if row := c.Rows[1]; arrows(row.Chart) != nil || strings.Contains(row.Chart.Desc, "or more") {
		t.Errorf("the row of another is %+v", row)
	}
	for what, text := range map[string]string{"note": c.Note, "cell": capacityCell(v).Note, "legend": endsMean(r)} {
		if !strings.Contains(text, "or more") {
			t.Errorf("the %s says nothing of the open end: %s", what, text)
		}
	}
	// An interval from 0 on tells nothing, and is none.
	v.Capacity.Low, v.Capacity.LowerBound = 0, true
	value, interval := capacityCells(v, true)
	if row := newCapacityChart(r).Rows[2]; value != "≥1,890" || interval != "req/s" || row.Interval != "6 trials, no interval" || capacityCell(v).Note != "6 trials, no interval" {
		t.Errorf("without any end: got %q and %q, its row is %+v, its cell %+v", value, interval, row, capacityCell(v))
	}
}
