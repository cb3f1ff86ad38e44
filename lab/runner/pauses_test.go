package runner

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/load/engine"
	"loadstone/lab/threshold"
)

// TestTriesOfIterationsThatPause: users who still think at the end of a try are no reason
// to reject its rate, and iterations that have no answer are.
func TestTriesOfIterationsThatPause(t *testing.T) {
	t.Parallel()
	const think = 1200 * time.Millisecond
	slo := experiment.SLO{parse(t, "http_req_duration", "p(95)<200")}
	steps := func(n int) (out []load.Step) {
		for range n {
			out = append(out, load.Step{
				Name: string(rune('a' + len(out))), Request: load.Request{Method: "GET", Path: "/"},
				Think: [2]time.Duration{think / time.Duration(n), think / time.Duration(n)},
			})
		}
		return out
	}
	for name, s := range map[string]load.Scenario{
		"a request": {Steps: steps(1)},
		"a journey": {Steps: steps(2), Flow: []load.Part{{Step: 0}, {Repeat: 4, Parallel: 4, Parts: []load.Part{{Step: 1}}}}},
	} {
		s.Name, s.Arrivals, s.MaxVUs = "s", load.Uniform, 1000
		for _, breaks := range []bool{false, true} {
			if breaks {
				name += " that has no answer at times"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var requests atomic.Int64
				server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
					if requests.Add(1)%5 == 0 && breaks {
						panic(http.ErrAbortHandler)
					}
				}))
				t.Cleanup(server.Close)
				base := load.Plan{Targets: []string{server.URL}, Seed: 1, Timeout: time.Minute}
				step := capacity.Step{Rate: 20, Duration: 2 * time.Second}
				p := try(base, s, step, drain(slo, s, base.Timeout), think)
				p.StopOnOverload = false // a machine that stands still would end the load with it
				r, err := engine.Run(t.Context(), p, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				outcomes, err := threshold.NewWatch(slo.Thresholds()).Outcomes(&r)
				if err != nil {
					t.Fatal(err)
				}
				got, journey := capacity.NewTry(step.Rate, &r, outcomes), r.Journeys[0]
				t.Logf("held %v (%s), %d of %d iterations broke off, errors %v", got.Held, got.Reason, journey.BrokenOff, journey.Iterations, r.Errors)
				switch broke := strings.Contains(got.Reason, "broke off"); {
				case breaks && (got.Held || !broke && r.IterationsInTime > 0 && !got.GeneratorLimited):
					t.Errorf("held %v (%s), want iterations that broke off", got.Held, got.Reason)
				case !breaks && len(r.Errors) == 0 && (broke || journey.BrokenOff > 0):
					t.Errorf("all was answered, and %d of %d iterations broke off (%s)", journey.BrokenOff, journey.Iterations, got.Reason)
				}
			})
		}
	}
}
