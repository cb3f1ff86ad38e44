package runner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/gonum/stat"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/experiment"
	"loadstone/lab/load"
	"loadstone/lab/stats"
)

// queue is a system that answers in order of arrival: a request takes service on average, and
// so many at a time are worked on. Arrivals are the generator's, Poisson, as an experiment's are unless it says
// otherwise, and what is under way at the end of a load is waited for. Its time is that of the
// test's bubble.
type queue struct {
	servers int
	service time.Duration
	// refuses has who comes while all are busy be turned away at once.
	refuses bool
	// exponential has requests take as long as chance wants; else all take the same.
	exponential bool
	// pure has arrivals come without strata.
	pure bool
	// wavers is the deviation of how long requests take from one half second to the next.
	wavers float64
	waves  []float64
	// quota is the CPU time that it gets in each period of CPU quotas, one server working at a time; 0
	// for as much as it likes.
	quota time.Duration
	spent quotaSpent
	// within is an objective on p95; empty for none.
	within string
	// budget is the search's; 0 for the usual one.
	budget time.Duration
	random *rand.Rand
}

func (q *queue) Run(_ context.Context, p load.Plan, _ func(load.Window) string) (load.Result, error) {
	s := p.Scenarios[0]
	if s.Executor == load.SharedIterations { // who asks before the load
		takes := q.takes()
		time.Sleep(time.Duration(takes * 1e9))
		return load.Result{Requests: 1, Status: map[int]uint64{200: 1}, Response: load.Latency{P50: takes * 1e3}}, nil
	}
	q.waves, q.spent = nil, quotaSpent{begins: q.random.Float64() * load.QuotaPeriod.Seconds()}
	from, to := p.Warmup.Seconds(), s.Duration.Seconds()
	r := load.Result{From: time.Now().Add(p.Warmup)}
	times := load.NewHistogram()
	free := make(moments, q.servers) // when each server is
	var underWay, done []float64     // until when, and when
	var fit load.TrendFit
	sample, arrived, now, due, last := from, 0.0, 0.0, 0.0, 0.0
	if q.pure {
		s.Stratum = 0
	}
	arrivals := load.NewArrivals(&s, q.random.Uint64())
	due = arrival(arrivals)
	users := moments(nil) // when each asks next, and how often in a row it was refused
	if s.Executor == load.ConstantVUs {
		users = make(moments, s.VUs)
	}
	for r.Aborted == "" {
		if now = due; users != nil {
			now = users[0].at
		}
		for ; sample < min(now, to) && users == nil && r.Aborted == ""; sample += load.SampleEvery.Seconds() {
			underWay = slices.DeleteFunc(underWay, func(until float64) bool { return until <= sample })
			fit.Add(sample, float64(len(underWay)), arrived-sample*s.Rate)
			if fit.Overload(s.Rate) {
				r.Aborted, to = "overload", sample
			}
		}
		if now >= to {
			break
		}
		if arrived++; users == nil {
			arrivals.Advance()
			due = arrival(arrivals)
		}
		ends, refused := now+turningAway, q.refuses && free[0].at > now
		if !refused {
			ends = q.worked(max(free[0].at, now), q.takes()*q.wave(now))
			free.next(moment{at: ends})
		}
		last = max(last, ends)
		switch {
		case users == nil:
			underWay = append(underWay, ends)
		case refused:
			users.next(users[0].again(s, ends))
		default:
			users.next(moment{at: ends})
		}
		done = append(done, ends)
		if now < from {
			continue
		}
		r.Offered, r.Requests, r.Iterations = r.Offered+1, r.Requests+1, r.Iterations+1
		if refused {
			r.Failed++
		}
		if err := times.RecordValue(int64((ends - now) * 1e6)); err != nil {
			return r, err
		}
	}
	for _, ends := range done {
		if ends >= from && ends < to { // which an overload may have brought forward
			r.CompletedInTime, r.IterationsInTime = r.CompletedInTime+1, r.IterationsInTime+1
		}
	}
	r.To = r.From.Add(time.Duration((to - from) * 1e9))
	r.InFlight = fit.Trend(load.TrendConfidence)
	text, err := times.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	r.Response = load.Latency{Histogram: string(text), P50: float64(times.ValueAtQuantile(50)) / 1e3, P95: float64(times.ValueAtQuantile(95)) / 1e3}
	r.Response.Mean = times.Mean() / 1e3
	r.Service = r.Response
	time.Sleep(time.Duration(max(to, min(last, to+s.GracefulStop.Seconds())) * 1e9))
	return r, err
}

