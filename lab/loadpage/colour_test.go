package loadpage

import (
	"testing"

	"loadstone/lab/chart"
	"loadstone/lab/loadpage/pagetest"
)

// TestColoursContrast reads the palettes of both themes and asserts WCAG 2.2's
// contrasts: 4.5 for text (1.4.3), 3 for marks that carry meaning (1.4.11).
func TestColoursContrast(t *testing.T) {
	t.Parallel()
	for _, problem := range pagetest.Faint(t, chart.Style+style, map[string]float64{
		"ink on bg": 7, "ink on panel": 7, "ink on limit-panel": 7, "ink on warm": 7,
		"muted on bg": 4.5, "muted on panel": 4.5, "muted on warm": 4.5,
		"limit on bg": 4.5, "limit on panel": 4.5, "limit on limit-panel": 4.5,
		"good on bg": 4.5, "link on bg": 4.5, "link on limit-panel": 4.5,
		"fill-edge on bg": 3, "fill-edge on warm": 3, "limit-fill on bg": 3, "other on bg": 3, "base on bg": 3,
		"p50 on bg": 3, "p95 on bg": 3, "p99 on bg": 3, "p95 on warm": 3, "p99 on warm": 3,
		// neighbours that must be told apart without hue
		"p50 on p95": 1.4, "p95 on p99": 1.4, "p95 on other": 1.4,
	}) {
		t.Error(problem)
	}
}
