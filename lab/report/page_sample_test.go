package report

import (
	"math"

	"loadstone/lab/load/roundtrip"
	"loadstone/lab/result"
	"loadstone/lab/stats"
	"loadstone/lab/verdict"
)

// fullResult is a run with everything that a page can show: the sample, swept
// over replicas, with a pool and a queue, perturbed, with conditions and trials.
func fullResult() *result.Result {
	r := sampleResult()
	r.Environment.Speed = &result.SpeedRange{
		Work: "4b1d", Median: result.Speed{ComputingMS: 1.87, MemoryMS: 1.53}, Least: result.Speed{ComputingMS: 1.83, MemoryMS: 1.5},
		Most: result.Speed{ComputingMS: 1.91, MemoryMS: 1.61, Waited: 0.013},
	}
	for i := range r.Variants {
		v := &r.Variants[i]
		for j, capacity := range v.PerTrial {
			v.Figures = append(v.Figures, result.Figure{Trial: 4*j + i + 1, Round: j + 1, Capacity: capacity, Measured: true})
		}
		v.Verdict.Agreement, v.Verdict.Advice = "3/3", "api CPU: +1 replica → about +31 %, then lb limits at 7,010 req/s."
		v.Conditions = &result.Conditions{MachineBusy: 0.6172, ProbeCPU: 0.0213, Outside: 0.071, Working: 0.213, Late: 0.0004, LateMS: 0.913, SampleSeconds: 0.1, GapSeconds: 0.113}
		api := &v.Components[0]
		api.UserMS, api.SystemMS = api.DemandMS*0.61, api.DemandMS*0.39
		api.Visits, v.Components[1].Visits = 2.97, 1
		api.BoundLow, api.BoundHigh, api.RunDelay = api.Bound*0.97, api.Bound*1.04, 4.25
		api.Resources = []verdict.Resource{
			{Name: "connections", Kind: "pool", Capacity: 4, DemandMS: 0.847, Bound: 4722, BoundLow: 4610, BoundHigh: 4830, Busy: 0.873, Full: 0.317, Waiting: 2.43, WaitMS: 1.37},
			{Name: "writes", Kind: "queue", DemandMS: 0.153, Bound: 6536, Busy: 0.413, NotEmpty: 0.21, Depth: 17.3, Slope: 0.83, Consumer: "worker"},
			{Name: "sink", Kind: "stage", Bound: 6210, Busy: 0.613, After: "api.writes", Backpressured: new(0.173), Rate: 4170, Left: 2130, Flushed: 2040, FlushSeconds: 1.72},
		}
		v.Perturbation = samplePerturbation(v.Capacity.Value)
		v.Journeys = sampleJourneys(i)
		v.Hops = sampleHops(i)
	}
	r.Variants[0].Verdict.Located = &verdict.Located{Component: "api", LightMS: 2.13, MS: 31.7, Share: 0.91, AtOnce: 3.93}
	r.Variants[3].Hops = &result.Hops{Unseen: "reading packets is not allowed here: it takes root or the capability CAP_NET_RAW"}
	r.Variants[2].Conditions.MachineBusy = 0.983 // something to look at
	r.Scaling = sampleScaling()
	return r
}

// sampleJourneys are what two kinds of users ask for, one with a cache.
func sampleJourneys(i int) []result.Journey {
	n := float64(i + 1)
	return []result.Journey{
		{
			Scenario: "browse", Calls: 28 * n, Sent: 3_130 * n, Received: 217_300 * n, Duration: result.Percentiles{P50: 41.3 * n, P95: 83.1 * n, P99: 127.9 * n, Max: 413.7},
			Far: []roundtrip.JourneyTime{{RTT: 60, Open: 1_313 * n, New: 1_433 * n}, {RTT: 200, Open: 3_853 * n, New: 4_253 * n}},
		},
		{
			Scenario: "return", Calls: 7.313 * n, Sent: 913, Received: 1_913, BrokenOff: 0.0013, Duration: result.Percentiles{P50: 17.3, P95: 31.9, P99: 61.3, Max: 97.1},
			Cache: result.Cache{Hits: 20.69 / n, Revalidations: 6.1, Fetched: 1.213, LargestBytes: 230_000 * n},
		},
	}
}

