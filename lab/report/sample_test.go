package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/format"
	"loadstone/lab/host"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// sampleSource is an experiment file with markup and long lines in it.
const sampleSource = `name: results-embedded
question: How should exam results be served on results day, when everybody looks at once?
system: ../compose.yaml
entry: api
variants:                       # the first is the baseline
  query: {}
  query-3: {services: {api: {deploy: {replicas: 3}}}}
  cached: {services: {api: {environment: {RESULTS_CACHE: memory}}}}
  snapshot: {services: {api: {environment: {RESULTS_STORE: "snapshot:/data/results.snap"}}}}
load:
  scenarios:
    lookup:
      executor: ramping-arrival-rate
      request: GET /student/{id}
      feed: {id: {uniform: [10000, 684822]}}
slo:
  http_req_duration: [p(95)<200]
  http_req_failed: [rate<0.001]
measure: capacity
trials: 6
`

// wobble makes numbers between -1.5 and 1.5 that look like noise, and are the
// same in each run of the tests.
type wobble struct{ n int }

func (w *wobble) next() float64 {
	w.n++
	x := math.Sin(float64(w.n)*12.9898) * 43758.5453
	return 3 * (x - math.Floor(x) - 0.5)
}

// sampleVariant describes one variant of the sample in the few numbers that
// the rest follows from.
type sampleVariant struct {
	name      string
	capacity  float64
	instances int
	knee      float64 // p95 far below capacity, ms
}

// sampleResult is a run as `make demo` would leave it: four variants, six
// trials each, curves and timelines that look like a queue's.
func sampleResult() *result.Result {
	started := time.Date(2026, 5, 9, 7, 29, 33, 0, time.UTC)
	r := &result.Result{
		Schema: result.Schema, Experiment: "results-embedded",
		Question: "How should exam results be served on results day, when everybody looks at once?",
		Seed:     7, Started: started, Finished: started.Add(5*time.Minute + 12*time.Second),
		Environment: result.Environment{Environment: archive.Environment{Machine: host.Machine{CPU: "Intel(R) Xeon(R) Processor @ 2.60GHz", Cores: 2, MemoryBytes: 8331091968, Kernel: "6.1.0", LimitsEnforced: true, CgroupVersion: 2}, Driver: "process", Version: "0.1.0", Go: "go1.26.8"}, ProbeCPU: 0.0213},
		Measure:     "capacity",
		SLO: []result.SLO{{Metric: "http_req_duration", Threshold: "p(95)<200"},
			{Metric: "http_req_failed", Threshold: "rate<0.001"}},
		Warnings: []string{"2 cores carry the system, the generator and the probe: another process on this machine shifts the numbers"},
		Source:   sampleSource,
	}
	for i, s := range []sampleVariant{{"query", 438.4, 1, 5.2}, {"query-3", 1219.7, 3, 5.6}, {"cached", 1892.3, 1, 1.9}, {"snapshot", 4312.6, 1, 0.81}} {
		r.Variants = append(r.Variants, s.variant(&wobble{n: 100 * i}))
		if i > 0 {
			ratio := s.capacity / 438.4
			r.Comparisons = append(r.Comparisons, result.Comparison{Variant: s.name, Baseline: "query",
				Ratio: ratio, Low: ratio * 0.943, High: ratio * 1.047, Confidence: 0.96875, P: 0.0065, Significant: true})
		}
	}
	r.Variants[2].Ratios = []result.Ratio{{Name: "cache hit ratio", Component: "api", Value: 0.6172}}
	r.Variants[3].Warnings = []string{"the generator used 0.61 of a core at capacity"}
	return r
}

