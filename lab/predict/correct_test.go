package predict

import (
	"math"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/verdict"
)

// A model that is off by one factor where the api limits and by another where the lb does is corrected
// by that of whichever limits the changed system, and by the mean of several variants.
func TestCorrectionIsOfWhatLimits(t *testing.T) {
	t.Parallel()
	world := sized{each: 300e-6, lbBusy: 60e-6, lbFree: 60e-6, seed: 5}
	sizes := map[string][2]float64{"v": {0.1, 0.2}, "v-wide": {0.2, 0.2}, "v-lb": {0.2, 0.02}}
	plain := of(t, world.derived(t, sizes), "v")
	res := world.derived(t, sizes)
	scale(&res.Variants[0], 1.1)
	scale(&res.Variants[1], 0.9)
	scale(&res.Variants[2], 0.8)
	s := of(t, res, "v")
	middle := math.Sqrt(1.1 * 0.9)
	for set, want := range map[string]struct {
		by, factor float64 // relative to what is predicted without the scales
		from       []string
		says       string
	}{
		"api.cpus=0.15": {middle, 1, []string{"v", "v-wide"}, "is off in v, v-wide\n"},
		"lb.cpus=0.3":   {middle, 1, []string{"v", "v-wide"}, " as corrected), so ×1.00\n"},
		"lb.cpus=0.01":  {0.8, 0.8 / middle, []string{"v-lb"}, "is off in v-lb\n"},
		"":              {1.1, 1, []string{"v"}, "without the changes, so ×1.00\n"},
	} {
		var sets []string
		if set != "" {
			sets = append(sets, set)
		}
		got, was := ask(t, s, sets...), ask(t, plain, sets...)
		if by := got.Capacity.Value / was.Capacity.Value; math.Abs(by/want.by-1) > 0.02 || !slices.Equal(got.CorrectedBy, want.from) {
			t.Errorf("%q: ×%.3f, corrected by %v; want ×%.3f by %v", set, by, got.CorrectedBy, want.by, want.from)
		}
		if by := got.Capacity.Value / *got.Base / (was.Capacity.Value / *was.Base); math.Abs(by/want.factor-1) > 0.02 {
			t.Errorf("%q: the factor is ×%.3f of what it is without the scales, want ×%.3f", set, by, want.factor)
		}
		var text strings.Builder
		if err := Text(&text, got); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), want.says) {
			t.Errorf("%q: %q is not in\n%s", set, want.says, text.String())
		}
	}
}

// One variant of three that is far off does not move the others, and its interval is not lost.
func TestCorrectionIsTheMedian(t *testing.T) {
	t.Parallel()
	res := shares(t, 0, []string{"v"}, 0.1, 0.2, 0.4)
	was := ask(t, of(t, res, "v-0.2"), "api.cpus=0.3").Capacity.Value
	scale(&res.Variants[0], 0.4)
	if got := ask(t, of(t, res, "v-0.2"), "api.cpus=0.3").Capacity.Value; math.Abs(got/was-1) > 0.03 {
		t.Errorf("%.0f predicted, %.0f before one of three was off", got, was)
	}
}

// A capacity above what CPU allows is kept as it was in all of a family.
func TestBoundIsOfTheFamily(t *testing.T) {
	t.Parallel()
	res := shares(t, 0, []string{"v"}, 0.1, 0.2, 0.4)
	was := ask(t, of(t, res, "v-0.1"), "api.cpus=0.3")
	for i := range res.Variants {
		scale(&res.Variants[i], []float64{1, 1.2, 1.2}[i])
	}
	got := ask(t, of(t, res, "v-0.1"), "api.cpus=0.3").Capacity.Value
	if want := 1.2 * was.Capacity.Value; math.Abs(got/want-1) > 0.03 {
		t.Errorf("%.0f predicted, want a fifth more than %.0f as in most of the family", got, was.Capacity.Value)
	}
}

// A variant that something else limits tells nothing of CPU, and one that is itself limited so
// knows but its own error.
func TestWhatIsNotModelledCorrectsNothing(t *testing.T) {
	t.Parallel()
	res := shares(t, 0, []string{"v"}, 0.1, 0.115, 0.13)
	scale(&res.Variants[1], 0.5)
	res.Variants[1].Verdict.Resource = "lock"
	if a := ask(t, of(t, res, "v-0.1"), "api.cpus=0.2"); !slices.Equal(a.CorrectedBy, []string{"v-0.1", "v-0.13"}) {
		t.Errorf("corrected by %v", a.CorrectedBy)
	}
	if a := ask(t, of(t, res, "v-0.115"), "api.cpus=0.2"); !slices.Equal(a.CorrectedBy, []string{"v-0.115"}) {
		t.Errorf("corrected by %v, want by itself", a.CorrectedBy)
	}
	undecided := shares(t, 0, []string{"v"}, 0.1, 0.115, 0.13)
	undecided.Variants[1].Verdict = verdict.Verdict{Status: verdict.Undecided}
	if a := ask(t, of(t, undecided, "v-0.1"), "api.cpus=0.2"); !slices.Equal(a.CorrectedBy, []string{"v-0.1", "v-0.13"}) {
		t.Errorf("corrected by %v, one of which has no verdict", a.CorrectedBy)
	}
}
