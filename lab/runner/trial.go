package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/driver"
	"loadstone/lab/experiment"
	"loadstone/lab/format"
	"loadstone/lab/host"
	"loadstone/lab/host/packets"
	"loadstone/lab/load"
	"loadstone/lab/load/generator"
	"loadstone/lab/load/k6"
	"loadstone/lab/probe"
	"loadstone/lab/threshold"
	"loadstone/lab/topology"
)

// trial runs one trial and keeps it.
func (k *execution) trial(ctx context.Context, d *archive.Dir, p archive.Planned) (err error) {
	if k.Events.TrialStarted != nil {
		k.Events.TrialStarted(p)
	}
	dir, err := d.TrialDir(p)
	if err != nil {
		return err
	}
	t := archive.Trial{Planned: p, Started: time.Now()}
	k.readSpeed(&t)
	if err := k.runTrial(ctx, dir, &t); err != nil {
		return err
	}
	k.readSpeed(&t)
	t.Ended = time.Now()
	if err := d.WriteTrial(t); err != nil {
		return fmt.Errorf("keep the trial: %w", err)
	}
	if k.Events.TrialEnded != nil {
		k.Events.TrialEnded(t)
	}
	return nil
}

// readSpeed keeps how fast the machine is, while nothing of the system runs.
func (k *execution) readSpeed(t *archive.Trial) {
	if k.Speed != nil {
		t.Speeds = append(t.Speeds, k.Speed())
	}
}

// runTrial has the system up for as long as the load runs. Down is on every
// way out, and gets a context of its own: a run that is being stopped still
// stops its services.
func (k *execution) runTrial(ctx context.Context, dir string, t *archive.Trial) (err error) {
	k.Events.doingf("starting")
	system := k.systems[t.Variant]
	up, err := k.Driver.Up(ctx, driver.Config{
		System: system, LogDir: filepath.Join(dir, "logs"),
		VolumeDir: filepath.Join(k.VolumesDir, system.Name), VolumePrefix: "loadstone-run-" + system.Name,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.Down(context.WithoutCancel(ctx))) }()
	t.Instances, t.Warnings = instancesOf(up), up.Warnings()
	t.LimitsEnforced = enforced(t.Instances)

	// An instance that ends by itself ends the trial.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	defer func() { cancel(nil); <-watching }()
	go func() {
		defer close(watching)
		select {
		case err := <-up.Failed():
			cancel(err)
		case <-ctx.Done():
		}
	}()
	if err := k.measure(ctx, dir, up, t); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	for _, w := range up.Warnings() {
		if !slices.Contains(t.Warnings, w) { // else it is from the start
			t.Warnings = append(t.Warnings, w)
		}
	}
	return nil
}

// instancesOf are a system's instances, unseen where there is no host that sees them.
func instancesOf(up driver.Running) []topology.Instance {
	all := up.Instances()
	if len(up.Hosts()) == 0 {
		for i := range all {
			all[i].Unseen = true
		}
	}
	return all
}

func enforced(instances []topology.Instance) bool {
	for _, in := range instances {
		if in.LimitCPUs > 0 && !in.Enforced {
			return false
		}
	}
	return true
}

// measure offers the load while the probe watches.
func (k *execution) measure(ctx context.Context, dir string, up driver.Running, t *archive.Trial) (err error) {
	generatorLog, err := os.Create(filepath.Join(dir, "logs", "generator.log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, generatorLog.Close()) }()
	windows, err := archive.CreateLines(dir, archive.WindowsFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, windows.Close()) }()
	asked, err := sources(k.systems[t.Variant], up.Instances)
	if err != nil {
		return err
	}
	defer closeAll(asked)
	others := outsiders(up.Hosts())
	var seen usage
	var blind unseen
	stopProbe, err := prober{dir, up, asked, &seen, &blind}.start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		t.Outsiders = others()
		err = errors.Join(err, stopProbe())
		t.Unseen = blind.why()
		addResources(asked, t)
	}()
	process, err := k.startGenerator(ctx, up, t, generatorLog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.Close()) }()

	m := &trialRun{execution: k, trial: t, dir: dir, up: up, seen: &seen, unseen: &blind, generator: process, windows: windows, log: generatorLog, base: k.Experiment.PlanOf(t.Variant)}
	m.base.Targets = targets(t.Instances, k.Experiment.Entry, k.Experiment.Load.Secure())
	if len(m.base.Targets) == 0 {
		return fmt.Errorf("service %s takes the load but publishes no port; give it `ports` or `expose` in the Compose file", k.Experiment.Entry)
	}
	if err := m.awaitAnswers(ctx); err != nil {
		return err
	}
	if k.Experiment.Measure == experiment.Capacity {
		return m.capacity(ctx)
	}
	return m.asWritten(ctx)
}

// generating is a running system that has load generators started where it is.
type generating interface {
	// Generators starts n of them, each on a machine of its own, which have files of this one.
	// They end with the system at the latest.
	Generators(ctx context.Context, image string, n int, files []string, log io.Writer) ([]generator.Link, error)
}

