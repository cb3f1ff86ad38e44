package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadstone/block/spelling"
	"loadstone/lab/archive"
	"loadstone/lab/driver/attach"
	"loadstone/lab/driver/kubernetes"
	"loadstone/lab/experiment"
	"loadstone/lab/host/speed"
	"loadstone/lab/load/generator"
	"loadstone/lab/load/k6"
	"loadstone/lab/report"
	"loadstone/lab/result"
	"loadstone/lab/runner"
	"loadstone/lab/topology"
)

type runFlags struct {
	runs     string
	volumes  string
	variants []string
	driver   string
	junit    string
	cpusEach float64
	mayLimit []string
	sharers  []string
	check    bool
}

const runExamples = `  loadstone run experiment.yaml   # loadstone init writes a first one

  # what would be run, and how long it takes; nothing is started
  loadstone run experiment.yaml --check

  # a quick look: two of its variants, one trial each (without intervals)
  loadstone run experiment.yaml --variants one,three --trials 1

  # a Compose file whose services have no CPU limits: a quarter of a core for each
  loadstone run experiment.yaml --cpus-each 0.25

  # in containers, as in production; missing images are pulled
  loadstone run experiment.yaml --driver docker

  # a system that runs already, at the x-addresses of its services; the CPU limit of api
  # may be changed under load, and is restored
  loadstone run experiment.yaml --driver attach --may-limit api

  # load from two other machines, which have loadstone on the PATH
  loadstone run experiment.yaml --driver attach --generators ssh://a,ssh://b

  # as pods of a cluster, with load from two of its nodes
  loadstone run experiment.yaml --driver kubernetes --generators kubernetes://2`

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	var trials int
	var seed uint64
	cmd := &cobra.Command{
		Use:     "run EXPERIMENT.yaml",
		GroupID: "lab",
		Short:   "Run an experiment: load each variant, say what limits it, compare them",
		Long: `Run an experiment and report it. A variant is the system as its Compose file has it,
or with a change. A trial starts one variant afresh, loads it, monitors its services
and stops it; variants take turns. After the last trial the capacity of each variant,
what limits it, and what the changes bring are printed, and written to the run's
directory as report.html and result.json.

If the run is stopped (Ctrl-C) or a trial fails, the report covers the completed
trials and is marked as partial.

Exit status:
   0  every objective (slo) was met
   1  the run failed or was stopped
   2  an error in the arguments or in the experiment file
  99  an objective was not met, or no rate met all of them`,
		Example:           runExamples,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeExperiments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.checkDriver(); err != nil {
				return err
			}
			exp, err := experiment.Load(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("trials") {
				if exp.Trials = trials; trials < 1 {
					return usagef("--trials %d: write a number of at least 1", trials)
				}
			}
			if cmd.Flags().Changed("seed") {
				exp.Seed = seed
			}
			if cmd.Flags().Changed("cpus-each") && !(f.cpusEach >= leastCPUs && f.cpusEach <= mostCPUs) {
				return usagef("--cpus-each %v is no share of the machine; write a number of cores such as 0.25", f.cpusEach)
			}
			if f.check {
				return a.checkRun(cmd.Context(), exp, f)
			}
			return a.run(cmd.Context(), exp, f)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&trials, "trials", 0, "trials of each variant, instead of the experiment's")
	fl.Uint64Var(&seed, "seed", 0, "seed of arrival times, feeds and the order of trials, instead of the experiment's")
	fl.StringVar(&f.runs, "runs", "runs", "directory in which each run makes its own")
	fl.StringVar(&f.volumes, "volumes", ".loadstone/volumes", "directory in which named volumes are kept between runs (Docker keeps them itself, as loadstone-run-…; a cluster keeps none)")
	fl.StringSliceVar(&f.variants, "variants", nil, "only these variants, comma separated")
	fl.BoolVar(&f.check, "check", false, "start nothing: check all files and print what would be run, with times")
	fl.Float64Var(&f.cpusEach, "cpus-each", 0, "CPU limit, in cores, of each service that states none, such as 0.25")
	completing(cmd, "variants", completeVariants)
	fl.StringVar(&f.junit, "junit", "", "write whether each variant met its objectives to this file, as JUnit XML for CI")
	f.whereFlags(cmd)
	return cmd
}

