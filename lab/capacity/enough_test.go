package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"

	"loadstone/lab/load"
)

func TestAttemptsAreAsLongAsTheObjectivesNeed(t *testing.T) {
	t.Parallel()
	for written, want := range map[string][2]int{
		"http_req_duration p(95)<200":       {200, 200},
		"http_req_duration p(99)<200":       {500, 500},
		"http_req_duration p(99.9)<200":     {5000, 5000},
		"http_req_service p(99)<200":        {500, 500},
		"iteration_duration p(99)<200":      {500, 500},
		"grpc_req_duration p(99.9)<200":     {5000, 5000},
		"http_req_duration max<200":         {200, 200},
		"http_req_failed rate<0.001":        {200, 3000},
		"http_req_failed rate<0.01":         {200, 300},
		"http_req_failed rate<=0":           {200, 200},
		"http_req_failed rate<0.5":          {200, 200},
		"http_req_duration p(99)<1 over 5s": {200, 200},
	} {
		metric, expression, _ := strings.Cut(written, " ")
		search, confirm := Requests(objectives(t, metric, expression))
		if search != want[0] || confirm != want[1] {
			t.Errorf("%s: got %d and %d, want %v", written, search, confirm, want)
		}
	}
	c := DefaultConfig()
	c.MinRequests, c.Enough = Requests(objectives(t, "http_req_duration", "p(99)<200", "http_req_failed", "rate<0.001"))
	history := []Try{{Purpose: Search, Rate: 400, Held: true}, {Purpose: Search, Rate: 415}}
	if step, ok := c.Next(history[:1], time.Second, 400); !ok || step.Duration.Seconds()*step.Rate < 499 {
		t.Errorf("got %+v, want 500 requests at least", step)
	}
	// 3,000 requests take 7.5 s: as much of it as the neighbour leaves.
	if step, ok := c.Next(history, 4*time.Second, 400); !ok || step.Purpose != Confirm || step.Duration < 4*time.Second || step.Duration > 6*time.Second {
		t.Errorf("got %+v, want the winner confirmed for what is left", step)
	}
}

func TestTooFewRequestsAreTold(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_700_000_000, 0)
	r := &load.Result{From: began, To: began.Add(9 * time.Second), Requests: 900, Iterations: 300, Steps: []load.StepResult{{Scenario: "a", Name: "x", Requests: 400, GRPC: true}, {Scenario: "a", Name: "y", Requests: 500}}}
	for written, want := range map[string]string{
		"http_req_failed rate<0.001":          "",
		"http_req_duration p(99.9)<200":       "was judged by 900, and takes 5000",
		"http_req_duration p(99)<200":         "",
		"http_req_duration{step:x} p(99)<200": "was judged by 400, and takes 500",
		"iteration_duration p(99)<200":        "was judged by 300, and takes 500",
		"grpc_req_duration p(99)<200":         "was judged by 400, and takes 500", // the calls alone
	} {
		metric, expression, _ := strings.Cut(written, " ")
		if got, _ := TooFew(r, objectives(t, metric, expression)); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: got %q, want %q", written, got, want)
		}
	}
	if _, takes := TooFew(r, objectives(t, "http_req_duration", "p(99.9)<200")); takes != 50*time.Second { // 5,000 at 100 a second
		t.Errorf("5,000 at 100 a second: got %v", takes)
	}
}

func TestTheWinnerIsHeld(t *testing.T) {
	t.Parallel()
	history := []Try{{Purpose: Search, Rate: 90, Held: true}, {Purpose: Confirm, Rate: 100, Held: true}, {Purpose: Search, Rate: 110}, {Purpose: Search, Rate: 80, Held: true}, {Purpose: Search, Rate: 70, Held: true}}
	if _, ok := NextHold(history, 0); ok {
		t.Error("held although nobody asked for it")
	}
	for _, rate := range []float64{100, 90, 80} {
		step, ok := NextHold(history, time.Minute)
		if want := (Step{Hold, rate, time.Minute}); !ok || step != want {
			t.Fatalf("got %+v, %v; want %+v", step, ok, want)
		}
		lasts := slices.Concat(history, []Try{{Purpose: Hold, Rate: rate, Held: true}})
		if _, ok := NextHold(lasts, time.Minute); ok {
			t.Errorf("%g lasted, and is to be held again", rate)
		}
		if out := Conclude(lasts); out.Rate != rate || !out.Confirmed {
			t.Errorf("got %+v, want %g, confirmed", out, rate)
		}
		history = append(history, Try{Purpose: Hold, Rate: rate})
	}
	if step, ok := NextHold(history, time.Minute); ok {
		t.Errorf("got %+v after three that did not last, want no more", step)
	}
	if out := Conclude(history); out.Rate != 70 || out.Rejected != 80 {
		t.Errorf("got %+v, want 70, below the lowest that did not last", out)
	}
}