// sampleHops are a balancer before an api, which asks a database twice and somebody who is
// not in the file.
func sampleHops(i int) *result.Hops {
	n := float64(i + 1)
	return &result.Hops{
		Boxes: []result.HopBox{
			{Name: "127.0.0.1:9000", Outside: true, Visits: 0.213, MS: 5.17},
			{Name: "api", Visits: 1, MS: 31.7 * n, LightMS: new(2.13)}, {Name: "lb", Visits: 1, MS: 0.613, LightMS: new(0.471)},
			{Name: "postgres", Visits: 2.03, MS: 1.37, LightMS: new(0.917)},
		},
		Arrows: []result.HopArrow{
			{To: "lb", PerRequest: 1, MS: 34.1 * n, InFlight: 143 * n}, {From: "api", To: "127.0.0.1:9000", PerRequest: 0.213, MS: 5.17, InFlight: 4.61},
			{From: "api", To: "postgres", PerRequest: 2.03, MS: 1.37, InFlight: 11.7}, {From: "lb", To: "api", PerRequest: 1, MS: 33.9 * n, InFlight: 141 * n},
		},
	}
}

func samplePerturbation(rate float64) *result.Perturbation {
	p := &result.Perturbation{Trial: 24, CostCPU: 0.0231, MachineBusy: 0.643}
	w := &wobble{n: 400}
	add := func(factor, answer float64, targets ...string) {
		p.Slots = append(p.Slots, result.PerturbedSlot{At: float64(len(p.Slots)), Seconds: 1, Set: 0.004, Targets: targets, Factor: factor,
			Throughput: rate * math.Pow(factor, answer) * (1 + 0.02*w.next()), P95: 143 * math.Pow(factor, -answer)})
	}
	for range 4 {
		add(1, 0)
		add(0.8, 0.94, "api cpu")
		add(1.25, 0.94, "api cpu")
		add(1, 0)
		add(1.25, 0, "lb cpu", "postgres cpu")
		add(0.8, 0, "lb cpu", "postgres cpu")
	}
	add(1, 0)
	p.Effects = []result.PerturbedEffect{
		{Targets: []string{"api cpu"}, Blocks: 4, Throughput: result.Estimate{Interval: stats.Interval{Value: 0.94, Low: 0.78, High: 1.1, Confidence: 0.95}}, P95: result.Estimate{Interval: stats.Interval{Value: -1.13, Low: -1.71, High: -0.55, Confidence: 0.95}}},
		{Targets: []string{"lb cpu", "postgres cpu"}, Blocks: 4, Throughput: result.Estimate{Interval: stats.Interval{Value: -0.03, Low: -0.19, High: 0.13, Confidence: 0.95}}, P95: result.Estimate{Interval: stats.Interval{Value: 0.07, Low: -0.51, High: 0.65, Confidence: 0.95}}},
	}
	return p
}

func sampleScaling() *result.Scaling {
	at := func(value float64) result.Estimate {
		return result.Estimate{Interval: stats.Interval{Value: value, Low: value * 0.96, High: value * 1.05, Confidence: 0.96875}, Unit: result.RequestsPerSecond}
	}
	s := &result.Scaling{
		Service: "api", Setting: "replicas",
		Points: []result.ScalingPoint{
			{Size: 1, Variant: "query", Capacity: at(438), Limit: "api"}, {Size: 2, Variant: "query-2", Capacity: at(847), Limit: "api"},
			{Size: 3, Variant: "query-3", Capacity: at(1220), Limit: "api"}, {Size: 6, Variant: "query-6", Capacity: at(1873), Limit: "lb"},
		},
		Law: &result.ScalingLaw{Shape: "law", Lambda: at(441), Sigma: result.Estimate{Interval: stats.Interval{Value: 0.0213, Low: 0.0107, High: 0.0319, Confidence: 0.95}},
			Kappa: result.Estimate{Interval: stats.Interval{Value: 0.0041, Low: 0, High: 0.0083, Confidence: 0.95}}, PeakNote: "no peak inside the measured range"},
		HeldOut:  &result.HeldOut{Size: 6, Predicted: at(1931), Measured: at(1873), Error: 0.031, From: "sizes 1, 2 and 3"},
		Takeover: &result.Takeover{Grown: "api", Next: "lb", At: 4.7, Bound: 1910},
		Carry:    &result.RequiredSize{Rate: 1000, Size: 3, Text: "3 replicas carry it; 2 do not."},
		Note:     "Sizes are few: the interval of κ is wide.",
	}
	for n := 1.0; n <= 6; n += 0.25 {
		s.Law.Curve = append(s.Law.Curve, [2]float64{n, 441 * n / (1 + 0.0213*(n-1) + 0.0041*n*(n-1))})
	}
	return s
}

// journeysResult is a load as written whose iterations are several requests.
func journeysResult() *result.Result {
	r := loadResult()
	r.Variants = r.Variants[:2]
	for i := range r.Variants {
		r.Variants[i].Journeys = sampleJourneys(i)
	}
	r.Variants[1].Journeys = r.Variants[1].Journeys[:1]
	return r
}
