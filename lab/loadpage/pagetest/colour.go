package pagetest

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Faint finds colours of too little contrast, in the light theme, which comes first in
// the style sheet, and in the dark one, which follows after @media. The pairs are
// like "ink on bg", each with the least contrast that it must have, from 1 to 21.
func Faint(tb testing.TB, css string, pairs map[string]float64) (problems []string) {
	tb.Helper()
	light, dark, _ := strings.Cut(css, "@media")
	for theme, css := range map[string]string{"light": light, "dark": dark} {
		colours := palette(tb, css)
		for pair, least := range pairs {
			front, back, _ := strings.Cut(pair, " on ")
			if got := contrast(colours[front], colours[back]); got < least {
				problems = append(problems, fmt.Sprintf("%s: %s has a contrast of %.2f, want at least %.1f", theme, pair, got, least))
			}
		}
	}
	return problems
}

// colour is red, green and blue, each from 0 to 255.
type colour [3]float64

// palette reads the colours that a style sheet gives names to: --ink: #123456.
func palette(tb testing.TB, css string) map[string]colour {
	tb.Helper()
	colours := map[string]colour{}
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{6})`).FindAllStringSubmatch(css, -1) {
		rgb, err := strconv.ParseUint(m[2], 16, 32)
		if err != nil {
			tb.Fatal(err)
		}
		colours[m[1]] = colour{float64(rgb >> 16), float64(rgb >> 8 & 0xff), float64(rgb & 0xff)}
	}
	return colours
}

// contrast is the ratio of relative luminances as WCAG 2.2 defines it.
func contrast(a, b colour) float64 {
	luminance := func(c colour) float64 {
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
