package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"loadstone/lab/experiment"
	"loadstone/lab/predict"
	"loadstone/lab/result"
)

type predictFlags struct {
	runs       string
	volumes    string
	variant    string
	set        []string
	topologies []string
	users      int
	think      time.Duration
	check      string
	trials     int
	json       bool
}

func (a *app) predictCommand() *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:     "predict RUN",
		GroupID: "lab",
		Short:   "Predict the capacity of a topology that was not run, from the service demands of a run",
		Long: `Predict a topology that was not run: its capacity under the run's SLO with an
interval, the bottleneck, the next bottleneck after it, and the utilisation of each
component. The prediction is computed from the CPU time per request that the run
measured of each component; what it assumes is printed with it.

--set changes the run's first variant, or that of --variant. For several topologies,
write each as a --topology; they are printed as a table. --check measures what was
predicted, in one new run together with the variants that it was predicted from, and
prints the errors of the predictions.

RUN is a run's directory, its name below runs/ or the beginning of it, latest, or
latest~1 for the one before.`,
		Example: `  loadstone predict latest --variant cached --set api.replicas=8 --set lb.cpus=1
  loadstone predict latest --users 500 --think 2s

  # check predictions: measure the topologies beside the variants they were predicted from
  loadstone predict latest --topology "cached: api.replicas=3, lb.cpus=0.4" \
    --topology "plain: api.replicas=2" --check experiment.yaml --trials 6

  # the same table from the run that the check made
  loadstone predict latest~1 --topology "cached: api.replicas=3, lb.cpus=0.4" \
    --topology "plain: api.replicas=2" --check latest`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeRuns(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(cmd.Flags().Changed); err != nil {
				return err
			}
			return a.predict(cmd.Context(), args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.runs, "runs", "runs", "directory in which runs are looked up by name; --check puts its run there")
	fl.StringVar(&f.volumes, "volumes", ".loadstone/volumes", "directory of named volumes, for --check")
	fl.StringVar(&f.variant, "variant", "", "the variant to change (default: the run's first)")
	fl.StringArrayVar(&f.set, "set", nil, "change a service: SERVICE.replicas=N or SERVICE.cpus=X; may be repeated")
	fl.StringArrayVar(&f.topologies, "topology", nil, "predict \"VARIANT: CHANGE, CHANGE\", with changes as in --set; may be repeated, for a table")
	fl.IntVar(&f.users, "users", 0, "predict for this many users who wait for each answer (closed model)")
	fl.DurationVar(&f.think, "think", 0, "think time of each user after an answer")
	fl.StringVar(&f.check, "check", "", "measure the predicted topologies: the run's experiment file, or a run that measured them before")
	fl.IntVar(&f.trials, "trials", 0, "trials of each topology for --check, instead of the experiment's")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	completing(cmd, "variant", completeRunVariants)
	return cmd
}

// validate looks for what cannot be meant.
func (f *predictFlags) validate(given func(string) bool) error {
	const mostUsers = 1_000_000
	switch {
	case given("users") && (f.users < 1 || f.users > mostUsers):
		return usagef("--users %d: write a number from 1 to %d", f.users, mostUsers)
	case given("think") && !given("users"):
		return usagef("--think is about users; say how many with --users")
	case f.think < 0:
		return usagef("--think %s: write a time of 0 or more", f.think)
	case given("trials") && !given("check"):
		return usagef("--trials is about --check; write both, or neither")
	case given("trials") && f.trials < 1:
		return usagef("--trials %d: write a number of at least 1", f.trials)
	}
	return f.validateChanges(given)
}

// validateChanges looks for what cannot be meant about what is changed.
func (f *predictFlags) validateChanges(given func(string) bool) error {
	switch {
	case given("topology") && given("set"):
		return usagef("--set is short for one topology; write all changes as --topology")
	case given("topology") && given("users"):
		return usagef("--users is about one topology; write --set in place of --topology")
	case given("check") && !given("topology") && !given("set"):
		return usagef("--check measures what is changed; write at least one --set or --topology")
	}
	return nil
}

