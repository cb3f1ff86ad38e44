// Package runner carries out an experiment: it plans the trials, and for each
// of them has the system started, loaded, watched and stopped, and keeps the
// raw data. It decides the order of things and whether a rate was held; every
// single thing is done by the part that it belongs to. It derives no results.
package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"loadstone/lab/archive"
	"loadstone/lab/capacity"
	"loadstone/lab/driver"
	"loadstone/lab/experiment"
	"loadstone/lab/host"
	"loadstone/lab/host/speed"
	"loadstone/lab/load/generator"
	"loadstone/lab/topology"
)

// Config is what to run, and with what.
type Config struct {
	Experiment *experiment.Experiment
	// Variants are the names of those to run, in the experiment's order.
	Variants []string
	// RunsDir is where the run's directory is made; VolumesDir is where named
	// volumes live, by project as in Compose, unless the driver keeps them. They
	// outlast the run.
	RunsDir    string
	VolumesDir string
	// CPUsEach is the CPU limit of services that state none, in cores; 0 for none.
	CPUsEach float64
	// Env are the variables that Compose files may use.
	Env map[string]string

	// Driver runs the services.
	Driver driver.Driver
	// Generator is the command line of the load generator, and K6 that of the
	// user's own k6, which is needed if the load is a script.
	Generator []string
	// Generators are those of several machines, which share the load; none for Generator
	// alone.
	Generators []generator.Command
	// Cluster is how many generators are in the cluster that the driver uses, each on a node
	// of its own, and of which image; none for Generator or Generators.
	Cluster ClusterGenerators
	K6      string

	// Speed reads how fast the machine is that the services run on; nil if that is not this
	// one.
	Speed func() speed.Reading

	Version string // Loadstone's, for the record
	Events  Events
}

// ClusterGenerators are load generators in the cluster that the system is in.
type ClusterGenerators struct {
	Count int
	Image string // of this program
}

// Events tell what happens while it happens. Any of them may be nil. They are
// called one at a time and must not block.
type Events struct {
	// Planned is called once, with the trials to come and about how long each of
	// them will be under load. How long starting, seeding, settling and stopping
	// take besides is known to nobody before.
	Planned func(dir string, trials []archive.Planned, load []time.Duration)
	// TrialStarted and TrialEnded frame a trial. Doing says what is being done
	// within it, such as "starting seed" or "trying 1,200 req/s".
	TrialStarted func(archive.Planned)
	Doing        func(what string)
	TrialEnded   func(archive.Trial)
	// Perturbing is called where a trial goes on after its rate was found, because resources
	// are now changed under load, for so long at most. Doing says so too.
	Perturbing func(most time.Duration)
	Warning    func(text string)
}

func (e Events) perturbing(most time.Duration) {
	e.doingf("changing resources under load, for up to %.0f s", most.Seconds())
	if e.Perturbing != nil {
		e.Perturbing(most)
	}
}

func (e Events) doingf(format string, args ...any) {
	if e.Doing != nil {
		e.Doing(fmt.Sprintf(format, args...))
	}
}

// execution is one run under way.
type execution struct {
	Config
	systems map[string]*topology.System
	search  capacity.Config
	warned  []string
}

// Run conducts the experiment and returns the directory of the run. The
// directory is there, not whole, if the error came after the run began.
//
// Everything that can be checked is checked before anything starts: the
// experiment against the system, and every variant's system.
func Run(ctx context.Context, c Config) (dir string, err error) {
	k := &execution{Config: c, search: searchConfig(c.Experiment)}
	if err := k.check(ctx); err != nil {
		return "", err
	}
	trials := plan(c.Variants, c.Experiment.Trials, c.Experiment.Seed)
	started := time.Now()
	machine, warnings := c.Driver.Machine(ctx)
	awake, release := host.KeepAwake()
	defer release()
	machine.CoresAwake = awake
	env := archive.Environment{Machine: machine, Driver: c.Driver.Name(), Version: c.Version, Go: runtime.Version()}
	k.warn(warnings...)
	d, err := archive.Create(c.RunsDir, archive.Manifest{
		Experiment: c.Experiment.Name, Seed: c.Experiment.Seed, Started: started, Environment: env, Trials: trials, Warnings: k.warned,
	}, c.Experiment.Source())
	if err != nil {
		return "", fmt.Errorf("make the run's directory: %w", err)
	}
	if c.Events.Planned != nil {
		c.Events.Planned(d.Path(), trials, k.timesUnderLoad(trials))
	}
	for _, p := range trials {
		if err := k.trial(ctx, d, p); err != nil {
			return d.Path(), fmt.Errorf("trial %d (%s): %w", p.Index, p.Variant, err)
		}
	}
	return d.Path(), d.Complete(time.Now())
}

// check loads the system of every variant.
func (k *execution) check(ctx context.Context) error {
	exp := k.Experiment
	base, err := topology.Load(ctx, topology.Config{ComposeFiles: exp.SystemPaths(), Profiles: exp.Profiles, Env: k.Env, CPUsEach: k.CPUsEach})
	if err != nil {
		return errors.Join(k.mistakes(err, "system")...)
	}
	var names []string
	for _, s := range base.Services {
		names = append(names, s.Name)
	}
	if err := exp.CheckServices(names); err != nil {
		return err
	}
	k.systems = make(map[string]*topology.System)
	var errs []error
	for _, v := range exp.Variants {
		if !slices.Contains(k.Variants, v.Name) {
			continue
		}
		s, err := topology.Load(ctx, topology.Config{
			ComposeFiles: exp.SystemPaths(), Profiles: exp.Profiles, Overlay: v.Overlay, OverlayName: "variant " + v.Name, Env: k.Env, CPUsEach: k.CPUsEach,
		})
		if err != nil {
			errs = append(errs, k.mistakes(err, "variants", v.Name)...)
			continue
		}
		if err := errors.Join(k.Driver.Check(ctx, s), k.checkEntry(s)); err != nil {
			errs = append(errs, k.mistakes(err, "variants", v.Name)...)
			continue
		}
		if err := k.checkScaled(s); err != nil {
			errs = append(errs, k.mistakes(err, "variants", v.Name)...)
			continue
		}
		if err := k.checkFaults(ctx, v.Name, s); err != nil {
			errs = append(errs, err)
			continue
		}
		k.systems[v.Name] = s
		k.warn(s.Warnings...)
	}
	return errors.Join(once(errs)...)
}

// once leaves out the errors that say what one before them says: most mistakes of
// a Compose file are those of every variant.
func once(errs []error) []error {
	said := make(map[string]bool)
	return slices.DeleteFunc(errs, func(err error) bool {
		text := err.Error()
		before := said[text]
		said[text] = true
		return before
	})
}

func (k *execution) warn(texts ...string) {
	for _, w := range texts {
		if slices.Contains(k.warned, w) {
			continue
		}
		k.warned = append(k.warned, w)
		if k.Events.Warning != nil {
			k.Events.Warning(w)
		}
	}
}

// searchConfig is the search that the experiment asks for.
func searchConfig(e *experiment.Experiment) capacity.Config {
	c := capacity.DefaultConfig()
	c.Budget, c.Tolerance, c.MaxRate = e.Search.Budget, float64(e.Search.Tolerance), float64(e.Search.MaxRate)
	for _, v := range e.Variants {
		search, confirm := capacity.Requests(e.SLOOf(v.Name).Thresholds())
		c.MinRequests, c.Enough = max(c.MinRequests, search), max(c.Enough, confirm)
	}
	return c
}
