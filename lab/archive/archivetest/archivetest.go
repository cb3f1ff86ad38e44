// Package archivetest writes runs whose truth is known: a directory of raw data as
// an experiment leaves it, of a system that never ran. What is derived from runs
// is tested with it. It is for tests and for the examples in the documents, and
// knows nothing of how results are derived.
package archivetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/host"
	"loadstone/lab/host/speed"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/topology"
)

// Run is what to write. Every variant has as many trials as it has capacities.
type Run struct {
	Name        string
	Seed        uint64
	Started     time.Time
	Environment archive.Environment
	// Objective is the threshold on http_req_duration; empty for p(95)<200.
	Objective string
	// Rate is that of a load as written, in requests per second; 0 for a search of the
	// capacity. What came of it is up to 3 % off, as a random schedule is.
	Rate     float64
	Variants []Variant
	// Slowness is by how much the machine was slower than it can be in each trial, by its
	// index, 1 where it was not; none if that is not known.
	Slowness []float64
}

// Variant is one variant's truth.
type Variant struct {
	Name string
	// Capacities are those of its trials, by round, in requests per second. A
	// capacity of 0 is that of a trial in which no rate held.
	Capacities []float64
	Components []Component
	// Service is the mean response time at a low rate. With the rate it grows as
	// in a queue that is full at the capacity and a twentieth.
	Service time.Duration
	// Failed is how many requests failed in every measure.
	Failed uint64
	// GeneratorLimited makes the rejected try the generator's failure.
	GeneratorLimited bool
}

// Component is one service's truth.
type Component struct {
	Name      string
	Instances int
	CPUs      float64 // share of each instance; 0 if unlimited
	// Demand is CPU of the whole component for each request, at the mean of the
	// variant's capacities. In a trial that sustained less it is more, and the other
	// way round, as on a machine whose speed drifts.
	Demand time.Duration
	// Tilt is how much more than its share the first instance is given, 0 to
	// Instances−1.
	Tilt float64
}

// Write makes the run's directory below parent and returns its path.
func (p Run) Write(parent string) (string, error) {
	m := archive.Manifest{Experiment: p.Name, Seed: p.Seed, Started: p.Started, Environment: p.Environment}
	rounds := 0
	for _, v := range p.Variants {
		rounds = max(rounds, len(v.Capacities))
	}
	for round := range rounds {
		for _, v := range p.Variants {
			if round < len(v.Capacities) {
				m.Trials = append(m.Trials, archive.Planned{Index: len(m.Trials) + 1, Round: round + 1, Variant: v.Name})
			}
		}
	}
	d, err := archive.Create(parent, m, []byte(p.file(rounds)))
	if err != nil {
		return "", err
	}
	for _, planned := range m.Trials {
		i := slices.IndexFunc(p.Variants, func(v Variant) bool { return v.Name == planned.Variant })
		if err := p.trial(d, planned, p.Variants[i]); err != nil {
			return d.Path(), err
		}
	}
	return d.Path(), d.Complete(p.Started.Add(time.Duration(len(m.Trials)) * trialTime))
}

// file is the experiment file.
func (p Run) file(rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nsystem: compose.yaml\nentry: %s\nvariants:\n", p.Name, p.Variants[0].Components[0].Name)
	for _, v := range p.Variants {
		fmt.Fprintf(&b, "  %s: {}\n", v.Name)
	}
	objective := p.Objective
	if objective == "" {
		objective = "p(95)<200"
	}
	measure, offered := "capacity", ""
	if p.Rate > 0 {
		measure, offered = "load", fmt.Sprintf(", rate: %v/s, duration: 2s", p.Rate)
	}
	fmt.Fprintf(&b, "load: {scenarios: {s: {executor: constant-arrival-rate, request: GET /%s}}}\n"+
		"slo: {http_req_duration: [%q]}\nmeasure: %s\ntrials: %d\n", offered, objective, measure, rounds)
	return b.String()
}

const trialTime = 4 * time.Second