func (a *app) predict(ctx context.Context, name string, f predictFlags) error {
	dir, res, err := a.readRun(f.runs, name)
	if err != nil {
		return err
	}
	if len(f.topologies) > 0 {
		return a.predictSeveral(ctx, dir, res, f)
	}
	system, err := predict.Of(res, filepath.Base(dir), f.variant)
	if errors.Is(err, predict.ErrVariant) {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	q := predict.Question{Users: f.users, Think: f.think.Seconds(), Seed: res.Seed}
	for _, text := range f.set {
		c, err := predict.ParseChange(text, system.Services())
		if err != nil {
			return usagef("--set %w", err)
		}
		q.Changes = append(q.Changes, c)
	}
	if err := predict.CheckChanges(q.Changes); err != nil {
		return usagef("--set: %w", err)
	}
	answer, err := system.Ask(q)
	if err != nil {
		return err
	}
	if f.check != "" {
		measured, where, names, err := a.measured(ctx, res, []predict.Topology{{Variant: system.Variant, Changes: q.Changes}}, f)
		if err != nil {
			return err
		}
		if err := answer.Against(measured, where, answer.Variant, names[0]); err != nil {
			return err
		}
	}
	if f.json {
		return a.printJSON(answer)
	}
	return predict.Text(a.Stdout, answer)
}

// readRun is what a run found, derived from its raw data.
func (a *app) readRun(runs, name string) (dir string, res *result.Result, err error) {
	if dir, err = a.findRun(runs, name); err != nil {
		return "", nil, err
	}
	if res, err = read(dir); err != nil {
		return "", nil, err
	}
	a.warnOfParts(filepath.Base(dir), res)
	return dir, res, nil
}

// predictSeveral predicts several topologies and prints a table.
func (a *app) predictSeveral(ctx context.Context, dir string, res *result.Result, f predictFlags) error {
	var topologies []predict.Topology
	for _, text := range f.topologies {
		t, err := predict.ParseTopology(text, res, f.variant)
		if errors.Is(err, predict.ErrTopology) || errors.Is(err, predict.ErrVariant) {
			return usagef("--topology: %w", err)
		}
		if err != nil {
			return err
		}
		topologies = append(topologies, t)
	}
	several, err := predict.AskSeveral(res, filepath.Base(dir), topologies)
	if errors.Is(err, predict.ErrTopology) {
		return usagef("--topology: %w", err)
	}
	if err != nil {
		return err
	}
	if f.check != "" {
		measured, where, names, err := a.measured(ctx, res, topologies, f)
		if err != nil {
			return err
		}
		if err := several.Against(measured, where, names); err != nil {
			return err
		}
	}
	if f.json {
		return a.printJSON(several)
	}
	return several.Text(a.Stdout)
}

// measured is what was measured of topologies beside the variants that they
// change, with the experiment as it was run: --check says only where its file
// lies, for the paths in it, or names the run that did this before. where is that
// run's name, and names those of the topologies in it.
func (a *app) measured(ctx context.Context, res *result.Result, ts []predict.Topology, f predictFlags) (measured *result.Result, where string, names []string, err error) {
	exp, err := experiment.Parse(f.check, []byte(res.Source))
	if err != nil {
		return nil, "", nil, err
	}
	text, names, err := predict.Experiment(exp, ts)
	if err != nil {
		return nil, "", nil, fmt.Errorf("--check: %w", err)
	}
	if info, err := os.Stat(f.check); err != nil || info.IsDir() {
		measured, where, err := a.measuredBefore(text, f)
		return measured, where, names, err
	}
	if exp, err = experiment.Parse(f.check, []byte(text)); err != nil {
		return nil, "", nil, fmt.Errorf("--check: the experiment with the changes is not valid: %w", err)
	}
	if exp.Seed = res.Seed; f.trials > 0 {
		exp.Trials = f.trials
	}
	// The report of the check is progress here; the prediction is the output.
	quiet := *a
	quiet.Stdout = a.Stderr
	measured, dir, err := quiet.conducted(ctx, exp, runFlags{runs: f.runs, volumes: f.volumes, driver: processDriver})
	return measured, filepath.Base(dir), names, err
}

// measuredBefore is a run that measured an experiment of this text.
func (a *app) measuredBefore(text string, f predictFlags) (*result.Result, string, error) {
	if f.trials > 0 {
		return nil, "", usagef("--trials is about measuring, and --check %s is no experiment file but the name of a run; leave it out, or write the path of the experiment file", f.check)
	}
	dir, res, err := a.readRun(f.runs, f.check)
	if isUsage(err) {
		return nil, "", usagef("--check is neither an experiment file nor a run: %w", err)
	}
	if err != nil {
		return nil, "", err
	}
	if res.Source != text {
		return nil, "", usagef("--check: run %s did not measure these topologies of this experiment; write those that it did in their order, or the path of the experiment file", filepath.Base(dir))
	}
	return res, filepath.Base(dir), nil
}
