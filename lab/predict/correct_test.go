package predict

import (
	"math"
	"slices"
	"strings"
	"testing"
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
	mean := math.Sqrt(1.1 * 0.9)
	for set, want := range map[string]struct {
		by   float64 // what is predicted without the scales
		from []string
	}{
		"api.cpus=0.15": {mean, []string{"v", "v-wide"}},
		"lb.cpus=0.3":   {mean, []string{"v", "v-wide"}},
		"lb.cpus=0.01":  {0.8, []string{"v-lb"}},
		"":              {1.1, []string{"v"}},
	} {
		var sets []string
		if set != "" {
			sets = append(sets, set)
		}
		got, was := ask(t, s, sets...), ask(t, plain, sets...)
		if by := got.Capacity.Value / was.Capacity.Value; math.Abs(by/want.by-1) > 0.01 || !slices.Equal(got.CorrectedBy, want.from) {
			t.Errorf("%q: ×%.3f, corrected by %v; want ×%.3f by %v", set, by, got.CorrectedBy, want.by, want.from)
		}
		var text strings.Builder
		if err := Text(&text, got); err != nil {
			t.Fatal(err)
		}
		if says := "is off where api CPU limits: in v, v-wide\n"; strings.Contains(text.String(), says) != (len(want.from) == 2) {
			t.Errorf("%q: %q is in\n%s", set, says, text.String())
		}
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
}
