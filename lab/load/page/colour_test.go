package page

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestColoursContrast reads the palettes of both themes and asserts WCAG 2.2's
// contrasts: 4.5 for text (1.4.3), 3 for marks that carry meaning (1.4.11).
func TestColoursContrast(t *testing.T) {
	t.Parallel()
	light, dark, _ := strings.Cut(style, "@media")
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colours := palette(t, css)
		for _, c := range []struct {
			front, back string
			least       float64
		}{
			{"ink", "bg", 7}, {"ink", "panel", 7}, {"ink", "limit-panel", 7}, {"ink", "warm", 7},
			{"muted", "bg", 4.5}, {"muted", "panel", 4.5}, {"muted", "warm", 4.5},
			{"limit", "bg", 4.5}, {"limit", "panel", 4.5}, {"limit", "limit-panel", 4.5},
			{"good", "bg", 4.5}, {"link", "bg", 4.5}, {"link", "limit-panel", 4.5},
			{"fill", "bg", 3}, {"fill", "warm", 3}, {"limit-fill", "bg", 3}, {"other", "bg", 3}, {"base", "bg", 3},
			{"p50", "bg", 3}, {"p95", "bg", 3}, {"p99", "bg", 3}, {"p95", "warm", 3}, {"p99", "warm", 3},
			// neighbours that must be told apart without hue
			{"p50", "p95", 1.4}, {"p95", "p99", 1.4}, {"p95", "other", 1.4},
		} {
			if got := contrast(colours[c.front], colours[c.back]); got < c.least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want at least %.1f", theme, c.front, c.back, got, c.least)
			}
		}
	}
}

func palette(t *testing.T, css string) map[string][3]float64 {
	t.Helper()
	colours := map[string][3]float64{}
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
		rgb, err := strconv.ParseUint(m[2], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		colours[m[1]] = [3]float64{float64(rgb >> 16), float64(rgb >> 8 & 0xff), float64(rgb & 0xff)}
	}
	return colours
}

// contrast is the ratio of relative luminances as WCAG 2.2 defines it.
func contrast(a, b [3]float64) float64 {
	luminance := func(c [3]float64) float64 {
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			v := c[i] / 255
			if v <= 0.04045 {
				v /= 12.92
			} else {
				v = math.Pow((v+0.055)/1.055, 2.4)
			}
			sum += weight * v
		}
		return sum
	}
	la, lb := luminance(a), luminance(b)
	return (math.Max(la, lb) + 0.05) / (math.Min(la, lb) + 0.05)
}