// startGenerator starts the load generator, or all that share the load.
func (k *execution) startGenerator(ctx context.Context, up driver.Running, t *archive.Trial, log io.Writer) (_ closingOfferer, err error) {
	var group *generator.Group
	switch in, ok := up.(generating); {
	case k.Cluster.Count > 0 && !ok:
		return nil, errors.New("the driver cannot start load generators where the system is")
	case k.Cluster.Count > 0:
		k.Events.doingf("starting %s", format.Plural(k.Cluster.Count, "load generator"))
		group, err = k.clusterGroup(ctx, in, t, log)
	case len(k.Generators) > 0:
		group, err = generator.StartGroup(ctx, k.Generators, log)
	default:
		return generator.Start(ctx, k.Generator, log)
	}
	if err != nil {
		return nil, err
	}
	t.Warnings = append(t.Warnings, group.Clocks()...)
	return group, nil
}

// clusterGroup starts generators where the system is, with what a variant's load is made with.
func (k *execution) clusterGroup(ctx context.Context, in generating, t *archive.Trial, log io.Writer) (*generator.Group, error) {
	plan := k.Experiment.PlanOf(t.Variant)
	files, err := generator.Files(&plan)
	if err != nil {
		return nil, err
	}
	links, err := in.Generators(ctx, k.Cluster.Image, k.Cluster.Count, files, log)
	if err != nil {
		return nil, err
	}
	return generator.Join(ctx, links)
}

// targets are the base URLs of the entry service's instances.
func targets(instances []topology.Instance, entry string, secure bool) []string {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	var out []string
	for _, in := range instances {
		if in.Service == entry && in.Port > 0 {
			out = append(out, scheme+net.JoinHostPort(in.Host, strconv.Itoa(in.Port)))
		}
	}
	return out
}

// prober watches a trial.
type prober struct {
	dir   string // of the trial
	up    driver.Running
	asked []*source
	seen  *usage
	blind *unseen
}

