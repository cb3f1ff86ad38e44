package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
	"loadstone/lab/load/loadtest"
)

// mustRun carries out a plan and checks what holds for every Result.
func mustRun(tb testing.TB, plan load.Plan) (load.Result, []load.Window) {
	tb.Helper()
	var windows []load.Window
	r, err := Run(tb.Context(), plan, func(w load.Window) string {
		windows = append(windows, w)
		return ""
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	loadtest.CheckSums(tb, plan, r, windows)
	return r, windows
}

// countedPlan is a ClosedPlan that ends when each user has made so many iterations. One
// that ends after a fraction of a second may be over before its users begin.
func countedPlan(url string, users int, each uint64) load.Plan {
	plan := loadtest.ClosedPlan(url, users, 5*time.Minute) // at most
	plan.Scenarios[0].Executor, plan.Scenarios[0].Iterations = load.PerVUIterations, each
	return plan
}

// stallingServer answers at once, until a request comes that is at least after behind the
// first one. From then on nothing is answered until so many are held, and for length
// after that: however late the generator is, so many meet the whole stall.
func stallingServer(tb testing.TB, after, length time.Duration, many int) *rawServer {
	var mu sync.Mutex
	var first, until time.Time
	held := 0
	arrives := func() (stalls bool) {
		mu.Lock()
		defer mu.Unlock()
		if first.IsZero() {
			first = time.Now()
		}
		if time.Since(first) < after {
			return false
		}
		if held++; held == many {
			until = time.Now().Add(length)
		}
		return true
	}
	left := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if held < many {
			return 10 * time.Millisecond // and look again
		}
		return time.Until(until)
	}
	return serveRaw(tb, func(c *rawConn) {
		for c.request() != nil {
			if arrives() {
				for wait := left(); wait > 0 && tb.Context().Err() == nil; wait = left() {
					time.Sleep(wait) // the planted stall
				}
			}
			c.send(okAnswer)
		}
	})
}

// TestStallCannotHide is what an open model is for: a server that stalls for
// two seconds must show it in the response times, however few virtual users, or
// connections, there are to meet the stall.
func TestStallCannotHide(t *testing.T) {
	t.Parallel()
	const stall = 2 * time.Second
	for name, few := range map[string]func(*load.Plan){
		"1 user":          func(p *load.Plan) { p.Scenarios[0].MaxVUs = 1 },
		"1 connection":    func(p *load.Plan) { p.Connections = 1 },
		"users to spare":  nil,
		"a spinning loop": func(p *load.Plan) { p.Scenarios[0].MaxVUs, p.Spin = 1, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// The stall is a quarter of the load where it is held up as a whole: the median
			// is far from it. A few per cent of the requests meet all of it.
			many, length := 20, 8*time.Second
			if few != nil {
				many, length = 1, 5*time.Second
			}
			server := stallingServer(t, 1500*time.Millisecond, stall, many)
			plan := loadtest.OpenPlan(server.url, 100, length, 1000)
			plan.Scenarios[0].Arrivals = load.Uniform
			if few != nil {
				few(&plan)
			}
			if plan.Spin { // which takes a thread for itself, and the server is in this process
				before := runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
				defer runtime.GOMAXPROCS(before)
			}
			r, _ := mustRun(t, plan)
			if r.Response.P99 < 1900 {
				t.Errorf("response time p99 is %.0f ms after a stall of %v, want at least 1900", r.Response.P99, stall)
			}
			if r.Dropped > 0 || r.Failed > 0 {
				t.Errorf("%d dropped, %d failed, want none", r.Dropped, r.Failed)
			}
			if few != nil {
				// One request met the stall. What waited behind it was served fast.
				if r.Service.P99 > r.Response.P99/4 || r.Service.Max < 1900 {
					t.Errorf("service time p99 is %.0f ms, max %.0f; want it far below the response time's %.0f, but for one", r.Service.P99, r.Service.Max, r.Response.P99)
				}
				if r.Waited < 100 {
					t.Errorf("%d waited, want the hundred and more that the stall held up", r.Waited)
				}
				return
			}
			// The three in four that came outside the stall did not notice.
			if r.Service.P50 > r.Response.P99/10 {
				t.Errorf("service time p50 is %.0f ms, want it far below the stall", r.Service.P50)
			}
			if r.Service.P99 < 1900 || r.MaxInFlight < 100 {
				t.Errorf("service time p99 is %.0f ms with at most %d in flight; want the stall to hold a hundred and more users", r.Service.P99, r.MaxInFlight)
			}
		})
	}
}

