package screen

import (
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/format"
)

// quantile is a histogram's value at a percentile, in milliseconds.
func quantile(h *hdrhistogram.Histogram, p float64) string {
	if h == nil || h.TotalCount() == 0 {
		return format.Missing
	}
	return format.Figure(float64(h.ValueAtPercentile(p)) / 1000)
}

// clock writes seconds as minutes and seconds, and hours where there are some.
func clock(seconds float64) string {
	s := int(math.Round(seconds))
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