// whereFlags adds the flags that say where the system and the load run.
func (f *runFlags) whereFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVar(&f.sharers, "generators", nil, "where the load comes from, if not from this machine alone: a list of ssh://MACHINE and local, or kubernetes://N for N nodes of the cluster")
	fl.StringSliceVar(&f.mayLimit, "may-limit", nil, "with --driver attach, services whose CPU limits may be changed under load; they are restored")
	driverFlag(cmd, &f.driver, runDrivers())
}

// checkDriver checks the driver and the flag that is for one of them.
func (f *runFlags) checkDriver() error {
	if err := checkDriver(f.driver, runDrivers()); err != nil {
		return err
	}
	if len(f.mayLimit) > 0 && f.driver != attachDriver {
		return usagef("--may-limit: it is for --driver %s; other drivers limit what they have started", attachDriver)
	}
	return nil
}

// The least and the most cores that --cpus-each can be.
const (
	leastCPUs = 0.001
	mostCPUs  = 1024
)

// run conducts an experiment and reports it.
func (a *app) run(ctx context.Context, exp *experiment.Experiment, f runFlags) error {
	junit, err := beginJUnit(f.junit)
	if err != nil {
		return err
	}
	res, _, err := a.conducted(ctx, exp, f)
	if err != nil {
		return errors.Join(err, junit.discard())
	}
	if err := junit.write(func(w io.Writer) error { return report.JUnit(w, res) }); err != nil {
		return err
	}
	return status(res)
}

// conducted conducts an experiment, writes its report, and returns the result
// and the run's directory.
func (a *app) conducted(ctx context.Context, exp *experiment.Experiment, f runFlags) (res *result.Result, dir string, err error) {
	c, err := a.runConfig(ctx, exp, f)
	if err != nil {
		return nil, dir, err
	}
	a.sayWhere(c.Driver)
	p := newProgress(a.Stderr, a.Terminal)
	c.Events = p.events()
	planned := c.Events.Planned
	c.Events.Planned = func(dir string, trials []archive.Planned, load []time.Duration) {
		for _, note := range exp.Notes(len(c.Variants)) { // once it is known that nothing is wrong
			p.warning(note)
		}
		planned(dir, trials, load)
	}
	dir, err = runner.Run(ctx, c)
	p.close()
	if err != nil {
		return nil, dir, a.partly(ctx, dir, err)
	}
	res, err = a.writeReport(dir)
	return res, dir, err
}

// runConfig is what a run needs, checked as far as it can be without the system.
func (a *app) runConfig(ctx context.Context, exp *experiment.Experiment, f runFlags) (c runner.Config, err error) {
	c = runner.Config{
		Experiment: exp, RunsDir: f.runs, Env: a.composeEnv(), CPUsEach: f.cpusEach,
		Driver: a.runDriver(f), Generator: a.generator(), Version: version,
	}
	if f.driver == processDriver || f.driver == dockerDriver { // which run systems on this machine
		c.Speed = speed.Read
	}
	if err := a.shareLoad(&c, f.sharers, f.driver); err != nil {
		return c, err
	}
	// Of no system, so only whether there is what the driver itself needs.
	if err := c.Driver.Check(ctx, &topology.System{}); err != nil {
		return c, usageError{err}
	}
	if in, ok := c.Driver.(kubernetes.Driver); ok && c.Cluster.Count > 0 {
		if err := in.CheckGenerators(ctx, c.Cluster.Count); err != nil {
			return c, usagef("--generators %s: %v", f.sharers[0], err)
		}
	}
	if c.VolumesDir, err = filepath.Abs(f.volumes); err != nil {
		return c, err
	}
	if exp.Load.K6 != nil && len(f.sharers) > 0 {
		return c, usagef("--generators: a k6 script is not shared; leave one of the two out")
	}
	if exp.Load.K6 != nil {
		if c.K6, err = k6.Find(exec.LookPath); err != nil {
			return c, err
		}
	}
	c.Variants, err = chosen(exp, f.variants)
	return c, err
}