// TestClosedModelDoesNotCorrect: the virtual user waits with the server, so a
// stall is one slow request among many. That is documented, and this is why.
func TestClosedModelDoesNotCorrect(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			if asked.Add(1) == 500 {
				time.Sleep(2 * time.Second) // the planted stall
			}
			c.send(okAnswer)
		}
	})
	r, _ := mustRun(t, countedPlan(server.url, 1, 1000))
	if r.Response.Max < 1900 {
		t.Errorf("the longest response time is %.0f ms, want the stall's 2000", r.Response.Max)
	}
	if r.Response.P99 > r.Response.Max/4 {
		t.Errorf("response time p99 is %.0f ms of at most %.0f, want it to hide the stall", r.Response.P99, r.Response.Max)
	}
	if r.Offered != r.Requests || r.Waited != 0 || r.Late != 0 || r.InFlight.Samples != 0 || r.MaxInFlight != 1 {
		t.Errorf("got %+v, want what a closed model has", r)
	}
}

// badServer does something else with each request: answers, fails, hangs,
// closes, resets, answers slowly, answers with nonsense.
func badServer(tb testing.TB, seed uint64, kinds int) *rawServer {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 3))
	draw := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	return serveRaw(tb, func(c *rawConn) {
		for c.request() != nil {
			switch draw(kinds) {
			case 1:
				c.send("HTTP/1.1 503 Service Unavailable|Content-Length: 0||")
			case 2:
				c.send("HTTP/1.1 200 OK|Connection: close|Content-Length: 0||")
				return
			case 3:
				time.Sleep(time.Duration(draw(30)) * time.Millisecond) // a slow answer
				c.send(okAnswer)
			case 4:
				return
			case 5:
				c.reset()
				return
			case 6:
				c.send("nonsense||")
			case 7:
				_, _ = c.Read(make([]byte, 1)) // hangs
				return
			case 8:
				c.send("HTTP/1.1 200 OK|Content-Length: 10||part")
				_, _ = c.Read(make([]byte, 1))
				return
			default:
				c.send(okAnswer)
			}
		}
	})
}

// TestEverythingOfferedIsAccountedFor runs random loads against random servers
// and checks that each arrival ended as exactly one thing. The number of
// arrivals is counted by a separate walk through the schedule.
func TestEverythingOfferedIsAccountedFor(t *testing.T) {
	t.Parallel()
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 4))
			ms := func(n int) time.Duration { return time.Duration(random.IntN(n)) * time.Millisecond }
			plan := load.Plan{Seed: seed, Timeout: 50*time.Millisecond + ms(100), Warmup: ms(2) * 100}
			for range 1 + random.IntN(2) {
				plan.Targets = append(plan.Targets, badServer(t, seed, 1+random.IntN(9)).url)
			}
			if seed%5 == 4 {
				plan.Targets = append(plan.Targets, closedPort(t))
			}
			users := 1 + random.IntN(30)
			s := load.Scenario{
				Name: "open", Executor: load.RampingArrivalRate, StartRate: 100, GracefulStop: ms(100), Steps: []load.Step{{Request: get}},
				Stages:   []load.Stage{{Duration: 300 * time.Millisecond, Target: 1000}, {Duration: 0, Target: 300}, {Duration: 300 * time.Millisecond, Target: 300}},
				Arrivals: []string{load.Poisson, load.Uniform}[random.IntN(2)], PreAllocatedVUs: 1 + random.IntN(users), MaxVUs: users,
			}
			plan.Scenarios = []load.Scenario{s}
			if seed%2 == 1 {
				plan.Scenarios = append(plan.Scenarios, load.Scenario{
					Name: "closed", Executor: load.RampingVUs, StartVUs: random.IntN(3), StartTime: ms(100), GracefulStop: ms(50), Steps: []load.Step{{Request: get}},
					Stages: []load.Stage{{Duration: 200 * time.Millisecond, Target: 5}, {Duration: 200 * time.Millisecond, Target: 0}, {Duration: 100 * time.Millisecond, Target: 3}},
				})
			}
			r, _ := mustRun(t, plan)
			if want := loadtest.Due(plan); seed%2 == 0 && r.Offered != want || r.Offered < want {
				t.Errorf("offered %d, but %d arrivals were due", r.Offered, want)
			}
		})
	}
}