func (s sampleVariant) variant(w *wobble) result.Variant {
	limit := 0.25
	demand := limit * float64(s.instances) / s.capacity * 1000 * 0.985
	bound := limit * float64(s.instances) / demand * 1000
	v := result.Variant{
		Name: s.name, Trials: 6,
		Capacity: &result.Estimate{Interval: stats.Interval{Value: s.capacity, Low: s.capacity * 0.969, High: s.capacity * 1.026, Confidence: 0.96875}, Unit: "req/s"},
		Latency: result.LatencyPair{
			Response: result.Percentiles{P50: s.knee * 3.1, P95: 151.3 + s.knee*4, P99: 212.4 + s.knee*6, Max: 431.9},
			Service:  result.Percentiles{P50: s.knee * 2.4, P95: 93.2 + s.knee*2, P99: 141.8 + s.knee*3, Max: 287.5},
		},
		Rate: s.capacity, Failed: 0, Generator: 0.08 + s.capacity/8000,
		Steps: []result.Step{{Scenario: "lookup", Name: "lookup", PerIteration: 1, Sent: 97.4, Received: 2048 + s.knee*100,
			Response: result.Percentiles{P50: s.knee * 3.1, P95: 151.3 + s.knee*4, P99: 212.4 + s.knee*6, Max: 431.9}}},
		Components: []verdict.Component{
			{Name: "api", Instances: s.instances, LimitCPUs: limit, DemandMS: demand, Bound: bound, Busy: 0.978, Throttled: 0.413, MemoryBytes: 43384832},
			{Name: "lb", Instances: 1, LimitCPUs: 0.5, DemandMS: 0.0713, Bound: 7013, Busy: s.capacity / 7013, Throttled: 0.004, MemoryBytes: 12582912},
		},
		Verdict: verdict.Verdict{Status: verdict.Named, Component: "api", Resource: "cpu",
			Summary: fmt.Sprintf("api has used up its CPU: %s CPU per request, and %d × 0.25 CPU sustain no more than %s req/s.",
				format.Milliseconds(demand), s.instances, format.Measured(bound)),
			Witnesses: []verdict.Witness{
				{Name: "demand", Component: "api", Resource: "cpu", Evidence: fmt.Sprintf("api spends %s of CPU per request; its share allows %s req/s, the measured capacity is 98.5 %% of that; the next, lb, allows 7,010 req/s", format.Milliseconds(demand), format.Measured(bound))},
				{Name: "saturation", Component: "api", Resource: "cpu", Evidence: "api-1 was throttled in 41.3 % of scheduler periods and 97.8 % busy; nothing else was above 62 %"},
			}},
		SLO: []result.SLO{{Metric: "http_req_duration", Threshold: "p(95)<200", Observed: 151.3 + s.knee*4, Met: true},
			{Metric: "http_req_failed", Threshold: "rate<0.001", Observed: 0, Met: true}},
	}
	for trial := range 6 {
		c := s.capacity * (1 + w.next()*0.02)
		v.PerTrial = append(v.PerTrial, c)
		v.Curve = append(v.Curve, s.curve(trial+1, c, w)...)
	}
	slices.SortStableFunc(v.Curve, func(a, b result.CurvePoint) int { return int(math.Copysign(1, a.Rate-b.Rate)) })
	v.Timeline = s.timeline(w)
	return v
}

// curve are the rates that one trial tried: up in steps, then around the knee.
func (s sampleVariant) curve(trial int, capacity float64, w *wobble) []result.CurvePoint {
	shares := []float64{0.35, 0.55, 0.75, 0.9, 1, 1.04, 1.12, 1.4}
	points := make([]result.CurvePoint, 0, len(shares))
	for _, share := range shares {
		rate := capacity * share * (1 + w.next()*0.01)
		wait := 1 / math.Max(1-rate/(capacity*1.03), 0.02)
		p := result.CurvePoint{Trial: trial, Rate: rate, P50: s.knee * (0.6 + 0.05*wait), P95: s.knee * wait * (1 + w.next()*0.2),
			Held: share <= 1, Seconds: 6}
		p.P99 = p.P95 * 1.6
		if !p.Held {
			over := (rate/capacity - 1) * 9000
			p.P50, p.P95, p.P99 = over*0.55, over*0.95, over
			p.Reason, p.Seconds = "p(95) of http_req_duration was above 200 ms", 3.2
		}
		points = append(points, p)
	}
	return points
}