// arrival is when the next one is due, in seconds.
func arrival(a *load.Arrivals) float64 {
	if head, ok := a.Peek(); ok {
		return head.At.Seconds()
	}
	return math.Inf(1)
}

// turningAway is how long it takes to refuse a request, in seconds.
const turningAway = 1e-3

// moment is when a server is free, or when a user asks next, in seconds.
type moment struct {
	at      float64
	refused int // times in a row
}

// again is when a user that was refused asks again, as the generator has it.
func (m moment) again(s load.Scenario, ends float64) moment {
	wait := min(s.RetryAfter<<min(m.refused, 16), s.RetryMost)
	return moment{max(ends, m.at+wait.Seconds()), m.refused + 1}
}

// moments is a heap of them: the earliest comes first.
type moments []moment

// next has the earliest be another one.
func (m moments) next(to moment) {
	i := 0
	for child := 1; child < len(m); child = 2*i + 1 {
		if child+1 < len(m) && m[child+1].at < m[child].at {
			child++
		}
		if m[child].at >= to.at {
			break
		}
		m[i], i = m[child], child
	}
	m[i] = to
}

// takes is how long the next request takes, in seconds.
func (q *queue) takes() float64 {
	if q.exponential {
		return q.service.Seconds() * q.random.ExpFloat64()
	}
	return q.service.Seconds()
}

// wave is how many times as long as on average requests take at that time.
func (q *queue) wave(now float64) float64 {
	for q.wavers > 0 && len(q.waves) <= int(2*now) {
		q.waves = append(q.waves, 1+q.wavers*q.random.NormFloat64())
	}
	if q.waves == nil {
		return 1
	}
	return q.waves[int(2*now)]
}

// quotaSpent is how much of its quota a system has used in a period. One of them begins at begins, in
// seconds, and that is the one so many after it.
type quotaSpent struct{ begins, period, used float64 }

// worked is when work is done that begins at from and takes so much of a CPU, in seconds.
func (q *queue) worked(from, takes float64) float64 {
	if q.quota == 0 {
		return from + takes
	}
	each, s := load.QuotaPeriod.Seconds(), &q.spent
	for {
		if period := math.Floor((from - s.begins) / each); period > s.period || s.used == 0 {
			s.period, s.used = period, 0
		}
		left := max(0, q.quota.Seconds()-s.used)
		if takes <= left {
			s.used += takes
			return from + takes
		}
		s.used += left
		takes, from = takes-left, s.begins+(s.period+1)*each+1e-9
	}
}

// TestQuotasMakeTrialsDiffer: of a service that gets a sixth of a core in one part each tenth of a second,
// edges differ by less than the rates that held, and by little more than those of one that gets as much
// all the time.
func TestQuotasMakeTrialsDiffer(t *testing.T) {
	t.Parallel()
	const edge, trials = 160, 160
	parts := (&queue{servers: 1, service: time.Millisecond, quota: 16 * time.Millisecond, within: "p(95)<250", wavers: 0.03}).spread(t, edge, trials)
	even := (&queue{servers: 1, within: "p(95)<250", wavers: 0.03}).spread(t, edge, trials)
	t.Logf("edges %.1f %% apart and rates that held %.1f %%; without a quota %.1f and %.1f %%", 100*parts.apart, 100*parts.ratesApart, 100*even.apart, 100*even.ratesApart)
	if parts.apart > 0.9*parts.ratesApart || parts.apart > 1.6*even.apart {
		t.Errorf("%+v, without a quota %+v", parts, even)
	}
}

