package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// MaxLatency is the longest time that a histogram records: one above it counts
// as that.
const MaxLatency = 10 * time.Minute

// NewHistogram returns the histogram that all recording uses: microseconds
// from 1 µs to MaxLatency, three significant digits, about 200 KiB.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, MaxLatency.Microseconds(), 3)
}

// MaxValue is the largest value that is extracted as a metric, and ValueScale what it is
// multiplied by in a histogram, which has whole numbers.
const (
	MaxValue   = 1e12
	ValueScale = 1000
)

// NewValueHistogram returns a histogram of extracted values, in thousandths: from 0 to
// MaxValue, three significant digits.
func NewValueHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, MaxValue*ValueScale, 3)
}

// EncodeHistogram writes a histogram as one line of text, as a Window and a
// Latency carry it.
func EncodeHistogram(h *hdrhistogram.Histogram) (string, error) {
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode a histogram: %w", err)
	}
	return string(b), nil
}

// NewLatency summarises a histogram.
func NewLatency(h *hdrhistogram.Histogram) (Latency, error) {
	encoded, err := EncodeHistogram(h)
	if err != nil {
		return Latency{}, err
	}
	ms := func(percent float64) float64 { return float64(h.ValueAtQuantile(percent)) / 1000 }
	return Latency{
		P50: ms(50), P90: ms(90), P95: ms(95), P99: ms(99), P999: ms(99.9),
		Max: float64(h.Max()) / 1000, Mean: h.Mean() / 1000,
		Histogram: encoded,
	}, nil
}
