package engine

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/loadtest"
)

// refusing is a server that answers the first of so many requests well and refuses the others.
func refusing(tb testing.TB, well int64) string {
	tb.Helper()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	tb.Cleanup(server.Close)
	return server.URL
}

// A user that is refused does not ask again at once, which would be a flood for a service that
// sheds load, and waits longer each time.
func TestRefusedUsersWaitBeforeTheyAskAgain(t *testing.T) {
	t.Parallel()
	const users, after, most = 3, 50 * time.Millisecond, 200 * time.Millisecond
	for name, c := range map[string]struct {
		length time.Duration
		well   int64
		each   uint64 // requests that one user makes at most
	}{
		"at 0, 50, 150, 350 and 550 ms":     {700 * time.Millisecond, 0, 5},
		"from the first that is refused on": {340 * time.Millisecond, 1, 3},
	} {
		plan := loadtest.ClosedPlan(refusing(t, c.well), users, c.length)
		plan.Scenarios[0].RetryAfter, plan.Scenarios[0].RetryMost = after, most
		r, _ := mustRun(t, plan)
		if r.Requests > users*c.each+uint64(c.well) || r.Failed != r.Requests-min(r.Requests, uint64(c.well)) {
			t.Errorf("%s: %d requests, %d failed; want %d at most of %d users", name, r.Requests, r.Failed, c.each, users)
		}
	}
	plan := countedPlan(refusing(t, 0), users, 3)
	plan.Scenarios[0].RetryAfter, plan.Scenarios[0].RetryMost = after, most
	if r, _ := mustRun(t, plan); r.Requests != users*3 || r.Failed != r.Requests || r.Seconds() < 0.15 {
		t.Errorf("%d requests, %d failed in %v s; want 3 of each of %d users, the third after 150 ms", r.Requests, r.Failed, r.Seconds(), users)
	}
}

// Who waits has nothing under way, and holds nothing up: neither the end of a load nor that of
// a user that is taken away.
func TestWhoWaitsToAskAgainEndsWithTheLoad(t *testing.T) {
	t.Parallel()
	for _, executor := range []string{load.ConstantVUs, load.RampingVUs} {
		const begun = 3 * time.Second // so that all users begin
		plan := loadtest.ClosedPlan(refusing(t, 0), 4, begun)
		s := &plan.Scenarios[0]
		s.Executor, s.StartVUs = executor, 4
		s.Stages = []load.Stage{{Duration: begun, Target: 4}, {Duration: 200 * time.Millisecond, Target: 1}, {Duration: 100 * time.Millisecond, Target: 4}}
		s.RetryAfter, s.RetryMost, s.GracefulStop = time.Hour, time.Hour, 50*time.Millisecond
		if executor == load.ConstantVUs {
			s.GracefulStop = time.Hour
		}
		r, _ := mustRun(t, plan)
		if r.Requests < 4 || r.Requests > 8 {
			t.Errorf("%s: %d requests, want one of each of 4 users whenever it begins", executor, r.Requests)
		}
	}
}

// However many users there are, and however quick the answers: together they begin no more
// iterations than MaxRate allows, from the beginning on.
func TestUsersOfABoundedRate(t *testing.T) {
	t.Parallel()
	const users, rate, length = 60, 40, 500 * time.Millisecond
	for _, threads := range []int{1, 2} {
		plan := loadtest.ClosedPlan(refusing(t, 1<<40), users, length)
		plan.Threads, plan.Scenarios[0].MaxRate = threads, rate
		r, _ := mustRun(t, plan)
		if most := uint64(rate * length.Seconds()); r.Requests > most+1 {
			t.Errorf("%d threads: %d requests in %v, want at most %d", threads, r.Requests, length, most)
		}
		plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations, plan.Scenarios[0].Duration = load.SharedIterations, 21, time.Minute
		if r, _ = mustRun(t, plan); r.Requests != 21 || r.Seconds() < length.Seconds() {
			t.Errorf("%d threads: %d requests in %v s, want 21 in %v at least", threads, r.Requests, r.Seconds(), length)
		}
	}
}
