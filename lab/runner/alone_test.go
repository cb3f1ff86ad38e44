package runner

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// waking answers the first requests in the times given, and all others in the last of these.
// setup is what the load begins with.
type waking struct {
	answers []time.Duration
	setup   time.Duration
	asked   int
}

func (w *waking) Run(_ context.Context, p load.Plan, _ func(load.Window) string) (load.Result, error) {
	takes := w.answers[min(w.asked, len(w.answers)-1)]
	w.asked++
	time.Sleep(w.setup + takes)
	n := uint64(len(p.Scenarios[0].Steps))
	return load.Result{Requests: n, Status: map[int]uint64{200: n}, Response: load.Latency{P50: takes.Seconds() * 1e3}}, nil
}

// A first answer that is slow because nothing is warm is not what a request takes alone, nor is
// what a load begins with. What is quick at once is asked once, and so is what asking again would
// do more than a request for: nothing depends on what a journey takes alone, and a setup may be dear.
func TestASlowFirstAnswerIsNotWhatOneTakes(t *testing.T) {
	t.Parallel()
	const quick, slow = 2 * time.Millisecond, time.Second
	for name, c := range map[string]struct {
		system  waking
		steps   int
		measure string
		want    time.Duration
		asked   int
	}{
		"quick":                {waking{answers: []time.Duration{quick}}, 1, experiment.Capacity, quick, 1},
		"cold at first":        {waking{answers: []time.Duration{3 * slow, quick}}, 1, experiment.Capacity, quick, 4},
		"slow":                 {waking{answers: []time.Duration{slow}}, 1, experiment.Capacity, slow, 4},
		"slow, once by chance": {waking{answers: []time.Duration{slow, slow / 20, slow / 10, slow}}, 1, experiment.Capacity, slow, 4},
		"quick after a setup":  {waking{answers: []time.Duration{quick}, setup: 2 * slow}, 1, experiment.Capacity, quick, 1},
		"slow after a setup":   {waking{answers: []time.Duration{slow}, setup: 2 * slow}, 1, experiment.Capacity, slow, 1},
		"a journey":            {waking{answers: []time.Duration{slow}}, 2, experiment.Capacity, slow, 1},
		"as written":           {waking{answers: []time.Duration{slow}}, 1, experiment.AsWritten, slow, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := asking(t, &c.system, http.MethodGet, c.measure)
				m.base.Scenarios[0].Steps = slices.Repeat([]load.Step{{Request: load.Request{Method: http.MethodGet, Path: "/"}}}, c.steps)
				if c.system.setup > 0 {
					m.base.Setup = &load.Scenario{Name: "setup"}
				}
				if err := m.awaitAnswers(t.Context()); err != nil || m.alone != c.want || c.system.asked != c.asked {
					t.Errorf("asked %d times, one takes %v alone, %v; want %d times and %v", c.system.asked, m.alone, err, c.asked, c.want)
				}
			})
		})
	}
}
