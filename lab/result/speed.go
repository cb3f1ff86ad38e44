package result

import (
	"math"
	"strings"

	"loadstone/lab/format"
	"loadstone/lab/host/speed"
)

// Speed is how fast the machine was: how long the same work took, which package
// lab/host/speed describes. More is slower.
type Speed struct {
	// ComputingMS and MemoryMS are CPU time, of arithmetic and of a walk through memory: what
	// they took before a trial or after it, whichever is less.
	ComputingMS float64 `json:"computing_ms"`
	MemoryMS    float64 `json:"memory_ms"`
	// Waited is the share of the time until the work was done in which it waited for a core.
	Waited float64 `json:"waited"`
}

// SpeedRange is the speed of a run's trials, each figure by itself.
type SpeedRange struct {
	// Work identifies the work: times of other work say nothing beside these.
	Work   string `json:"work"`
	Median Speed  `json:"median"`
	Least  Speed  `json:"least"`
	Most   Speed  `json:"most"`
}

// Slower says of what the machine was clearly slower over a run than over another, on the
// median: "computing took 24 % more CPU time". It is empty if it was not.
func (r *SpeedRange) Slower(than *SpeedRange) string {
	return r.Median.slower(than.Median, "", speed.ClearMemoryOfRuns)
}

// Slower says the same of two trials. upTo goes before figures.
func (s Speed) Slower(than Speed, upTo string) string {
	return s.slower(than, upTo, speed.ClearMemory)
}

func (s Speed) slower(than Speed, upTo string, clearMemory float64) string {
	var parts []string
	add := func(what string, ms, thanMS, limit float64) {
		more := ms/thanMS - 1
		switch {
		case thanMS <= 0 || more <= limit:
		case more < 1:
			parts = append(parts, what+" took "+upTo+format.Percent(math.Round(100*more)/100)+" more CPU time")
		default:
			parts = append(parts, what+" took "+upTo+format.Digits(1+more, 2)+" times the CPU time")
		}
	}
	add("computing", s.ComputingMS, than.ComputingMS, speed.ClearComputing)
	add("reading memory", s.MemoryMS, than.MemoryMS, clearMemory)
	return strings.Join(parts, " and ")
}
