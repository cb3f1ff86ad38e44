package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/result"
	"loadstone/lab/threshold"
)

// objectiveOutcomes says what became of the objectives under the load that r is of. Its
// windows are read from the trial's directory if an objective is on them.
func objectiveOutcomes(dir string, slo experiment.SLO, r *load.Result) ([]threshold.Outcome, error) {
	watch := threshold.NewWatch(slo.Thresholds())
	if slo.OnWindows() {
		windows, err := windowsOf(dir, r)
		if err != nil {
			return nil, err
		}
		for _, w := range windows {
			if _, err := watch.Add(w); err != nil {
				return nil, fmt.Errorf("judge the windows: %w", err)
			}
		}
	}
	return watch.Outcomes(r)
}

// windowsOf returns the windows of one piece of load out of those of its trial:
// from the first of its measured part, up to the next piece's.
func windowsOf(dir string, r *load.Result) ([]load.Window, error) {
	var out []load.Window
	over := false
	err := archive.ReadLines(dir, archive.WindowsFile, func(w load.Window) {
		if w.Start.Before(r.From) {
			return
		}
		over = over || w.Warmup || !w.Drain && !w.Start.Before(r.To)
		if !over {
			out = append(out, w)
		}
	})
	return out, err
}

// objectives are a variant's, each judged by its middle trial: see result.SLO. At a
// capacity all trials have met them, by its definition.
func objectives(trials []observed) []result.SLO {
	out := slices.Clone(trials[0].slo)
	for i := range out {
		var all []result.SLO // best first
		crossed := 0
		for _, t := range trials {
			all = append(all, t.slo[i])
			if !t.slo[i].Met {
				crossed++
			}
		}
		slices.SortStableFunc(all, better)
		out[i] = all[len(all)/2]
		out[i].Trials, out[i].Crossed = len(all), crossed
	}
	return out
}

// better compares two outcomes of the same objective: what met it comes first, then what is
// further on its good side.
func better(a, b result.SLO) int {
	switch at := strings.IndexAny(a.Threshold, "<>=!"); {
	case a.Met && !b.Met:
		return -1
	case b.Met && !a.Met:
		return 1
	case at >= 0 && a.Threshold[at] == '>':
		return cmp.Compare(b.Observed, a.Observed)
	default:
		return cmp.Compare(a.Observed, b.Observed)
	}
}
