package load

import (
	"errors"
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// SetDistribution sets the percentiles and the histogram, which is of as many values as
// there are.
func (v *ValueResult) SetDistribution(h *hdrhistogram.Histogram) error {
	at := func(percent float64) float64 {
		return min(max(float64(h.ValueAtQuantile(percent))/ValueScale, v.Min), v.Max)
	}
	v.P50, v.P95, v.P99 = at(50), at(95), at(99)
	var err error
	v.Histogram, err = EncodeHistogram(h)
	return err
}

// Distribution is the histogram of the values, in thousandths; an empty one without values.
func (v *ValueResult) Distribution() (*hdrhistogram.Histogram, error) {
	if v.Count == 0 {
		return NewValueHistogram(), nil
	}
	h, err := hdrhistogram.Decode([]byte(v.Histogram))
	if err != nil {
		return nil, fmt.Errorf("decode a histogram of values: %w", err)
	}
	return h, nil
}

// values merges what the parts extracted as metrics.
func (m *merger) values(parts []Result) {
	for i := range parts[0].Values {
		v := parts[0].Values[i]
		h, err := v.Distribution()
		for _, p := range parts[1:] {
			if len(p.Values) != len(parts[0].Values) || p.Values[i].Name != v.Name {
				m.unlike("extracted values")
				return
			}
			if err == nil {
				err = v.merge(&p.Values[i], h)
			}
		}
		if err == nil && v.Count > 0 {
			err = v.SetDistribution(h)
		}
		m.err = errors.Join(m.err, err)
		m.out.Values = append(m.out.Values, v)
	}
}

// merge adds what another extracted, its distribution to h.
func (v *ValueResult) merge(o *ValueResult, h *hdrhistogram.Histogram) error {
	if o.Count == 0 {
		return nil
	}
	other, err := o.Distribution()
	if err != nil {
		return err
	}
	h.Merge(other)
	if v.Count == 0 {
		v.Min, v.Max = o.Min, o.Max
	}
	if v.Count == 0 || !o.LastAt.Before(v.LastAt) {
		v.Last, v.LastAt = o.Last, o.LastAt
	}
	v.Min, v.Max = min(v.Min, o.Min), max(v.Max, o.Max)
	v.Count += o.Count
	v.Sum += o.Sum
	return nil
}