// TestTenthsAndEquals has experiments of six rounds with two variants, compared as Loadstone does it: a tenth is
// found, and equals are called different as rarely as by chance. LARGE=1 has as many as tell 5 % from 10.
func TestTenthsAndEquals(t *testing.T) {
	t.Parallel()
	const rounds, edge = 6, 160
	experiments := 8
	if os.Getenv("LARGE") != "" {
		experiments = 250
	}
	for _, wavers := range []float64{0.03, 0.08} {
		for _, quota := range []time.Duration{0, 16 * time.Millisecond} {
			q := &queue{servers: 1, service: time.Second / edge, wavers: wavers, within: "p(95)<250", random: rand.New(rand.NewPCG(edge, 9))}
			if q.quota = quota; quota > 0 {
				q.service = time.Millisecond
			}
			found, falsely := 0, 0
			for e := range experiments {
				one, other, more := stats.Sample{Name: "one"}, stats.Sample{Name: "other"}, stats.Sample{Name: "more"}
				for round := range rounds {
					edge := func(s *stats.Sample, trial int, times float64) {
						s.Trials = append(s.Trials, stats.Trial{Round: round, Value: times * q.search(t, 3*(e*rounds+round)+trial).Edge})
					}
					edge(&one, 1, 1)
					edge(&other, 2, 1)
					edge(&more, 3, 1.1)
				}
				if different(t, other, one) {
					falsely++
				}
				if different(t, more, one) {
					found++
				}
			}
			t.Logf("times vary by %g %%, quota %v: a tenth is found in %d of %d experiments, equals are called different in %d", 100*wavers, quota, found, experiments, falsely)
			if stats.Share(falsely, experiments).Low > stats.Alpha || 4*found < 3*experiments {
				t.Errorf("times vary by %g %%, quota %v: a tenth is found in %d of %d experiments, equals are called different in %d", 100*wavers, quota, found, experiments, falsely)
			}
		}
	}
}

// different says whether two samples of an experiment are called so.
func different(t *testing.T, sample, base stats.Sample) bool {
	t.Helper()
	rows, joint, err := stats.Joint([]stats.Line{{Sample: sample, Base: base}})
	if err != nil || !joint {
		t.Fatalf("not compared: %v", err)
	}
	return rows[0].Result.Outcome == stats.Different
}

// TestCapacityOfSlowSystems: from five to a thousand requests a second, of which each takes a
// millisecond to a second, what is found is the edge, and six trials reach across it. A backlog
// may grow by 5 % of what is offered, so that what does not vary is found that far above.
func TestCapacityOfSlowSystems(t *testing.T) {
	t.Parallel()
	for _, edge := range []float64{5, 20, 50, 200, 1000} {
		for _, servers := range []int{1, int(edge)} {
			for _, exponential := range []bool{false, true} {
				q := &queue{servers: servers, service: time.Duration(float64(servers) / edge * 1e9), exponential: exponential}
				experiments := 10
				if exponential && q.servers == 50 { // one trial in thirty finds less than a fifth, by chance seven of sixty
					experiments = 20
				}
				q.finds(t, edge, experiments)
			}
		}
	}
}

