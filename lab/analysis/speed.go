package analysis

import (
	"fmt"
	"slices"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/result"
)

// speedOf is how fast the machine was beside a trial, nil if nobody looked. Of what was read
// before it and after it the faster counts, of each part: what disturbed it for a moment is
// not the trial's. A slow phase that began or ended meanwhile is the next trial's to show, or
// was the last one's.
func speedOf(t *archive.Trial) *result.Speed {
	if len(t.Speeds) == 0 {
		return nil
	}
	best := t.Speeds[0]
	var cpu, wall time.Duration
	for _, r := range t.Speeds {
		best.Computing, best.Memory = min(best.Computing, r.Computing), min(best.Memory, r.Memory)
		cpu, wall = cpu+r.CPU, wall+r.Wall
	}
	s := &result.Speed{ComputingMS: 1000 * best.Computing.Seconds(), MemoryMS: 1000 * best.Memory.Seconds()}
	if wall > cpu {
		s.Waited = 1 - float64(cpu)/float64(wall)
	}
	return s
}

// paced is a trial of which is known how fast the machine was.
type paced struct {
	archive.Planned
	result.Speed
}

// machineSpeed is how fast the machine was over a run, nil if no trial knows it, and a
// warning if trials differ in it.
func machineSpeed(trials []archive.Trial) (*result.SpeedRange, []string) {
	var known []paced
	r := &result.SpeedRange{}
	for i := range trials {
		if s := speedOf(&trials[i]); s != nil {
			known, r.Work = append(known, paced{trials[i].Planned, *s}), trials[i].Speeds[0].Work
		}
	}
	if len(known) == 0 {
		return nil, nil
	}
	r.Median, r.Least, r.Most = over(known, median), over(known, slices.Min), over(known, slices.Max)
	return r, unsteady(known, r)
}

// over are figures of all trials, each by itself.
func over(trials []paced, of func([]float64) float64) result.Speed {
	return result.Speed{
		ComputingMS: of(values(trials, func(t paced) float64 { return t.ComputingMS })),
		MemoryMS:    of(values(trials, func(t paced) float64 { return t.MemoryMS })),
		Waited:      of(values(trials, func(t paced) float64 { return t.Waited })),
	}
}

// unsteady warns if the machine was slower in some trials than at its fastest. Trials of a
// round follow each other, so that the speed mostly differs between rounds, and variants are
// as slow as each other. Where it differs within one, they may not be.
func unsteady(trials []paced, r *result.SpeedRange) []string {
	what := r.Most.Slower(r.Least, "up to ")
	if what == "" {
		return nil
	}
	var slow []int
	advice := ""
	rounds := make(map[int][]paced)
	for _, t := range trials {
		if t.Slower(r.Least, "") != "" {
			slow = append(slow, t.Index)
		}
		rounds[t.Round] = append(rounds[t.Round], t)
	}
	for _, all := range rounds {
		if over(all, slices.Max).Slower(over(all, slices.Min), "") != "" {
			advice = "; that changed within rounds too, so that variants may differ for it alone"
			break
		}
		if len(all) > 1 {
			advice = "; compare variants within rounds only"
		}
	}
	which, first, last := fmt.Sprintf("%d of %d trials", len(slow), len(trials)), slow[0], slow[len(slow)-1]
	switch {
	case first == last:
		which = fmt.Sprintf("trial %d", first)
	case last-first == len(slow)-1:
		which = fmt.Sprintf("trials %d to %d", first, last)
	}
	return []string{"the machine was slower in " + which + " than at its fastest: " + what + ", and requests may have taken more, too" + advice}
}