func TestWarmupIsLeftOut(t *testing.T) {
	t.Parallel()
	plan := loadtest.OpenPlan(serveOK(t).url, 200, 3700*time.Millisecond, 50)
	plan.Warmup = 700 * time.Millisecond
	before := time.Now()
	r, windows := mustRun(t, plan)
	if want := loadtest.Due(plan); r.Offered != want || r.Requests != want {
		t.Errorf("offered %d, %d requests, want %d of each", r.Offered, r.Requests, want)
	}
	if got, want := r.To.Sub(r.From), 3*time.Second; got != want {
		t.Errorf("measured for %v, want %v", got, want)
	}
	if r.From.Before(before.Add(plan.Warmup)) {
		t.Errorf("measured from %v, want it after a warm-up of %v", r.From, plan.Warmup)
	}
	for i, w := range windows {
		if want := w.Start.Before(r.From); w.Warmup != want {
			t.Errorf("window %d: warm-up %v, want %v", i, w.Warmup, want)
		}
	}
	// On a machine that stood still it is longer by whole seconds.
	if len(windows) < 2 || windows[1].Start.Before(r.From) || windows[1].Start.Sub(r.From)%time.Second != 0 {
		t.Errorf("windows %v; want one of the warm-up, and the second to begin with the measured part", len(windows))
	}
}

func TestRampingUsers(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	server := serveRaw(t, func(c *rawConn) {
		for c.request() != nil {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(5 * time.Millisecond) // its work
			now.Add(-1)
			c.send(okAnswer)
		}
	})
	plan := loadtest.ClosedPlan(server.url, 0, 0)
	s := &plan.Scenarios[0]
	s.Executor, s.StartVUs = load.RampingVUs, 1
	s.Stages = []load.Stage{{Duration: 300 * time.Millisecond, Target: 6}, {Duration: 3 * time.Second, Target: 6}, {Duration: 300 * time.Millisecond, Target: 0}, {Duration: 100 * time.Millisecond, Target: 2}}
	r, _ := mustRun(t, plan)
	if r.Failed > 0 || r.Requests < 20 {
		t.Errorf("%d requests, %d failed: %v", r.Requests, r.Failed, r.Errors)
	}
	if got := most.Load(); got < 4 || got > 6 || r.MaxInFlight != 6 {
		t.Errorf("the server saw at most %d at once, the generator %d; want 6", got, r.MaxInFlight)
	}
}

// TestRemovedUsersAreCutOff: a virtual user that a ramp takes away has the time
// of graceful stop for its request, and no more.
func TestRemovedUsersAreCutOff(t *testing.T) {
	t.Parallel()
	server := serveRaw(t, func(c *rawConn) { c.request(); _, _ = c.Read(make([]byte, 1)) })
	plan := loadtest.ClosedPlan(server.url, 0, 0)
	plan.Timeout = time.Hour
	s := &plan.Scenarios[0]
	s.Executor, s.StartVUs, s.GracefulStop = load.RampingVUs, 3, 50*time.Millisecond
	s.Stages = []load.Stage{{Duration: 3 * time.Second, Target: 3}, {Duration: 0, Target: 1}, {Duration: 4 * time.Second, Target: 1}}
	r, _ := mustRun(t, plan)
	if r.Errors[failure.CutOff.String()].Count != 3 || r.Requests != 3 || r.CompletedInTime != 2 {
		t.Errorf("%d requests, %d in time, errors %v; want two cut off in the middle and one at the end", r.Requests, r.CompletedInTime, r.Errors)
	}
}