// TestSmallBudgetsAreNoHigher: what a search of four or six seconds finds is the edge as well, and one of three
// is seldom far above. In attempts of 0.2 s queues do not grow long enough to miss an objective of a second, so that
// up to four times the edge was taken for sustained, and no time was left to find out.
func TestSmallBudgetsAreNoHigher(t *testing.T) {
	t.Parallel()
	budgets := []time.Duration{3 * time.Second, 4 * time.Second, 6 * time.Second}
	if os.Getenv("LARGE") != "" {
		budgets = append(budgets, 2*time.Second, 11*time.Second)
	}
	for _, budget := range budgets {
		for _, edge := range []int{185, 420, 2000} {
			for _, c := range []queue{{servers: 1}, {servers: 1, exponential: true}, {servers: 4}} {
				t.Run(fmt.Sprintf("%v, %d a second, %d at a time, exponential %v", budget, edge, c.servers, c.exponential), func(t *testing.T) {
					t.Parallel()
					q := c
					q.budget, q.within, q.wavers = budget, "p(95)<1000", 0.03
					q.service = time.Duration(q.servers) * time.Second / time.Duration(edge)
					q.random = rand.New(rand.NewPCG(uint64(edge), uint64(q.servers)))
					var found []float64
					confirmed := 0
					const trials = 40
					for trial := range trials {
						out := q.search(t, trial+1)
						found = append(found, out.Rate/float64(edge))
						if out.Confirmed {
							confirmed++
						}
					}
					slices.Sort(found)
					text := fmt.Sprintf("%.2f of it (%.2f to %.2f), %d of %d confirmed", found[trials/2], found[trials/10], found[trials-1-trials/10], confirmed, trials)
					t.Log(text)
					most, least := 1.2, trials/2
					switch {
					case budget < 3*time.Second:
						return // too little for more than two or three attempts
					case budget < 4*time.Second:
						most, least = 1.5, trials/4
					}
					if found[trials/2] < 0.9 || found[trials/2] > 1.1 || found[trials/10] < 0.8 || found[trials-1-trials/10] > most || confirmed < least {
						t.Error(text)
					}
				})
			}
		}
	}
}

// TestCapacityOfServicesOfSeconds: of a half to five requests a second, of which each takes seconds, what is
// found is the edge as well. In 11 s there are a few of them, and it was up to 1.5 times the edge.
func TestCapacityOfServicesOfSeconds(t *testing.T) {
	t.Parallel()
	for _, q := range []queue{
		{servers: 2, service: 4 * time.Second}, {servers: 1, service: time.Second}, {servers: 4, service: 2 * time.Second},
		{servers: 4, service: 2 * time.Second, exponential: true}, {servers: 10, service: 2 * time.Second},
	} {
		q.finds(t, float64(q.servers)/q.service.Seconds(), 10)
	}
}

// TestCapacityOfSystemsThatShed: who turns away what it has no place for has as its edge the rate
// at which the objectives allow no more of that.
func TestCapacityOfSystemsThatShed(t *testing.T) {
	t.Parallel()
	const allowed = 0.01
	for _, c := range []queue{
		{servers: 50, service: time.Second}, {servers: 200, service: time.Second}, {servers: 1000, service: time.Second},
		{servers: 10, service: 10 * time.Millisecond},
	} {
		for _, exponential := range []bool{false, true} {
			q := &queue{servers: c.servers, service: c.service, exponential: exponential, refuses: true}
			q.finds(t, busiest(c.servers, allowed)/c.service.Seconds(), 4)
		}
	}
}

