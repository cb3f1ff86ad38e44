package analysis

import (
	"reflect"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/roundtrip"
	"loadstone/lab/result"
)

// TestJourneysOfATrial: an iteration is all of its scenario's calls with their bytes, over a network as long as
// what waits for what, and without what its user's cache had.
func TestJourneysOfATrial(t *testing.T) {
	t.Parallel()
	plan := load.Plan{Scenarios: []load.Scenario{{Name: "batched", Steps: []load.Step{{Name: "list"}, {Name: "bundle"}}}, {Name: "other", Steps: []load.Step{{Name: "list"}}}}}
	step := func(scenario, name string, requests, sent, received uint64) load.StepResult {
		return load.StepResult{Scenario: scenario, Name: name, Requests: requests, Sent: sent, Received: received, Service: load.Latency{Mean: 5}}
	}
	r := load.Result{
		Iterations: 14,
		Steps:      []load.StepResult{step("batched", "list", 10, 1000, 22_500), step("batched", "bundle", 5, 750, 0), step("other", "list", 4, 400, 4)},
		Journeys:   []load.JourneyResult{{Scenario: "batched", Iterations: 10, BrokenOff: 1, Duration: load.Latency{P95: 70}}},
		Caches:     []load.CacheResult{{Scenario: "other", Hits: 99}, {Scenario: "batched", Hits: 5, Revalidations: 10, Fetched: 5, LargestBytes: 700}},
	}
	far := []roundtrip.JourneyTime{ // a list, half a bundle, and 2,250 bytes at 1,125 a millisecond
		{RTT: 60, Open: 65 + 2 + 32.5, New: 65 + 2 + 32.5 + 120}, {RTT: 200, Open: 205 + 2 + 102.5, New: 205 + 2 + 102.5 + 400},
	}
	want := []result.Journey{{
		Scenario: "batched", BrokenOff: 0.1, Duration: result.Percentiles{P95: 70}, Calls: 1.5, Sent: 175, Received: 2250, Far: far,
		Cache: result.Cache{Hits: 0.5, Revalidations: 1, Fetched: 0.5, LargestBytes: 700},
	}}
	if got := journeys(&plan, &r); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	r.Steps[1].Failed = 1 // of five
	if got := journeys(&plan, &r); got[0].Far != nil {
		t.Errorf("of journeys that broke off %+v was computed", got[0].Far)
	}
}

// TestJourneysOverTrials are medians, and what one trial does not know is not known.
func TestJourneysOverTrials(t *testing.T) {
	t.Parallel()
	trial := func(calls, open float64) observed {
		return observed{journeys: []result.Journey{{Scenario: "a", Calls: calls, Cache: result.Cache{Hits: 2 * calls}, Far: []roundtrip.JourneyTime{
			{RTT: 60, Open: open, New: 2 * open}, {RTT: 200, Open: 3 * open, New: 6 * open},
		}}}}
	}
	trials := []observed{trial(28, 5), trial(30, 7), trial(26, 1)}
	want := []result.Journey{{Scenario: "a", Calls: 28, Cache: result.Cache{Hits: 56}, Far: []roundtrip.JourneyTime{{RTT: 60, Open: 5, New: 10}, {RTT: 200, Open: 15, New: 30}}}}
	for range 2 { // no trial is changed
		if got := joinJourneys(trials); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	trials[1].journeys[0].Far = nil
	if got := joinJourneys(trials); len(got) != 1 || got[0].Far != nil || got[0].Calls != 28 {
		t.Errorf("got %+v, want no times over networks", got)
	}
}

// TestEachVariantsJourneyIsItsOwn: x-load chooses the scenario, and the protocol, by which lanes open connections.
func TestEachVariantsJourneyIsItsOwn(t *testing.T) {
	t.Parallel()
	steps := []load.Step{{Name: "a"}, {Name: "b"}}
	flow := []load.Part{{Step: 0}, {Parallel: 6, Parts: []load.Part{{Step: 0}, {Step: 1}}}}
	plan := load.Plan{Scenarios: []load.Scenario{{Name: "s", Steps: steps, Flow: flow}}}
	r := load.Result{
		Steps:    []load.StepResult{{Scenario: "s", Name: "a", Requests: 20}, {Scenario: "s", Name: "b", Requests: 10}},
		Journeys: []load.JourneyResult{{Scenario: "s", Iterations: 10}},
	}
	separate := journeys(&plan, &r)[0].Far[0]
	plan.Protocol = load.HTTP2
	shared := journeys(&plan, &r)[0].Far[0]
	if separate.Open != shared.Open || separate.New <= shared.New || time.Duration(shared.New-shared.Open) != 120 {
		t.Errorf("six connections %+v, one %+v", separate, shared)
	}
}
