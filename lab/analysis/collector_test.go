package analysis

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/probe"
)

// A collector's part of the CPU time is that of whole rounds of it, however short the measured span is.
func TestCollecting(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_700_000_000, 0)
	const goes, rest, pauses = "go_cpu_classes_gc_total_cpu_seconds_total", "go_cpu_classes_user_cpu_seconds_total", `jvm_gc_pause_seconds_sum{cause="G1"}`
	// A span of half a second between two rounds of 2 s, in which ten requests took 10 ms each.
	const demandMS = 10
	r := &load.Result{From: began.Add(4500 * time.Millisecond), To: began.Add(5 * time.Second), IterationsInTime: 10}
	for name, c := range map[string]struct {
		grows map[string]map[string]float64 // counters of each instance, by how much in a round
		used  map[string]float64
		want  float64
	}{
		"Go, with what the rest took": {map[string]map[string]float64{"a": {goes: 1.2, rest: 1.8}}, map[string]float64{"a": 0.1}, 0.4 * demandMS},
		"two that do not do the same": {map[string]map[string]float64{"a": {goes: 1.2, rest: 1.8}, "b": {goes: 0.1, rest: 0.9}}, map[string]float64{"a": 0.09, "b": 0.01}, 0.37 * demandMS},
		"one of two says so":          {map[string]map[string]float64{"a": {goes: 1.2, rest: 1.8}}, map[string]float64{"a": 0.05, "b": 0.05}, 0.4 * demandMS},
		"Go, without the rest":        {map[string]map[string]float64{"a": {goes: 1.2}}, map[string]float64{"a": 0.1}, 0},
		"one used nothing":            {map[string]map[string]float64{"a": {goes: 1.2, rest: 1.8}}, map[string]float64{"a": 0}, 0},
		"nothing says so":             {map[string]map[string]float64{"a": {"other": 3}}, map[string]float64{"a": 0.1}, 0},
		// 10 ms in each quarter of a second.
		"pauses of a JVM": {map[string]map[string]float64{"a": {pauses: 0.08}}, map[string]float64{"a": 0.1}, 0.2 * demandMS},
	} {
		var scrapes []probe.Scrape
		for i := range 40 {
			for instance, counters := range c.grows {
				values := map[string]float64{}
				for counter, by := range counters {
					rounds := float64(i / 8) // of eight scrapes
					if counter == pauses {
						rounds = float64(i) / 8
					}
					values[counter] = by * rounds
					if counter == goes && i%8 >= 5 { // a little is counted when a collection begins
						values[counter] += by / 20
					}
				}
				scrapes = append(scrapes, probe.Scrape{At: began.Add(time.Duration(i) * 250 * time.Millisecond), Instance: instance, Values: values})
			}
		}
		span := probe.Span{Instances: map[string]probe.Usage{}}
		for instance, seconds := range c.used {
			span.Instances[instance] = probe.Usage{CPU: time.Duration(seconds * float64(time.Second))}
		}
		if got := collecting(slices.Sorted(maps.Keys(c.used)), span, scrapes, r); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: got %v ms, want %v", name, got, c.want)
		}
	}
}
