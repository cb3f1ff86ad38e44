package threshold

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// values are extracted values under one name, of the steps that a threshold selects.
type values struct {
	count            uint64
	sum, least, most float64
	last             float64
	at               time.Time
	distribution     *hdrhistogram.Histogram
}

// add adds what one step extracted.
func (v *values) add(r *load.ValueResult) error {
	h, err := r.Distribution()
	if err != nil {
		return err
	}
	v.distribution.Merge(h)
	if v.count == 0 || !r.LastAt.Before(v.at) {
		v.at, v.last = r.LastAt, r.Last
	}
	if v.count == 0 {
		v.least, v.most = r.Min, r.Max
	}
	v.least, v.most = min(v.least, r.Min), max(v.most, r.Max)
	v.count += r.Count
	v.sum += r.Sum
	return nil
}

// extracted is what a threshold asks of extracted values; NaN if there are none.
func (j *resultValues) extracted(t Threshold) (float64, error) {
	v := values{distribution: load.NewValueHistogram()}
	for i := range j.result.Values {
		r := &j.result.Values[i]
		if r.Name != t.Extracted || !t.selection().has(r.Scenario, r.Step) || r.Count == 0 {
			continue
		}
		if err := v.add(r); err != nil {
			return 0, err
		}
	}
	switch {
	case t.Aggregation == "count":
		return float64(v.count), nil
	case t.Aggregation == "sum":
		return v.sum, nil
	case v.count == 0:
		return math.NaN(), nil
	}
	return v.of(t), nil
}

// of is what a threshold asks; there are values.
func (v *values) of(t Threshold) float64 {
	percent := t.Percentile
	switch t.Aggregation {
	case "avg":
		return v.sum / float64(v.count)
	case "min":
		return v.least
	case "max":
		return v.most
	case "last":
		return v.last
	case "med":
		percent = 50
	}
	return min(max(float64(v.distribution.ValueAtPercentile(percent))/load.ValueScale, v.least), v.most)
}