func (s sampleVariant) timeline(w *wobble) result.Timeline {
	t := result.Timeline{Trial: 4}
	steps := []float64{0.35, 0.55, 0.75, 0.9, 1.4, 1.12, 1.04, 1}
	for i := range s.instances {
		t.Series = append(t.Series, result.TimelineSeries{Name: fmt.Sprintf("api-%d", i+1), LimitCPUs: 0.25})
	}
	t.Series = append(t.Series, result.TimelineSeries{Name: "lb-1", LimitCPUs: 0.5}, result.TimelineSeries{Name: "load generator"})
	for i := range 200 {
		share := steps[i/25]
		if i%25 >= 21 { // between two probes
			share = 0
		}
		t.Seconds = append(t.Seconds, float64(i)*0.251)
		t.Rate = append(t.Rate, share*s.capacity)
		for j := range t.Series {
			use := share * s.capacity / 7013 * 0.5
			if j < s.instances {
				use = math.Min(share*0.25*0.985, 0.252)
			} else if j == s.instances+1 {
				use = 0.08 + share*s.capacity/8000
			}
			t.Series[j].CPU = append(t.Series[j].CPU, use*(1+0.05*w.next()))
		}
	}
	return t
}

// lowerBoundResult is a run in which the generator could not reach the limit
// of the fastest variant.
func lowerBoundResult() *result.Result {
	r := sampleResult()
	r.WarmupSeconds = 90
	v := &r.Variants[3]
	v.Capacity.LowerBound, v.Capacity.HighOpen = true, true
	v.Verdict = verdict.Verdict{Status: verdict.LowerBoundOnly, Summary: "The generator was the limit: 4.1 % of its requests were late by more than 5 ms, so snapshot sustains at least 4,310 req/s.",
		Witnesses: []verdict.Witness{{Name: "demand", Evidence: "no component used more than 61 % of its CPU share"}}}
	return r
}

// undecidedResult is a run whose witnesses disagree and whose variants cannot
// be told apart.
func undecidedResult() *result.Result {
	r := sampleResult()
	r.Variants = r.Variants[:2]
	r.Comparisons = r.Comparisons[:1]
	r.Comparisons[0].Ratio, r.Comparisons[0].Low, r.Comparisons[0].High = 1.03, 0.974, 1.11
	r.Comparisons[0].P, r.Comparisons[0].Significant = 0.31, false
	v := &r.Variants[1]
	*v = sampleVariant{"query-3", 451.2, 3, 5.6}.variant(&wobble{n: 900})
	v.Capacity = &result.Estimate{Interval: stats.Interval{Value: 451.2, Low: 427.3, High: 486.7, Confidence: 0.96875}, Unit: "req/s"}
	v.Verdict = verdict.Verdict{Status: verdict.Undecided, Summary: "The witnesses disagree: demand names lb, saturation names api.",
		Witnesses: []verdict.Witness{
			{Name: "demand", Component: "lb", Resource: "cpu", Evidence: "lb spends 1.06 ms of CPU per request; its share allows 472 req/s"},
			{Name: "saturation", Component: "api", Resource: "cpu", Evidence: "api-2 was throttled in 22 % of periods while lb was in none"}}}
	v.SLO[0].Observed, v.SLO[0].Met = 200.04, false
	v.SLO[1].Observed = 0.00093
	v.Latency.Response.P95 = 200.04
	return r
}

// singleTrialResult has one trial per variant: no interval can be given.
func singleTrialResult() *result.Result {
	r := sampleResult()
	r.Variants = r.Variants[:3]
	r.Comparisons = r.Comparisons[:2]
	for i := range r.Variants {
		v := &r.Variants[i]
		v.Trials, v.PerTrial = 1, v.PerTrial[:1]
		v.Capacity = &result.Estimate{Interval: stats.Interval{Value: v.PerTrial[0], Low: v.PerTrial[0], High: v.PerTrial[0]}, Unit: "req/s"}
	}
	for i := range r.Comparisons {
		c := &r.Comparisons[i]
		c.Ratio = r.Variants[i+1].Capacity.Value / r.Variants[0].Capacity.Value
		c.Low, c.High, c.Confidence = c.Ratio, c.Ratio, 0
		c.Significant, c.Needed = false, 5
	}
	return r
}