// start watches the instances, and asks the sources, until stop is called, which returns what
// went wrong.
func (p prober) start(ctx context.Context) (stop func() error, err error) {
	samples, err := archive.CreateLines(p.dir, probe.SamplesFile)
	if err != nil {
		return nil, err
	}
	metrics, err := archive.CreateLines(p.dir, probe.MetricsFile)
	if err != nil {
		return nil, errors.Join(err, samples.Close())
	}
	hops, err := archive.CreateLines(p.dir, probe.HopsFile)
	if err != nil {
		return nil, errors.Join(err, samples.Close(), metrics.Close())
	}
	c := probe.Config{Hosts: p.up.Hosts(), Interval: probe.DefaultInterval, MetricsInterval: probe.DefaultMetricsInterval, Sources: probed(p.asked)}
	c.Write = func(record any) error {
		switch r := record.(type) {
		case *host.Sample:
			p.seen.add(r)
			return samples.Write(r)
		case *packets.Slice:
			return hops.Write(r)
		}
		return metrics.Write(record)
	}
	c.Unseen = p.blind.say
	for _, in := range p.up.Instances() {
		if in.MetricsURL != "" {
			c.Endpoints = append(c.Endpoints, probe.Endpoint{Instance: in.Name, URL: func() string { return found(p.up.Instances(), in.Name).MetricsURL }})
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- probe.Run(ctx, c) }()
	return func() error {
		cancel()
		return errors.Join(<-done, samples.Close(), metrics.Close(), hops.Close())
	}, nil
}

// offerer is the load generator: it carries out one plan at a time.
type offerer interface {
	Run(ctx context.Context, p load.Plan, onWindow func(load.Window) (stop string)) (load.Result, error)
}

// closingOfferer is one that is to be closed.
type closingOfferer interface {
	offerer
	Close() error
}

// trialRun measures one trial.
type trialRun struct {
	*execution
	trial     *archive.Trial
	dir       string // of the trial
	up        driver.Running
	seen      *usage
	unseen    *unseen
	generator offerer
	windows   *archive.Lines
	log       io.Writer             // what the generator says
	base      load.Plan             // the experiment's, with targets
	offered   int                   // pieces of load so far, for their seeds
	onFirst   func(began time.Time) // nil if nobody wants to know when the load began
	alone     time.Duration         // what an iteration took with nothing else under way; 0 if none was tried
}

// slo is what the trial's variant must meet.
func (m *trialRun) slo() experiment.SLO { return m.Experiment.SLOOf(m.trial.Variant) }

// offer has the generator carry out a plan, keeps its windows, and says what
// became of the objectives.
func (m *trialRun) offer(ctx context.Context, kind string, p load.Plan, slo experiment.SLO) (*load.Result, []threshold.Outcome, error) {
	m.offered++
	p.Seed = m.seed()
	return m.observe(kind, slo, func(onWindow func(load.Window) string) (load.Result, error) {
		defer settle(ctx, m.trial.Instances)
		return m.generator.Run(ctx, p, onWindow)
	})
}

// script has k6 carry out the experiment's script.
func (m *trialRun) script(ctx context.Context) (*load.Result, []threshold.Outcome, error) {
	s := m.Experiment.Load.K6
	c := k6.Config{Binary: m.K6, Script: s.Script, Env: s.Env, Target: m.base.Targets[0], Log: m.log}
	if len(m.base.Targets) > 1 {
		m.trial.Warnings = append(m.trial.Warnings, fmt.Sprintf("k6 loads %s alone, the first of the entry service's %d instances; put a balancer in front and load that", c.Target, len(m.base.Targets)))
	}
	return m.observe(archive.AsWritten, m.slo(), func(onWindow func(load.Window) string) (load.Result, error) {
		defer settle(ctx, m.trial.Instances)
		report, err := k6.Run(ctx, c, onWindow)
		m.trial.Warnings = append(m.trial.Warnings, report.Notes...)
		if report.Failed != "" {
			m.trial.Warnings = append(m.trial.Warnings, "k6 itself says: "+report.Failed)
		}
		return report.Result, err
	})
}

// observe keeps the windows of a piece of load, and says what became of the
// objectives.
func (m *trialRun) observe(kind string, slo experiment.SLO, carryOut func(func(load.Window) string) (load.Result, error)) (*load.Result, []threshold.Outcome, error) {
	keep := m.windows.Write
	if m.onFirst != nil {
		keep = m.withStart(keep)
	}
	o := observer{keep: keep, watch: threshold.NewWatch(slo.Thresholds()), onWindows: slo.OnWindows(), hopeless: kind == archive.AsWritten}
	r, err := carryOut(o.window)
	if err = errors.Join(err, o.failed); err != nil {
		return nil, nil, fmt.Errorf("offer load (%s): %w", kind, err)
	}
	if o.gaveUp {
		return nil, nil, fmt.Errorf("every answer of the first %.0f s was a failure: %s; see the logs of the trial, or state expectedStatuses", o.seconds, r.Failures())
	}
	outcomes, err := o.watch.Outcomes(&r)
	if err != nil {
		return nil, nil, fmt.Errorf("judge load (%s): %w", kind, err)
	}
	return &r, outcomes, nil
}

// observer sees the windows of one piece of load.
type observer struct {
	keep      func(window any) error
	watch     *threshold.Watch
	onWindows bool // an objective has to see the windows
	failed    error

	// hopeless loads, of which nothing succeeds from the beginning, are given up.
	hopeless bool
	gaveUp   bool
	seconds  float64 // of windows in which requests ended
	requests uint64  // that have ended, of which good ones did not fail
	good     uint64
}

// A load that fails from its beginning is given up after so long and so many requests. A
// system that comes back after a fault has answered before, and is not given up.
const (
	hopelessAfter    = 10 // s
	hopelessRequests = 100
)

// window takes the next window, and says why the load is to end now, if it is.
func (o *observer) window(w load.Window) (stop string) {
	if o.failed != nil {
		return "the windows of the load cannot be kept or read" // the load's result is not used
	}
	if o.failed = o.keep(w); o.failed == nil && o.onWindows {
		stop, o.failed = o.watch.Add(w)
	}
	if w.Requests > 0 {
		o.seconds += w.Seconds
		o.requests += w.Requests
		o.good += w.Requests - min(w.Failed, w.Requests)
	}
	if o.hopeless && o.good == 0 && o.seconds >= hopelessAfter && o.requests >= hopelessRequests && stop == "" {
		o.gaveUp, stop = true, "nothing was answered as expected"
	}
	return stop
}

// seed differs for every piece of load of every trial, and follows from the
// run's.
func (m *trialRun) seed() uint64 {
	return m.Experiment.Seed + uint64(m.trial.Index)<<32 + uint64(m.offered)
}

func (m *trialRun) record(kind string, t capacity.Try, r *load.Result) {
	m.trial.Measures = append(m.trial.Measures, archive.Measure{Kind: kind, Try: t, Result: *r})
}

// asWritten drives the experiment's scenarios as they are, and carries out its
// faults meanwhile.
func (m *trialRun) asWritten(ctx context.Context) error {
	m.Events.doingf("offering the load as written")
	offer := func(ctx context.Context) (*load.Result, []threshold.Outcome, error) {
		return m.offer(ctx, archive.AsWritten, m.base, m.slo())
	}
	if m.Experiment.Load.K6 != nil {
		offer = m.script
	}
	if len(m.Experiment.Faults) > 0 {
		offer = m.underFaults(offer)
	}
	offer = m.whileScaled(offer)
	r, outcomes, err := offer(ctx)
	if err != nil {
		return err
	}
	m.record(archive.AsWritten, capacity.NewTry(r.OfferedRate(), r, outcomes), r)
	return nil
}