// chosen are the variants to run, in the experiment's order.
func chosen(exp *experiment.Experiment, names []string) ([]string, error) {
	all := exp.VariantNames()
	for _, n := range names {
		if !slices.Contains(all, n) {
			return nil, usagef("--variants: the experiment has no variant %q; %s", n, spelling.ChooseName(n, all))
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(names, name) }), nil
}

// status is the exit status that the result calls for.
func status(res *result.Result) error {
	for _, v := range res.Variants {
		if v.Capacity != nil && v.Capacity.Value <= 0 {
			return exitStatusError(exitCrossed)
		}
		for _, o := range v.SLO {
			if !o.Met {
				return exitStatusError(exitCrossed)
			}
		}
	}
	return nil
}

// composeEnv are the variables that a Compose file may use: those of this
// process, as with docker compose.
func (a *app) composeEnv() map[string]string {
	env := make(map[string]string)
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return env
}

// clusterScheme begins the generators that are pods of the cluster that the system is in.
const clusterScheme = "kubernetes://"

// shareLoad says where the load comes from: local, ssh://MACHINE, or, alone, kubernetes://N.
func (a *app) shareLoad(c *runner.Config, names []string, driver string) error {
	for _, name := range names {
		machine, remote := strings.CutPrefix(name, "ssh://")
		switch {
		case name == "local":
			c.Generators = append(c.Generators, generator.Command{Name: name, Argv: a.generator()})
		case strings.HasPrefix(name, clusterScheme):
			if len(names) > 1 {
				return usagef("--generators %s: generators in the cluster share the load with no others; write it alone", name)
			}
			return clusterGenerators(c, name, driver)
		case !remote || machine == "" || strings.HasPrefix(machine, "-"):
			return usagef("--generators %s: write ssh://MACHINE, local for this one, or kubernetes://N for N nodes of the cluster", name)
		case driver == processDriver:
			return usagef("--generators %s: local processes have addresses of this machine alone; write --driver attach, for a system that other machines reach", name)
		default:
			argv := append(attach.DefaultRemoteShell(), machine, "loadstone", internalName, generatorName)
			c.Generators = append(c.Generators, generator.Command{Name: machine, Argv: argv})
		}
	}
	return nil
}

// clusterGenerators reads kubernetes://N or kubernetes://N/IMAGE.
func clusterGenerators(c *runner.Config, name, driver string) error {
	count, image, named := strings.Cut(strings.TrimPrefix(name, clusterScheme), "/")
	if !named {
		image = topology.Self
	}
	n, err := strconv.Atoi(count)
	switch {
	case err != nil || n < 1 || n > mostClusterGenerators || image == "":
		return usagef("--generators %s: write kubernetes://N for generators on N nodes of the cluster (1 to %d), or kubernetes://N/IMAGE if the image of this program is called otherwise there than %s", name, mostClusterGenerators, topology.Self)
	case driver != kubernetesDriver:
		return usagef("--generators %s: only with --driver %s is the system in a cluster", name, kubernetesDriver)
	}
	c.Cluster = runner.ClusterGenerators{Count: n, Image: image}
	for _, variant := range c.Experiment.VariantNames() {
		plan := c.Experiment.PlanOf(variant)
		files, err := generator.Files(&plan)
		if err == nil {
			err = kubernetes.CheckFiles(files)
		}
		if err != nil {
			return usagef("--generators %s: %v", name, err)
		}
	}
	return nil
}

// mostClusterGenerators bounds how many generators share a load: each is asked and heard every second.
const mostClusterGenerators = 100

// generator is the command line of the load generator.
func (a *app) generator() []string { return []string{a.Executable, internalName, generatorName} }