// busiest is how many servers are asked for at a time where so large a share of the requests finds
// none, by Erlang's loss formula, for which it does not matter how service times vary.
func busiest(servers int, lost float64) float64 {
	low, high := 0.0, float64(servers)
	for range 50 {
		middle, share := (low+high)/2, 1.0
		for n := 1; n <= servers; n++ {
			share = middle * share / (float64(n) + middle*share)
		}
		if share < lost {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// TestStrataMakeTrialsAgree: where chance does not say how many arrivals an attempt has, trials of a system of
// 160 requests a second differ by less than half as much, and what they find is no further off than
// by the backlog that may grow. LARGE=1 prints what ADR 031 has of others.
func TestStrataMakeTrialsAgree(t *testing.T) {
	t.Parallel()
	strata, pure := (&queue{servers: 1}).spread(t, 160, 160), (&queue{servers: 1, pure: true}).spread(t, 160, 160)
	if strata.apart > pure.apart/2 || math.Abs(strata.off) > 0.05 {
		t.Errorf("edges are %+v, and %+v without strata", strata, pure)
	}
	if os.Getenv("LARGE") == "" {
		return
	}
	for _, exponential := range []bool{false, true} {
		q := queue{servers: 50, service: time.Second, refuses: true, exponential: exponential}
		strata := q.spread(t, int(busiest(50, 0.01)), 240)
		q.pure = true
		pure := q.spread(t, int(busiest(50, 0.01)), 240)
		t.Logf("50 places of 1 s, exponential %v: %d of 240 trials find less than a fifth without strata, and %d with", exponential, pure.lost, strata.lost)
	}
	for _, edge := range []int{5, 20, 50, 160, 400, 1000} {
		for _, q := range []queue{{servers: 1}, {servers: 1, exponential: true}, {servers: edge}, {servers: edge, exponential: true}} {
			if q.wavers = 0.03; edge >= 100 && q.servers == 1 {
				q.within = "p(95)<250"
			}
			strata := q.spread(t, edge, 120)
			q.pure = true
			pure := q.spread(t, edge, 120)
			t.Logf("%4d/s, %4d at a time, exponential %5v, without strata and with: edges %.1f, %.1f %% apart; sustained %+.1f, %+.1f %% off",
				edge, q.servers, q.exponential, 100*pure.apart, 100*strata.apart, 100*pure.off, 100*strata.off)
		}
	}
}

// spread is of trials: by how much edges differ, as a deviation, and by how much the sustained rate is off in
// the mean, as shares, and how many found less than a fifth of the truth.
type spread struct {
	apart, off float64
	ratesApart float64 // by which rates that held differ
	lost       int
}

// spread searches so many times.
func (q *queue) spread(t *testing.T, edge, trials int) (found spread) {
	t.Helper()
	if q.service == 0 {
		q.service = time.Duration(q.servers) * time.Second / time.Duration(edge)
	}
	q.random = rand.New(rand.NewPCG(uint64(edge), uint64(q.servers)))
	var edges, rates []float64
	for trial := range trials {
		out := q.search(t, trial+1)
		edges, rates = append(edges, out.Edge/float64(edge)), append(rates, out.Rate/float64(edge))
		if out.Rate < 0.2*float64(edge) {
			found.lost++
		}
	}
	found.apart, found.off, found.ratesApart = stat.StdDev(edges, nil), stat.Mean(rates, nil)-1, stat.StdDev(rates, nil)
	return found
}

// TestStrataFillAnAttempt: what is measured has as many arrivals as its rate calls for, and strata
// are no shorter than a request makes them.
func TestStrataFillAnAttempt(t *testing.T) {
	t.Parallel()
	base := load.Plan{Seed: 1}
	scenario := load.Scenario{Name: "get", Arrivals: load.Poisson}
	for _, c := range []struct {
		rate      float64
		measured  time.Duration
		takes     time.Duration
		leastEach int
	}{
		{160, 800 * time.Millisecond, 6 * time.Millisecond, 25}, {97, 2 * time.Second, 0, 24}, {5000, 1600 * time.Millisecond, time.Millisecond, 1200},
		{200, 2 * time.Second, 100 * time.Millisecond, 200}, {20, 10 * time.Second, time.Second, 200}, {0.7, 4 * time.Second, 3 * time.Minute, 2}, {0.05, time.Second, time.Second, 1},
	} {
		for _, purpose := range []capacity.Purpose{capacity.Search, capacity.Confirm} {
			p := try(base, scenario, capacity.Step{Purpose: purpose, Rate: c.rate, Duration: c.measured}, time.Second, 0)
			stratify(p, purpose, c.takes)
			s := &p.Scenarios[0]
			if s.Stratum < c.leastEach {
				t.Errorf("%+v: strata of %d, want %d or more", c, s.Stratum, c.leastEach)
			}
			for seed := range uint64(20) {
				got := 0
				for a := load.NewArrivals(s, seed); ; a.Advance() {
					head, more := a.Peek()
					if !more {
						break
					}
					if head.At >= p.Warmup {
						got++
					}
				}
				strata := math.Round(c.rate * c.measured.Seconds() / float64(s.Stratum))
				if want := c.rate * c.measured.Seconds(); math.Abs(float64(got)-want) > 1.5+strata/2 {
					t.Errorf("%+v, seed %d: %d arrivals are measured, want %.1f", c, seed, got, want)
				}
			}
		}
	}
	for name, s := range map[string]load.Scenario{string(capacity.Hold): scenario, load.Uniform: {Name: "get", Arrivals: load.Uniform}} {
		p := try(base, s, capacity.Step{Rate: 160, Duration: time.Second}, time.Second, 0)
		stratify(p, capacity.Purpose(name), 0)
		if p.Scenarios[0].Stratum != 0 || p.Scenarios[0].FirstStratum != 0 {
			t.Errorf("%s: got strata of %d, want none", name, p.Scenarios[0].Stratum)
		}
	}
}

// finds searches the capacity in so many experiments of six trials.
func (q *queue) finds(t *testing.T, edge float64, experiments int) {
	t.Helper()
	const trialsEach, resolution = 6, 1.1
	const least, most, leastTenth = 0.8, 1.2, 0.2 // of medians, and of the lowest tenth of trials
	q.random = rand.New(rand.NewPCG(uint64(edge), uint64(q.servers)))
	var all []float64
	covered := 0
	for experiment := range experiments {
		var found, rejected []float64
		for trial := range trialsEach {
			out := q.search(t, experiment*trialsEach+trial+1)
			found, rejected = append(found, out.Rate/edge), append(rejected, cmp.Or(out.Rejected, math.Inf(1))/edge)
		}
		if slices.Min(found) <= resolution && slices.Max(rejected) >= 1 {
			covered++
		}
		all = append(all, found...)
	}
	slices.Sort(all)
	n := len(all)
	text := fmt.Sprintf("%.3g a second, %d at a time, exponential %v: %.2f of it (%.2f to %.2f), %d of %d experiments reach across",
		edge, q.servers, q.exponential, all[n/2], all[n/10], all[n-1-n/10], covered, experiments)
	t.Log(text)
	if all[n/2] < least || all[n/2] > most || all[n/10] < leastTenth || covered < experiments-2 {
		t.Error(text)
	}
}

// search searches the capacity once.
func (q *queue) search(t *testing.T, trial int) (out capacity.Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &experiment.Experiment{
			Measure: experiment.Capacity, Seed: 7, Trials: 1, Search: experiment.DefaultSearch(), SLO: experiment.SLO{parse(t, "http_req_failed", "rate<0.01")}, Perturb: experiment.Perturb{Off: true},
			Load: experiment.Offer{Timeout: 10 * time.Second, Scenarios: []experiment.Scenario{{Name: "get", Arrivals: load.Poisson}}},
		}
		if q.budget > 0 {
			e.Search.Budget = q.budget
		}
		if q.within != "" {
			e.SLO = append(e.SLO, parse(t, "http_req_duration", q.within))
		}
		m := &trialRun{
			execution: &execution{Config: Config{Experiment: e}, search: searchConfig(e)},
			trial:     &archive.Trial{Planned: archive.Planned{Index: trial, Round: 1}}, generator: q, base: e.Plan(),
			unseen: &unseen{reason: "nothing is watched"},
		}
		m.base.Scenarios[0].Steps = []load.Step{{Request: load.Request{Method: http.MethodGet, Path: "/"}}}
		if err := m.awaitAnswers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.capacity(t.Context()); err != nil {
			t.Fatal(err)
		}
		out, _ = m.trial.Conclude()
	})
	return out
}
