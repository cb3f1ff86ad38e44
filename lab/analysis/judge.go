package analysis

import (
	"fmt"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
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
