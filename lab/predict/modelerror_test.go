package predict

import (
	"math"
	"slices"
	"strings"
	"testing"

	"loadstone/lab/archive/archivetest"
	"loadstone/lab/format"
	"loadstone/lab/result"
)

// shares is a system of one component, which uses some CPU whatever the rate, with several
// shares of CPU and kinds, as "kind-share".
func shares(t *testing.T, idle float64, kinds []string, cpus ...float64) *result.Result {
	t.Helper()
	var variants []archivetest.Variant
	var overlays []string
	for _, kind := range kinds {
		for i, share := range cpus {
			world := sized{idle: idle, each: 30e-6, lbBusy: 1e-6, lbFree: 1e-6, seed: uint64(i)}
			name := kind + "-" + format.Setting(share)
			variants = append(variants, world.variant(name, share, 0.2))
			overlays = append(overlays, "  "+name+": {}\n", "  "+name+": {services: {"+
				"api: {deploy: {resources: {limits: {cpus: \""+format.Setting(share)+"\"}}}, environment: {KIND: "+kind+"}}}}\n")
		}
	}
	res := derive(t, variants...)
	res.Source = strings.NewReplacer(overlays...).Replace(res.Source)
	return res
}

// Shares that are too near for a line: what is used whatever the rate goes into each request's
// CPU, and a prediction for a larger share is too low. The run's own variants tell by how much.
func TestIntervalsHoldTheModelsError(t *testing.T) {
	t.Parallel()
	off := shares(t, 0.05, []string{"v"}, 0.1, 0.115, 0.135)
	s := of(t, off, "v-0.1")
	if e := s.Error; e.DF != 2 || e.RMS < 0.1 || e.RMS > 0.3 {
		t.Errorf("%+v, want 0.1 to 0.3 of two degrees of freedom", e)
	}
	want := sized{idle: 0.05, each: 30e-6, lbBusy: 1e-6}.capacity(0.15, 0.2)
	a := ask(t, s, "api.cpus=0.15")
	if a.Capacity.Value > 0.85*want {
		t.Fatalf("%.0f predicted of %.0f: this is to be a model that is off", a.Capacity.Value, want)
	}
	if !(a.Capacity.Low < want && want < a.Capacity.High) || a.Error == nil {
		t.Errorf("%+v does not hold %.0f", a.Capacity, want)
	}
	if text := strings.Join(a.Assumptions, "\n"); !strings.Contains(text, "by which variants were off that were predicted from each other (v-0.1, v-0.115, v-0.135): ") {
		t.Errorf("the assumptions do not say how far the model is off: %s", text)
	}
	if a := ask(t, s); a.Error != nil || strings.Contains(strings.Join(a.Assumptions, "\n"), "it is off with the changes") {
		t.Errorf("unchanged: %+v, %q", a.Error, a.Assumptions)
	}
	right := of(t, shares(t, 0, []string{"v"}, 0.1, 0.115, 0.135), "v-0.1")
	if right.Error.DF != 2 || right.Error.RMS > 0.05 {
		t.Errorf("%+v of a model that is right", right.Error)
	}
}

// Two shares make a line, which is right about both; that it is no line, the third tells.
func TestAVariantTellsNothingOfItself(t *testing.T) {
	t.Parallel()
	res := shares(t, 0, []string{"v"}, 0.1, 0.2, 0.4)
	scale(&res.Variants[2], 0.7)
	if e := of(t, res, "v-0.1").Error; e.DF != 2 || e.RMS < 0.25 {
		t.Errorf("%+v, want the error of the variant that does 0.7 of what the others say", e)
	}
}

// What does not differ is not changed: a component of one thread that is given two cores uses one of
// them, wherever it is.
func TestWhatIsAlikeIsNotChanged(t *testing.T) {
	t.Parallel()
	s := of(t, shares(t, 0, []string{"v"}, 0.1), "v-0.1")
	was := s.Measured.Value
	s.Model.Stations[0].Servers, s.Model.Stations[0].Speed, s.oneThread["api"] = 2, 1, 0.9
	s.Measured.Value = 20 * was
	if x, ok := s.like(s); !ok || math.Abs(x/s.Measured.Value-1) > 1e-6 {
		t.Errorf("%v of a system like itself, %v", x, s.Measured.Value)
	}
}

func TestWhichVariantsTellOfTheModelsError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kinds  []string
		cpus   []float64
		change func(*result.Result)
		df     int
		of     string
	}{
		"two pairs":       {[]string{"v", "w"}, []float64{0.1, 0.115}, nil, 2, "v-0.1, v-0.115; w-0.1, w-0.115"},
		"three and three": {[]string{"v", "w"}, []float64{0.1, 0.115, 0.13}, nil, 4, "v-0.1, v-0.115, v-0.13; w-0.1, w-0.115, w-0.13"},
		"one pair":        {[]string{"v"}, []float64{0.1, 0.115}, nil, 0, ""},
		"all different":   {[]string{"v", "w", "x"}, []float64{0.1}, nil, 0, ""},
		"a lower bound": {[]string{"v"}, []float64{0.1, 0.115, 0.13, 0.145}, func(r *result.Result) {
			r.Variants[1].Capacity.LowerBound = true
		}, 2, "v-0.1, v-0.13, v-0.145"},
		"not seen": {[]string{"v"}, []float64{0.1, 0.115, 0.13}, func(r *result.Result) {
			r.Variants[1].Components[0].Unseen = 1
		}, 0, ""},
		"limited by a lock": {[]string{"v"}, []float64{0.1, 0.115, 0.13}, func(r *result.Result) {
			r.Variants[1].Verdict.Resource = "lock"
		}, 0, ""},
		"one of them twice": {[]string{"v"}, []float64{0.1, 0.115, 0.13}, func(r *result.Result) {
			r.Source = strings.Replace(r.Source, `"0.13"`, `"0.115"`, 1)
		}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := shares(t, 0.05, c.kinds, c.cpus...)
			if c.change != nil {
				c.change(res)
			}
			s := of(t, res, res.Variants[0].Name)
			if got := strings.Join(s.compared, "; "); s.Error.DF != c.df || got != c.of {
				t.Errorf("%+v from %q, want %d degrees of freedom from %q", s.Error, got, c.df, c.of)
			}
			slices.Reverse(res.Variants)
			if again := of(t, res, res.Variants[0].Name); again.Error.DF != c.df || math.Abs(again.Error.RMS-s.Error.RMS) > 1e-9 {
				t.Errorf("in another order %+v, want %+v", again.Error, s.Error)
			}
			if text := strings.Join(ask(t, s, "api.cpus=0.2").Assumptions, "\n"); strings.Contains(text, "how nearly, is not in the interval") != (c.df == 0) {
				t.Errorf("the assumptions are\n%s", text)
			}
		})
	}
}
