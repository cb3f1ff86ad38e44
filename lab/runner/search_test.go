package runner

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
)

// crowded answers so many requests of a sweep at a time, each in its service time, as long as
// anybody waits for it.
type crowded struct {
	service time.Duration
	servers int
	refuses bool    // at once, who comes while all servers are busy
	slows   float64 // so many users at a time make an answer take twice as long; 0 for none
	lucky   bool    // the median of few answers is a tenth
	plans   []load.Plan
}

func (c *crowded) Run(_ context.Context, p load.Plan, _ func(load.Window) string) (load.Result, error) {
	c.plans = append(c.plans, p)
	s := &p.Scenarios[0]
	r := load.Result{From: time.Now().Add(p.Warmup), To: time.Now().Add(s.Duration), Status: map[int]uint64{200: 1}}
	service := c.takes(s.VUs)
	rate := min(float64(min(s.VUs, c.servers))/service.Seconds(), s.MaxRate)
	n := uint64(r.Seconds() * rate)
	queue := service * time.Duration(max(s.VUs, c.servers)) / time.Duration(c.servers)
	half, most := queue, queue
	r.Offered, r.Requests, r.Iterations, r.IterationsInTime, r.CompletedInTime = n, n, n, n, n
	if c.refuses && s.VUs > c.servers {
		r.Failed, half, most = uint64(r.Seconds()/max(s.RetryAfter, time.Millisecond).Seconds()*float64(s.VUs-c.servers)), service, service
		if n += r.Failed; 2*r.Failed > n {
			half = time.Millisecond
		}
		if 20*r.Failed > 19*n {
			most = time.Millisecond
		}
		r.Offered, r.Requests, r.Iterations, r.IterationsInTime, r.CompletedInTime = n, n, n, n, n
	}
	if c.lucky && n < 12 {
		half /= 10
	}
	r.Response = load.Latency{P50: half.Seconds() * 1e3, P95: most.Seconds() * 1e3}
	time.Sleep(s.Duration + min(queue, s.GracefulStop))
	return r, nil
}

// takes is how long an answer takes without a queue.
func (c *crowded) takes(users int) time.Duration {
	if c.slows == 0 {
		return c.service
	}
	return c.service + time.Duration(float64(users)/c.slows*float64(c.service))
}

// What a sweep leaves under way is waited for, for as long as the objectives may allow, and no
// search's budget is for that: it would be used up before the first attempt.
func TestTheBudgetIsNotForWhatASweepLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &experiment.Experiment{
			Measure: experiment.Capacity, Seed: 7, Search: experiment.DefaultSearch(), SLO: experiment.SLO{parse(t, "http_req_duration", "p(95)<9000")},
			Load: experiment.Offer{Timeout: time.Minute, Warmup: time.Minute, Scenarios: []experiment.Scenario{{Name: "get"}}},
		}
		m := &trialRun{
			execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)},
			trial:     &archive.Trial{Planned: archive.Planned{Index: 1}}, generator: &crowded{service: 200 * time.Millisecond, servers: 1}, base: e.Plan(),
		}
		_, rate, began, err := m.sweep(t.Context(), m.base.Scenarios[0])
		if err != nil || rate < 4 || rate > 5 {
			t.Errorf("got %v a second and %v, want nearly 5", rate, err)
		}
		if got, want := time.Since(began), m.search.Budget/sweepShare; got != want {
			t.Errorf("the budget has paid %v for the sweep, want %v", got, want)
		}
	})
}

