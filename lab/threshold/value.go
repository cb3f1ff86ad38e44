package threshold

import (
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// extracted is what a threshold asks of extracted values; NaN if there are none.
func (j *resultValues) extracted(t Threshold) (float64, error) {
	merged := load.NewValueHistogram()
	var count uint64
	var at time.Time
	sum, least, most, last := 0.0, math.Inf(1), math.Inf(-1), math.NaN()
	for i := range j.result.Values {
		v := &j.result.Values[i]
		if v.Name != t.Extracted || !t.selection().has(v.Scenario, v.Step) || v.Count == 0 {
			continue
		}
		if !v.LastAt.Before(at) {
			at, last = v.LastAt, v.Last
		}
		count, sum, least, most = count+v.Count, sum+v.Sum, min(least, v.Min), max(most, v.Max)
		h, err := hdrhistogram.Decode([]byte(v.Histogram))
		if err != nil {
			return 0, fmt.Errorf("decode a histogram of values: %w", err)
		}
		merged.Merge(h)
	}
	if count == 0 && t.Aggregation != "count" && t.Aggregation != "sum" {
		return math.NaN(), nil
	}
	percent := t.Percentile
	switch t.Aggregation {
	case "count":
		return float64(count), nil
	case "sum":
		return sum, nil
	case "avg":
		return sum / float64(count), nil
	case "min":
		return least, nil
	case "max":
		return most, nil
	case "last":
		return last, nil
	case "med":
		percent = 50
	}
	return min(max(float64(merged.ValueAtPercentile(percent))/load.ValueScale, least), most), nil
}