func TestConnectionsAreKeptAndSpread(t *testing.T) {
	t.Parallel()
	a, b := serveOK(t), serveOK(t)
	closed := loadtest.ClosedPlan(a.url, 6, time.Minute) // at most
	closed.Scenarios[0].Executor, closed.Scenarios[0].Iterations = load.PerVUIterations, 20
	for _, plan := range []load.Plan{loadtest.OpenPlan(a.url, 500, 500*time.Millisecond, 6), closed} {
		before := a.accepted.Load()
		plan.Targets = []string{a.url, b.url}
		plan.Scenarios[0].PreAllocatedVUs = 6
		r, _ := mustRun(t, plan)
		if r.Failed > 0 || plan.Scenarios[0].CountsIterations() && r.Requests != 6*20 {
			t.Errorf("%d requests, %d failed: %v", r.Requests, r.Failed, r.Errors)
		}
		if gotA, gotB := a.accepted.Load()-before, b.accepted.Load()-before; gotA != 3 || gotB != 3 {
			t.Errorf("%s: %d and %d connections, want 3 to each target", plan.Scenarios[0].Name, gotA, gotB)
		}
	}
}

func TestRefusedConnectionsAreNotAStorm(t *testing.T) {
	t.Parallel()
	r, _ := mustRun(t, loadtest.ClosedPlan(closedPort(t), 2, 3*time.Second))
	most := 2 * (uint64(r.Seconds()/0.01) + 2)
	if n := r.Errors[failure.Refused.String()].Count; n != r.Requests || n < 2 || n > most {
		t.Errorf("%d of %d requests refused in %v s, want all, and one in 10 ms from each user at most", n, r.Requests, r.Seconds())
	}
}

// TestUnreachableTargetIsReported: a target that swallows connection attempts
// neither keeps the load from beginning nor goes unnoticed. A listener whose
// queue is full and that never accepts is such a target.
func TestUnreachableTargetIsReported(t *testing.T) {
	t.Parallel()
	url := fullBacklog(t)
	for _, plan := range []load.Plan{loadtest.OpenPlan(url, 50, 3*time.Second, 20), loadtest.ClosedPlan(url, 3, 3*time.Second)} {
		plan.Timeout = 200 * time.Millisecond
		plan.Scenarios[0].PreAllocatedVUs = 20
		r, _ := mustRun(t, plan)
		if n := r.Errors[failure.Timeout.String()].Count; n == 0 || r.Failed != r.Requests {
			t.Errorf("%s: %d requests, errors %v; want all failed, some of them by time", plan.Scenarios[0].Name, r.Requests, r.Errors)
		}
	}
}

// TestStopAfterAScenarioHasEnded: stopping what has ended already does no harm.
func TestStopAfterAScenarioHasEnded(t *testing.T) {
	t.Parallel()
	plan := loadtest.OpenPlan(slowServer(t, 10*time.Millisecond).url, 400, 20*time.Second, 200)
	plan.StopOnOverload = true
	plan.Scenarios[0].GracefulStop = 100 * time.Millisecond
	short := plan.Scenarios[0]
	short.Name, short.Rate, short.Duration = "short", 10, 100*time.Millisecond
	plan.Scenarios = append(plan.Scenarios, short)
	r, _ := mustRun(t, plan)
	if r.Aborted == "" {
		t.Error("not aborted, want an overload")
	}
}

func TestCancelledRunEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"open", "closed"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("enough")
		server := serveRaw(t, func(c *rawConn) { c.request(); cancel(why); _, _ = c.Read(make([]byte, 1)) })
		plan := loadtest.OpenPlan(server.url, 100, time.Hour, 5)
		if kind == "closed" {
			plan = loadtest.ClosedPlan(server.url, 5, time.Hour)
		}
		plan.Scenarios[0].GracefulStop = time.Hour
		if _, err := Run(ctx, plan, nil, nil); !errors.Is(err, why) {
			t.Errorf("%s: got %v, want %v", kind, err, why)
		}
		cancel(nil)
	}
}
