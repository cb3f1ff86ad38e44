package threshold

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/load"
)

// distribution is a sum of histograms, from which they can be taken out again.
// It costs about 200 KiB, however many there are in it; the histograms
// themselves are kept encoded, in 1 to 4 KiB each.
type distribution struct {
	sum *hdrhistogram.Snapshot
	// histogram is sum in the form that can be asked; nil after a change.
	histogram *hdrhistogram.Histogram
}

func newDistribution() *distribution {
	return &distribution{sum: load.NewHistogram().Export()}
}

// add adds a histogram's counts, or takes them out if sign is -1.
func (d *distribution) add(h *hdrhistogram.Snapshot, sign int64) {
	for i, n := range h.Counts {
		if n != 0 { // most are 0
			d.sum.Counts[i] += sign * n
		}
	}
	d.histogram = nil
}

// read returns the sum as a histogram.
func (d *distribution) read() *hdrhistogram.Histogram {
	if d.histogram == nil {
		d.histogram = hdrhistogram.Import(d.sum)
	}
	return d.histogram
}

// aggregate returns what a threshold asks of a histogram in microseconds, in
// milliseconds; NaN of an empty one.
func aggregate(t Threshold, h *hdrhistogram.Histogram) (float64, error) {
	if h.TotalCount() == 0 {
		return math.NaN(), nil
	}
	const perMillisecond = 1000
	switch t.Aggregation {
	case "avg":
		return h.Mean() / perMillisecond, nil
	case "min":
		return float64(h.Min()) / perMillisecond, nil
	case "max":
		return float64(h.Max()) / perMillisecond, nil
	case "med":
		return float64(h.ValueAtPercentile(50)) / perMillisecond, nil
	case "p":
		return float64(h.ValueAtPercentile(t.Percentile)) / perMillisecond, nil
	default:
		return 0, fmt.Errorf("durations have no %s", t.Aggregation)
	}
}

// decoder decodes histograms, each once for all thresholds that read it.
type decoder struct {
	bounds *hdrhistogram.Snapshot
	done   map[string]*hdrhistogram.Snapshot
}

func newDecoder() *decoder {
	bounds := load.NewHistogram().Export()
	return &decoder{bounds: bounds, done: map[string]*hdrhistogram.Snapshot{}}
}

// decode returns a histogram's counts. It may be empty: requests that were never
// sent have no service time, which is no observation. It refuses one that is not of the kind
// that loads record (load.NewHistogram), whose counts would mean other values.
func (d *decoder) decode(encoded string) (*hdrhistogram.Snapshot, error) {
	if s := d.done[encoded]; s != nil {
		return s, nil
	}
	h, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return nil, fmt.Errorf("decode a histogram: %w", err)
	}
	s := h.Export()
	b := d.bounds
	if s.LowestTrackableValue != b.LowestTrackableValue || s.HighestTrackableValue != b.HighestTrackableValue ||
		s.SignificantFigures != b.SignificantFigures || len(s.Counts) != len(b.Counts) {
		return nil, fmt.Errorf("a histogram goes from %d to %d µs with %d digits, not from %d to %d with %d as loads record them",
			s.LowestTrackableValue, s.HighestTrackableValue, s.SignificantFigures, b.LowestTrackableValue, b.HighestTrackableValue, b.SignificantFigures)
	}
	d.done[encoded] = s
	return s, nil
}

// reset frees what was decoded.
func (d *decoder) reset() { clear(d.done) }
