package result

import (
	"cmp"

	"loadstone/lab/verdict"
)

// Figure is what one trial of a variant found by itself. The variant's own
// figures are medians of these. Whoever compares variants or runs, or predicts
// from one, needs them trial by trial.
type Figure struct {
	Trial int `json:"trial"` // its number within the run, from 1
	Round int `json:"round"` // of the experiment; trials of one round ran one after the other
	// Capacity is in the result's Unit; 0 if no rate held, or none was searched.
	Capacity float64 `json:"capacity"`
	// Rejected is the lowest rate that the system did not sustain: its edge lies
	// between the two. It is 0 if it sustained every rate, or ended before it did not.
	Rejected float64 `json:"rejected,omitempty"`
	// Edge is where all attempts of the trial together put the system's edge, by which trials are
	// compared: see capacity.Outcome. It is 0 if no rate held, and in results of earlier versions.
	Edge float64 `json:"edge,omitempty"`
	// LowerBound says that the trial ended before the system did.
	LowerBound bool `json:"lower_bound"`
	// Speed is the machine's, before the trial and after it; nil where the system ran on
	// another machine, and in results of earlier versions.
	Speed *Speed `json:"speed,omitempty"`
	// Measured is false if no rate held. Nothing that follows is known then.
	Measured bool `json:"measured"`

	// At capacity, or under the load as written:
	Rate       float64             `json:"rate"`       // offered, in the result's Unit
	Throughput float64             `json:"throughput"` // done in time, in the result's Unit
	Requests   uint64              `json:"requests"`   // sent or dropped
	Failed     float64             `json:"failed"`     // share of Requests
	Generator  float64             `json:"generator"`  // cores
	Latency    LatencyPair         `json:"latency"`
	Components []verdict.Component `json:"components"`
}

// Compared is the figure by which the trial is compared with others: Edge, or Capacity where it
// is not known.
func (f *Figure) Compared() float64 { return cmp.Or(f.Edge, f.Capacity) }