// trial offers load from second 1 to 3, and watches from 0 to 4.
func (p Run) trial(d *archive.Dir, planned archive.Planned, v Variant) error {
	dir, err := d.TrialDir(planned)
	if err != nil {
		return err
	}
	began := p.Started.Add(time.Duration(planned.Index-1) * trialTime)
	t := archive.Trial{Planned: planned, Started: began, Ended: began.Add(trialTime), LimitsEnforced: true}
	for _, c := range v.Components {
		for i := range c.Instances {
			t.Instances = append(t.Instances, topology.Instance{
				Service: c.Name, Index: i + 1, Name: instanceName(c, i), LimitCPUs: c.CPUs, Enforced: c.CPUs > 0,
			})
		}
	}
	if p.Slowness != nil {
		took := time.Duration(p.Slowness[planned.Index-1] * float64(2*time.Millisecond))
		reading := speed.Reading{At: began, Work: "the same", Computing: took, Memory: took, CPU: 16 * took, Wall: 20 * took}
		t.Speeds = []speed.Reading{reading, reading}
	}
	at := v.Capacities[planned.Round-1]
	tries := []capacity.Try{{Purpose: capacity.Search, Rate: 100, Reason: "too slow"}}
	if at > 0 {
		tries = []capacity.Try{
			{Purpose: capacity.Search, Rate: 0.7 * at, Held: true},
			{Purpose: capacity.Search, Rate: at, Held: true},
			{Purpose: capacity.Search, Rate: 1.04 * at, Reason: "too slow", GeneratorLimited: v.GeneratorLimited},
			{Purpose: capacity.Confirm, Rate: at, Held: true},
		}
	}
	if p.Rate > 0 {
		chance := 0.03 * math.Sin(float64(p.Seed)+float64(planned.Index))
		tries = []capacity.Try{{Purpose: archive.AsWritten, Rate: p.Rate * (1 + chance), Held: true}}
	}
	for _, try := range tries {
		m, err := measure(began, v, at, try)
		if err != nil {
			return err
		}
		t.Measures = append(t.Measures, m)
	}
	if err := watch(dir, began, v, at); err != nil {
		return err
	}
	return d.WriteTrial(t)
}

func instanceName(c Component, i int) string { return fmt.Sprintf("%s-%d", c.Name, i+1) }

func measure(began time.Time, v Variant, at float64, try capacity.Try) (archive.Measure, error) {
	mean := 1000 * v.Service.Seconds() / max(0.01, 1-try.Rate/(1.05*max(at, 1)))
	percentile := func(share float64) float64 { return -math.Log(1-share) * mean }
	h := load.NewHistogram()
	if err := h.RecordValues(int64(1000*percentile(0.95)), 1000); err != nil {
		return archive.Measure{}, fmt.Errorf("plant a latency of %.0f ms: %w", percentile(0.95), err)
	}
	text, err := load.EncodeHistogram(h)
	if err != nil {
		return archive.Measure{}, err
	}
	latency := load.Latency{P50: percentile(0.5), P95: percentile(0.95), P99: percentile(0.99), Max: percentile(0.9999), Histogram: text}
	n := uint64(2 * try.Rate)
	return archive.Measure{Kind: string(try.Purpose), Try: try, Result: load.Result{
		From: began.Add(time.Second), To: began.Add(3 * time.Second),
		Offered: n, Requests: n, Iterations: n, IterationsInTime: n, CompletedInTime: n, Failed: v.Failed,
		Response: latency, Service: latency,
	}}, nil
}

// watch writes what the probe would have seen at that rate.
func watch(dir string, began time.Time, v Variant, rate float64) error {
	samples, err := archive.CreateLines(dir, probe.SamplesFile)
	if err != nil {
		return err
	}
	slow := v.slowness(rate)
	for i := range 41 {
		s := float64(i) / 10
		sample := host.Sample{
			At: began.Add(time.Duration(s * 1e9)), MachineBusy: time.Duration(0.25 * s * 1e9), MachineTotal: time.Duration(2 * s * 1e9),
			Self: time.Duration(0.005 * s * 1e9),
		}
		for _, c := range v.Components {
			for j := range c.Instances {
				sample.Instances = append(sample.Instances, c.instance(j, s, rate*slow))
			}
		}
		if err := samples.Write(sample); err != nil {
			return err
		}
	}
	if err := samples.Close(); err != nil {
		return err
	}
	metrics, err := archive.CreateLines(dir, probe.MetricsFile)
	if err != nil {
		return err
	}
	return metrics.Close()
}

// slowness is by how much a trial of this capacity was slower than the mean one.
func (v Variant) slowness(at float64) float64 {
	sum, n := 0.0, 0.0
	for _, x := range v.Capacities {
		if x > 0 {
			sum, n = sum+x, n+1
		}
	}
	if !(at > 0) || n == 0 {
		return 1
	}
	return sum / n / at
}

// instance is what one instance used until a moment, at a rate of requests that
// cost what is planted.
func (c Component) instance(i int, seconds, rate float64) host.Instance {
	share := 1 / float64(c.Instances)
	if c.Instances > 1 {
		if i == 0 {
			share *= 1 + c.Tilt
		} else {
			share *= 1 - c.Tilt/float64(c.Instances-1)
		}
	}
	cpu := seconds * rate * share * c.Demand.Seconds()
	out := host.Instance{Name: instanceName(c, i), CPU: time.Duration(cpu * 1e9), Memory: 1 << 20}
	if c.CPUs > 0 {
		busy := cpu / (c.CPUs * max(seconds, 0.1))
		out.Periods = uint64(50 * seconds)
		out.Throttled = uint64(50 * seconds * max(0, 2*busy-1))
	}
	return out
}
