package analysis

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"loadstone/lab/archive"
	"loadstone/lab/host"
	"loadstone/lab/load"
	"loadstone/lab/probe"
	"loadstone/lab/topology"
)

// uses is what an instance uses in each second.
type uses struct {
	cpu, user, throttled, delay float64 // both CPU in cores; periods of 50; seconds
	stall                       float64 // seconds
	fails, faults               float64
	read, wrote                 float64 // bytes
	memory                      uint64  // at most
	served                      float64 // requests
	kills                       uint64  // in the measured part
}

// The hotter of the two is not the one that memory is short of.
var (
	hot  = uses{cpu: 0.24, user: 0.18, throttled: 40, delay: 0.48, stall: 0.1, fails: 2, faults: 20, read: 1000, wrote: 500, memory: 100 << 20, served: 1100, kills: 1}
	cool = uses{cpu: 0.05, user: 0.04, throttled: 5, delay: 0.2, stall: 0.15, fails: 7, faults: 50, read: 300, wrote: 200, memory: 200 << 20, served: 400, kills: 2}
)

// unequal rewrites what the probe saw in all trials of a run: two instances that used
// so much, on a machine that is six tenths busy, with six connections a second turned
// away. Before and after the measured part, from second 1 to 3, it is quiet.
func unequal(t *testing.T, r *archive.Run, instances ...uses) {
	t.Helper()
	for _, trial := range r.Trials {
		dir := r.TrialDir(trial.Planned)
		samples, err := archive.CreateLines(dir, probe.SamplesFile)
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := archive.CreateLines(dir, probe.MetricsFile)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 41 {
			at := float64(i) / 10
			s := min(max(at-1, 0), 2) // seconds of load so far
			sample := host.Sample{At: began.Add(seconds(at)), MachineBusy: seconds(1.2 * s), MachineTotal: seconds(2 * at)}
			if i%10 == 0 {
				sample.Slow = &host.Slow{ListenOverflows: uint64(6 * s)}
			}
			for j, u := range instances {
				in := host.Instance{
					Name: trial.Instances[j].Name, CPU: seconds(u.cpu * s), User: seconds(u.user * s), System: seconds((u.cpu - u.user) * s),
					Periods: uint64(math.Round(50 * at)), Throttled: uint64(math.Round(u.throttled * s)), Memory: u.memory,
				}
				if s > 1 {
					in.OOMKills = u.kills
				}
				sample.Instances = append(sample.Instances, in)
				if sample.Slow != nil {
					sample.Slow.Instances = append(sample.Slow.Instances, host.SlowInstance{
						RunDelay: seconds(u.delay * s), MemoryStall: seconds(u.stall * s), MemoryFails: uint64(u.fails * s),
						MajorFaults: uint64(u.faults * s), DiskRead: uint64(u.read * s), DiskWritten: uint64(u.wrote * s),
					})
				}
				scrape := probe.Scrape{At: sample.At, Instance: in.Name, Values: map[string]float64{"served_total": u.served * s}}
				if err := metrics.Write(scrape); err != nil {
					t.Fatal(err)
				}
			}
			if err := samples.Write(sample); err != nil {
				t.Fatal(err)
			}
		}
		if err := samples.Close(); err != nil {
			t.Fatal(err)
		}
		if err := metrics.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// Of two unequal instances, in either order: CPU is judged by the hottest, memory by
// the one that is worst off, and what the component did is that of both.
func TestDeriveJoinsUnequalInstances(t *testing.T) {
	t.Parallel()
	served := topology.Resource{Kind: topology.Requests, Done: "served_total"}
	v := planted{capacity: 1000, demand: 50 * time.Microsecond, instances: 2, resources: []topology.Resource{served}}
	for name, instances := range map[string][]uses{"the hot one first": {hot, cool}, "the hot one last": {cool, hot}} {
		r := write(t, map[string]planted{"one": v, "two": v})
		unequal(t, r, instances...)
		res, err := Derive(r)
		if err != nil {
			t.Fatal(err)
		}
		one := res.Variants[0]
		if len(one.Components) != 1 || !slices.Equal(one.Warnings, []string{"something other than this run used 0.9 cores meanwhile: stop it and repeat"}) {
			t.Fatalf("%s: components %+v, warnings %q", name, one.Components, one.Warnings)
		}
		c := one.Components[0]
		for what, f := range map[string][2]float64{
			"instances":          {float64(c.Instances), 2},
			"busy":               {c.Busy, 0.24 / 0.25},
			"bound":              {c.Bound, 1000 * 0.25 / 0.24},
			"trials of bound":    {float64(c.BoundTrials), 2},
			"throttled":          {c.Throttled, 40.0 / 50},
			"run delay":          {c.RunDelay, 0.48 / 0.24},
			"demand":             {c.DemandMS, 0.29},
			"of the hottest":     {c.HottestMS, 0.24},
			"in user mode":       {c.UserMS, 0.22},
			"in the kernel":      {c.SystemMS, 0.07},
			"memory":             {float64(c.MemoryBytes), 200 << 20},
			"memory stall":       {c.MemoryStall, 0.15},
			"memory fails":       {c.MemoryFails, 7},
			"major faults":       {c.MajorFaults, 50},
			"killed for memory":  {float64(c.OOMKills), 2},
			"disk":               {c.DiskBytes, 2000},
			"visits":             {c.Visits, 1.5},
			"machine busy":       {one.Conditions.MachineBusy, 0.6},
			"throughput offered": {one.Rate, 1000},
		} {
			if !near(f[0], f[1], 0.01) {
				t.Errorf("%s: %s is %v, want %v", name, what, f[0], f[1])
			}
		}
		const away = "6 connections a second were turned away by full backlogs"
		if w := one.Verdict.Witnesses[1]; !strings.Contains(w.Evidence, away) {
			t.Errorf("%s: saturation says %q, want %q", name, w.Evidence, away)
		}
	}
}

// Where no rate held, others on the machine are a reason that must be told.
func TestDisturbedAttemptsAreTold(t *testing.T) {
	t.Parallel()
	v := planted{capacity: 1000, demand: 50 * time.Microsecond, instances: 2}
	for _, others := range []bool{true, false} {
		r := write(t, map[string]planted{"one": v, "two": v})
		for i := range r.Trials {
			r.Trials[i].Outsiders = []host.Process{{PID: 4711, Name: "make", Cores: 0.8}}
			for j := range r.Trials[i].Measures {
				r.Trials[i].Measures[j].Held = false
			}
		}
		if others {
			unequal(t, r, hot, cool)
		}
		res, err := Derive(r)
		if err != nil {
			t.Fatal(err)
		}
		one := res.Variants[0]
		if told := slices.Contains(one.Warnings, "something other than this run used 0.9 cores meanwhile, mostly make (process 4711): stop it and repeat"); told != others || one.Conditions != nil {
			t.Errorf("others ran: %v, warnings %q, conditions %v; want none of capacity", others, one.Warnings, one.Conditions)
		}
	}
}

// An objective that one of two trials met is not met.
func TestAnObjectiveIsMetByMostTrials(t *testing.T) {
	t.Parallel()
	v := planted{capacity: 4800, demand: 50 * time.Microsecond, instances: 1}
	r := write(t, map[string]planted{"one": v, "two": v})
	h := load.NewHistogram()
	if err := h.RecordValues(300_000, 1000); err != nil {
		t.Fatal(err)
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Trials {
		if r.Trials[i].Variant != "one" || r.Trials[i].Round != 2 {
			continue
		}
		for j := range r.Trials[i].Measures {
			r.Trials[i].Measures[j].Result.Response = load.Latency{P50: 300, P95: 300, P99: 300, Max: 300, Histogram: string(text)}
		}
	}
	res, err := Derive(r)
	if err != nil {
		t.Fatal(err)
	}
	if one, two := res.Variants[0].SLO[0], res.Variants[1].SLO[0]; one.Met || !two.Met {
		t.Errorf("met by one of two trials: %+v; by both: %+v; want the second alone met", one, two)
	}
}