// A system that works on many slow requests at a time is swept with as many users as keep it
// busy, and warmed up with as many, too. One that answers at once gets one sweep, as ever. None
// exceeds the highest rate of the search, nor asks who refuses again before a good answer would
// have come, and each lasts for three answers.
func TestSweepsHaveAsManyUsersAsKeepASystemBusy(t *testing.T) {
	t.Parallel()
	const warmup = 30 * time.Second
	for name, c := range map[string]struct {
		system  crowded
		alone   time.Duration
		warmup  time.Duration
		maxRate experiment.Rate // 0 for the usual
		vus     []int           // of each sweep, of which the last has the warm-up
		rate    float64
	}{
		"quick":                 {crowded{service: 2 * time.Millisecond, servers: 1}, 2 * time.Millisecond, warmup, 0, []int{64}, 500},
		"quick, and unknown":    {crowded{service: 2 * time.Millisecond, servers: 1}, 0, 0, 0, []int{64}, 500},
		"quick, and many":       {crowded{service: 2 * time.Millisecond, servers: 1000}, 2 * time.Millisecond, 0, 0, []int{64}, 32000},
		"quick, and bounded":    {crowded{service: 2 * time.Millisecond, servers: 1000}, 2 * time.Millisecond, 0, 100, []int{64}, 100},
		"quick, and one in 2 s": {crowded{service: 2 * time.Millisecond, servers: 1000}, 2 * time.Millisecond, 0, 0.5, []int{64}, 0.5},
		"slow, many at a time":  {crowded{service: time.Second, servers: 300}, time.Second, warmup, 0, []int{4, 16, 64, 256, 1024, 1024}, 300},
		"slow, without warm-up": {crowded{service: time.Second, servers: 300}, time.Second, 0, 0, []int{4, 16, 64, 256, 1024}, 300},
		"slow, endless":         {crowded{service: time.Second, servers: 1e6}, time.Second, 0, 0, []int{4, 16, 64, 256, 1024}, 1024},
		"slow, and bounded":     {crowded{service: time.Second, servers: 1e6}, time.Second, 0, 40, []int{4, 16, 40}, 40},
		"slower with each user": {crowded{service: time.Second, servers: 1e6, slows: 100}, time.Second, 0, 0, []int{4, 16, 64, 256, 1024}, 91},
		"quick by chance":       {crowded{service: time.Second, servers: 300, lucky: true}, time.Second, 0, 0, []int{4, 16, 64, 256, 1024}, 300},
		"slow, one at a time":   {crowded{service: 200 * time.Millisecond, servers: 1}, 200 * time.Millisecond, warmup, 0, []int{7, 7}, 5},
		"slow, turns away":      {crowded{service: time.Second, servers: 2, refuses: true}, time.Second, 0, 0, []int{4}, 2},
		"slow, turns away some": {crowded{service: time.Second, servers: 200, refuses: true}, time.Second, 0, 0, []int{4, 16, 64, 256}, 200},
		"thought to be slow":    {crowded{service: 50 * time.Millisecond, servers: 1}, 3 * time.Second, 0, 0, []int{4, 16}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := &experiment.Experiment{
					Measure: experiment.Capacity, Seed: 7, Search: experiment.DefaultSearch(), SLO: objectives(t),
					Load: experiment.Offer{Timeout: time.Minute, Warmup: c.warmup, Scenarios: []experiment.Scenario{{Name: "get"}}},
				}
				e.Search.MaxRate = cmp.Or(c.maxRate, e.Search.MaxRate)
				m := &trialRun{
					execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)},
					trial:     &archive.Trial{Planned: archive.Planned{Index: 1}}, generator: &c.system, base: e.Plan(), alone: c.alone,
				}
				takes, rate, _, err := m.sweep(t.Context(), m.base.Scenarios[0])
				if err != nil || rate < 0.95*c.rate || rate > 1.05*c.rate {
					t.Errorf("got %v a second and %v, want %v", rate, err, c.rate)
				}
				if takes > max(c.system.takes(1024), 64*c.system.service/time.Duration(c.system.servers)) || c.system.refuses && takes < c.system.service {
					t.Errorf("a request is taken to last %v at the capacity, and lasts %v", takes, c.system.service)
				}
				var vus []int
				for i, p := range c.system.plans {
					s := p.Scenarios[0]
					vus = append(vus, s.VUs)
					if s.RetryAfter <= 0 || s.RetryAfter < min(c.alone, c.system.service) || s.RetryMost < s.RetryAfter || s.MaxRate != float64(e.Search.MaxRate) {
						t.Errorf("sweep %d: users begin %v a second, and ask again after %v to %v", i+1, s.MaxRate, s.RetryAfter, s.RetryMost)
					}
					if i > 0 && c.system.slows > 0 && s.Duration < sweepAnswers*c.system.takes(vus[i-1]) {
						t.Errorf("sweep %d lasts %v, and answers took %v", i+1, s.Duration, c.system.takes(vus[i-1]))
					}
					if warms := p.Warmup >= warmup; warms != (c.warmup > 0 && i == len(c.vus)-1) {
						t.Errorf("sweep %d of %d users warms up for %v", i+1, p.Scenarios[0].VUs, p.Warmup)
					}
				}
				if !slices.Equal(vus, c.vus) {
					t.Errorf("swept with %v users, want %v", vus, c.vus)
				}
			})
		})
	}
}
