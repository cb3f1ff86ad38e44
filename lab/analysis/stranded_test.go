package analysis

import (
	"math"
	"testing"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/topology"
)

// A share that cannot be used is seen where the kernel withholds it all the time and it is
// not used up all the same: not in one that sleeps between bursts, nor in one that has enough.
func TestAShareThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	const limit, periods = 0.25, 50 // a second
	for name, c := range map[string]struct {
		used      float64 // of the limit
		ran       float64 // share of the scheduler periods in which it ran at all
		throttled float64 // share of these
		seconds   float64
		want      float64
	}{
		"two threads take turns":     {0.8, 1, 1, 4, 0.2},
		"one thread is always busy":  {0.97, 1, 1, 4, 0},
		"it sleeps between bursts":   {0.4, 0.4, 1, 4, 0},
		"it has enough at times":     {0.8, 1, 0.7, 4, 0},
		"it was looked at too short": {0.8, 1, 1, 0.3, 0},
	} {
		trial := archive.Trial{
			Instances: []topology.Instance{{Service: "api", Name: "api-1", LimitCPUs: limit, Enforced: true}},
			Measures:  []archive.Measure{{Kind: archive.Sweep, Result: load.Result{From: began, To: began.Add(time.Duration(c.seconds * 1e9))}}},
		}
		var samples []host.Sample
		for i := range 51 {
			s := float64(i) / 10
			samples = append(samples, host.Sample{At: began.Add(time.Duration(s * 1e9)), MachineTotal: time.Duration(2e9 * s), Instances: []host.Instance{{
				Name: "api-1", CPU: time.Duration(limit * c.used * s * 1e9),
				Periods: uint64(math.Round(periods * c.ran * s)), Throttled: uint64(math.Round(periods * c.ran * c.throttled * s)),
			}}})
		}
		if got := stranded(trial, "api", tries(trial, samples)); math.Abs(got-c.want) > 0.01 {
			t.Errorf("%s: got %.3f, want %v", name, got, c.want)
		}
	}
}
