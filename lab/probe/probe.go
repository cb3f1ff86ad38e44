// Package probe watches a system while load runs: CPU, memory and throttling
// of every instance from its control group (or from /proc, where it has none),
// the machine's cores, and the instances' Prometheus endpoints. What has no such
// endpoint and is asked in its own protocol comes from its Sources, which are in
// the packages below this one.
//
// It only collects: counters are written as they are read, and Over and package
// series turn them into figures for a span of time afterwards. Its own cost is
// collected with them.
package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"loadstone/lab/host/cgroup"
)

// The names of the files that Run writes into Config.Dir.
const (
	SamplesFile = "samples.jsonl"
	MetricsFile = "metrics.jsonl"
)

// Target is an instance to watch.
type Target struct {
	Name string // api-1
	// PID returns the id of its process as it is now; 0 while it is ended on
	// purpose. Another one than before is the instance started again.
	PID func() int
	// Group is the instance's control group; nil if it has none, and then
	// /proc is read, in steps of 10 ms and for its first process only.
	Group *cgroup.Group
	// MetricsURL is its Prometheus endpoint; empty if it has none.
	MetricsURL string
}

// Config says what to watch and how often.
type Config struct {
	Targets []Target
	// Sources are asked once a second each.
	Sources []Source
	// Interval is the time between samples of CPU and memory; MetricsInterval
	// that between scrapes of one endpoint, if there are no more than a few: of more
	// each is scraped less often, so that watching a large system costs no more.
	Interval        time.Duration
	MetricsInterval time.Duration
	// Write keeps one record, a *Sample or a *Scrape. Calls do not overlap.
	Write func(any) error
}

// Default intervals: ten samples a second cost a fraction of a percent of a
// core. A scrape also costs the instance that answers it (about half a
// millisecond of CPU for a Go service), so those are fewer.
const (
	DefaultInterval        = 100 * time.Millisecond
	DefaultMetricsInterval = 250 * time.Millisecond
)

// fewEndpoints is how many are scraped at MetricsInterval each.
const fewEndpoints = 4

// metricsInterval is that of one of so many endpoints.
func (c Config) metricsInterval(endpoints int) time.Duration {
	return c.MetricsInterval * time.Duration(max(endpoints, fewEndpoints)) / fewEndpoints
}

// Sample is what every instance had used at one moment. All figures but
// Memory are counters that only grow; spans are differences.
type Sample struct {
	At        time.Time  `json:"t"`
	Instances []Instance `json:"i"`
	// MachineBusy and MachineTotal are CPU time over all cores: not idle, and
	// in all. Time that the hypervisor gave to others counts as busy.
	MachineBusy  time.Duration `json:"mb"`
	MachineTotal time.Duration `json:"mt"`
	// Self is the CPU time of the process that watches.
	Self time.Duration `json:"self"`
	// Slow is nil in all samples but one a second.
	Slow *Slow `json:"slow,omitempty"`
}

// Instance is one instance in a Sample.
type Instance struct {
	Name      string        `json:"n"`
	CPU       time.Duration `json:"c"`
	User      time.Duration `json:"u"`
	System    time.Duration `json:"s"`
	Periods   uint64        `json:"p"`
	Throttled uint64        `json:"h"` // periods in which it was throttled
	Stalled   time.Duration `json:"w"` // how long it stood still for that
	Memory    uint64        `json:"m"` // bytes
	OOMKills  uint64        `json:"o,omitempty"`
}

