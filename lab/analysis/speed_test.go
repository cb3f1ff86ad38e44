package analysis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/archive/archivetest"
	"loadstone/lab/host/speed"
)

// TestTheSpeedOfTheMachineIsWatched has computing and memory take so many milliseconds in the
// trials of a run of two variants, or of one, and once in each trial something disturb them.
func TestTheSpeedOfTheMachineIsWatched(t *testing.T) {
	t.Parallel()
	const all = "the machine was slower in "
	two, one := []int{1, 1, 2, 2, 3, 3}, []int{1, 2, 3, 4, 5, 6} // their rounds
	for name, c := range map[string]struct {
		rounds            []int
		computing, memory []float64
		want              string
	}{
		"steady":         {two, []float64{20, 20.4, 20.1, 21, 20.2, 20}, []float64{20, 25, 39, 23, 22, 21}, ""},
		"one phase":      {two, []float64{20, 20, 25, 25, 24, 25}, []float64{20, 20, 20, 20, 20, 20}, all + "trials 3 to 6 than at its fastest: computing took up to 25 % more CPU time, and requests may have taken more, too; compare variants within rounds only"},
		"both parts":     {two, []float64{25, 25, 20, 20, 20, 20}, []float64{50, 50, 20, 20, 20, 20}, all + "trials 1 to 2 than at its fastest: computing took up to 25 % more CPU time and reading memory took up to 2.5 times the CPU time, and requests may have taken more, too; compare variants within rounds only"},
		"memory alone":   {one, []float64{20, 20, 20, 20, 20, 20}, []float64{20, 20, 50, 20, 20, 20}, all + "trial 3 than at its fastest: reading memory took up to 2.5 times the CPU time, and requests may have taken more, too"},
		"within a round": {two, []float64{20, 25, 20, 20, 20, 25}, []float64{20, 20, 20, 20, 20, 20}, all + "2 of 6 trials than at its fastest: computing took up to 25 % more CPU time, and requests may have taken more, too; that changed within rounds too, so that variants may differ for it alone"},
		"one variant":    {one, []float64{30, 30, 20, 30, 30, 30}, []float64{20, 20, 20, 20, 20, 20}, all + "5 of 6 trials than at its fastest: computing took up to 50 % more CPU time, and requests may have taken more, too"},
	} {
		var trials []archive.Trial
		for i, round := range c.rounds {
			took := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
			reading := speed.Reading{Work: "w", Computing: took(c.computing[i]), Memory: took(c.memory[i]), CPU: 3, Wall: 4}
			disturbed := reading
			disturbed.Computing, disturbed.Memory = 2*disturbed.Computing, 9*disturbed.Memory
			speeds := []speed.Reading{reading, disturbed}
			if i%2 == 0 {
				slices.Reverse(speeds)
			}
			trials = append(trials, archive.Trial{Planned: archive.Planned{Index: i + 1, Round: round}, Speeds: speeds})
		}
		r, warnings := machineSpeed(trials)
		if got := strings.Join(warnings, "\n"); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
		if want := slices.Max(c.computing); r.Work != "w" || !near(r.Most.ComputingMS, want, 1e-6) || !near(r.Median.Waited, 0.25, 1e-6) {
			t.Errorf("%s: %+v, want work w, at most %v ms, and a quarter of the time waited", name, r, want)
		}
	}
}

// TestARunKnowsHowFastItsMachineWas, unless it is of a version that did not look.
func TestARunKnowsHowFastItsMachineWas(t *testing.T) {
	t.Parallel()
	p := archivetest.Run{Name: "e", Seed: 1, Started: began, Variants: []archivetest.Variant{{
		Name: "v", Capacities: []float64{400, 400, 300}, Service: time.Millisecond,
		Components: []archivetest.Component{{Name: "api", Instances: 1, CPUs: 0.25, Demand: 500 * time.Microsecond}},
	}}}
	for _, looked := range []bool{false, true} {
		if looked {
			p.Slowness = []float64{1, 1.01, 1.4}
		}
		dir, err := p.Write(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		run, err := archive.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Derive(run)
		if err != nil {
			t.Fatal(err)
		}
		s := r.Variants[0].Figures[2].Speed
		if looked != (r.Environment.Speed != nil) || looked != (s != nil) {
			t.Fatalf("looked: %v; speeds %+v and %+v", looked, r.Environment.Speed, s)
		}
		if looked && (!near(s.ComputingMS, 2.8, 1e-6) || !near(s.Waited, 0.2, 1e-6)) {
			t.Errorf("the third trial's is %+v, want 2.8 ms, a fifth of the time waited", s)
		}
		told := slices.ContainsFunc(r.Warnings, func(text string) bool { return strings.HasPrefix(text, "the machine was slower in trial 3 ") })
		if told != looked {
			t.Errorf("looked: %v; warnings %q", looked, r.Warnings)
		}
	}
}