// twoTrialsResult has two trials each of two variants that lie far apart, which are
// too few for the test.
func twoTrialsResult() *result.Result {
	r := sampleResult()
	r.Variants = []result.Variant{r.Variants[0], r.Variants[2]}
	for i := range r.Variants {
		v := &r.Variants[i]
		v.Trials, v.PerTrial, v.Capacity.Confidence = 2, v.PerTrial[:2], 0.5
	}
	c := r.Comparisons[1]
	c.Low, c.High, c.Confidence, c.P, c.Significant, c.Needed = 2.64, 5.2, 0.667, 1.0/3, false, 4
	r.Comparisons = []result.Comparison{c}
	return r
}

// loadResult drove the load as written: it has no capacity.
func loadResult() *result.Result {
	r := sampleResult()
	r.Measure, r.Comparisons = "load", nil
	for i := range r.Variants {
		v := &r.Variants[i]
		v.Capacity, v.PerTrial, v.Curve = nil, nil, nil
		v.Rate = 400
		v.Latency.Response = result.Percentiles{P50: 61.2 / float64(i+1), P95: 241.9 / float64(i+1), P99: 380 / float64(i+1), Max: 912.4}
		v.SLO[0].Observed, v.SLO[0].Met = v.Latency.Response.P95, v.Latency.Response.P95 < 200
		v.Verdict = verdict.Verdict{Status: verdict.Undecided, Summary: "The load was driven as written, so no limit was looked for."}
	}
	return r
}

// longNamesResult has names that are long, and wide in a terminal.
func longNamesResult() *result.Result {
	r := sampleResult()
	names := []string{
		"the-database-with-one-query-per-request-and-nothing-else-in-front-of-it",
		"the-database-with-one-query-per-request-and-three-replicas-behind-nginx",
		"キャッシュ付きの構成",
		"Bücher-Änderungen-naïve-e\u0301te\u0301",
	}
	for i := range r.Variants {
		r.Variants[i].Name = names[i]
		r.Variants[i].Verdict.Component = "a-component-with-quite-a-long-name"
	}
	for i := range r.Comparisons {
		r.Comparisons[i].Variant, r.Comparisons[i].Baseline = names[i+1], names[0]
	}
	return r
}

// twelveResult has as many variants as fit in one experiment with comfort.
func twelveResult() *result.Result {
	r := sampleResult()
	four := r.Variants
	r.Variants = nil
	for i := range 12 {
		v := four[i%4]
		v.Name = fmt.Sprintf("%s-%d", v.Name, i+1)
		capacity := *v.Capacity
		v.Capacity = &capacity
		r.Variants = append(r.Variants, v)
	}
	r.Comparisons = nil
	for i, v := range r.Variants[1:] {
		ratio := v.Capacity.Value / r.Variants[0].Capacity.Value * (1 + float64(i)/100)
		r.Comparisons = append(r.Comparisons, result.Comparison{Variant: v.Name, Baseline: r.Variants[0].Name, Ratio: ratio,
			Low: ratio * 0.95, High: ratio * 1.06, Confidence: 0.96875, Significant: ratio > 1.06 || ratio < 0.94})
	}
	return r
}

// noCapacityResult is a run in which nothing held at any rate.
func noCapacityResult() *result.Result {
	r := sampleResult()
	r.Variants = r.Variants[:1]
	r.Comparisons = nil
	v := &r.Variants[0]
	*v = result.Variant{Name: "query", Trials: 6, Curve: v.Curve[40:], Verdict: verdict.Verdict{Status: verdict.Undecided, Summary: "No rate held."}}
	return r
}