// Run watches until ctx ends and returns nil then. A target that cannot be
// read is an error; a scrape that fails is not, it is only missing.
func Run(ctx context.Context, c Config) error {
	records := make(chan any, 64) // full only if the disk stalls; then sampling waits
	g, ctx := errgroup.WithContext(ctx)
	readers, readersCtx := errgroup.WithContext(ctx)
	readers.Go(func() error { return c.sample(readersCtx, records) })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}}
	var scraped []Target
	for _, t := range c.Targets {
		if t.MetricsURL != "" {
			scraped = append(scraped, t)
		}
	}
	every := c.metricsInterval(len(scraped))
	for _, t := range scraped {
		readers.Go(func() error { return scrape(readersCtx, client, t, every, records) })
	}
	for _, s := range c.Sources {
		readers.Go(func() error { return ask(readersCtx, s, records) })
	}
	g.Go(func() error {
		defer close(records)
		defer client.CloseIdleConnections()
		return readers.Wait()
	})
	var failed error
	for r := range records {
		if failed == nil {
			failed = c.Write(r)
		}
	}
	return errors.Join(g.Wait(), failed)
}

// sample takes samples on its own thread, so that a scrape cannot delay them.
func (c Config) sample(ctx context.Context, records chan<- any) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	machine, err := os.Open("/proc/stat")
	if err != nil {
		return fmt.Errorf("watch the machine: %w", err)
	}
	defer machine.Close() //nolint:errcheck // read only
	readers, slow := make([]reader, len(c.Targets)), make([]slowReader, len(c.Targets))
	for i, t := range c.Targets {
		readers[i].target, slow[i].target = t, t
	}
	var looked time.Time
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for {
		s, err := take(readers, machine)
		if err != nil {
			return err
		}
		if s.At.Sub(looked) >= slowInterval {
			looked, s.Slow = s.At, takeSlow(slow)
		}
		select {
		case records <- s:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func take(readers []reader, machine *os.File) (*Sample, error) {
	s := &Sample{At: time.Now(), Instances: make([]Instance, len(readers))}
	for i := range readers {
		var err error
		if s.Instances[i], err = readers[i].read(); err != nil {
			return nil, fmt.Errorf("watch %s: %w", readers[i].target.Name, err)
		}
	}
	var err error
	if s.MachineBusy, s.MachineTotal, err = machineCPU(machine); err != nil {
		return nil, fmt.Errorf("watch the machine: %w", err)
	}
	s.Self, err = selfCPU()
	return s, err
}

// reader reads one target. A control group counts on when its instance is
// started again; a process does not, so what earlier ones used is kept.
type reader struct {
	target  Target
	pid     int      // of the process that was read last; 0 before the first
	latest  Instance // of that process
	earlier Instance // what those before it used
}

func (r *reader) read() (Instance, error) {
	if r.target.Group == nil {
		return r.process()
	}
	var st cgroup.Stat
	if err := r.target.Group.Read(&st); err != nil {
		return Instance{}, err
	}
	return Instance{
		Name: r.target.Name, CPU: st.CPU, User: st.User, System: st.System,
		Periods: st.Periods, Throttled: st.ThrottledPeriods, Stalled: st.Throttled,
		Memory: st.Memory, OOMKills: st.OOMKills,
	}, nil
}

func (r *reader) process() (Instance, error) {
	pid := r.target.PID()
	if pid != r.pid {
		r.earlier.CPU += r.latest.CPU
		r.earlier.User += r.latest.User
		r.earlier.System += r.latest.System
		r.pid, r.latest = pid, Instance{}
	}
	if pid != 0 {
		in, err := readProcess(pid)
		switch {
		case err == nil:
			r.latest = in
		case gone(err) && r.target.PID() != pid:
			r.latest.Memory = 0 // it was ended on purpose just now
		default:
			return Instance{}, err
		}
	}
	sum := r.latest
	sum.Name = r.target.Name
	sum.CPU += r.earlier.CPU
	sum.User += r.earlier.User
	sum.System += r.earlier.System
	return sum, nil
}

func scrape(ctx context.Context, client *http.Client, t Target, every time.Duration, records chan<- any) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if values, err := Fetch(ctx, client, t.MetricsURL); err == nil {
			select {
			case records <- &Scrape{At: time.Now(), Instance: t.Name, Values: values}:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func selfCPU() (time.Duration, error) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0, fmt.Errorf("own CPU time: %w", err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), nil
}
