package analysis

import (
	"loadstone/lab/perturb"
	"loadstone/lab/run"
	"loadstone/lab/verdict"
)

// perturbations are what changing the resources of a trial did. Of resources that
// were only changed together with others each gets what all did together, unless
// it was changed by itself later on.
func perturbations(t run.Trial) []verdict.Perturbation {
	alone := make(map[perturb.Target]bool)
	estimates := perturb.Estimate(t.Perturbations)
	for _, e := range estimates {
		if len(e.Targets) == 1 {
			alone[e.Targets[0]] = true
		}
	}
	var out []verdict.Perturbation
	for _, e := range estimates {
		for _, target := range e.Targets {
			if len(e.Targets) > 1 && alone[target] {
				continue
			}
			out = append(out, verdict.Perturbation{
				Component: target.Component, Resource: target.Resource,
				Elasticity: e.Throughput.Value, Low: e.Throughput.Low, High: e.Throughput.High,
			})
		}
	}
	return out
}
