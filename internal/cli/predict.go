package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"loadstone/lab/analysis"
	"loadstone/lab/experiment"
	"loadstone/lab/predict"
	"loadstone/lab/report"
	"loadstone/lab/run"
)

type predictFlags struct {
	runs    string
	volumes string
	variant string
	set     []string
	users   int
	think   time.Duration
	check   string
	trials  int
	json    bool
}

func (a *app) predictCommand() *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:     "predict RUN",
		GroupID: "lab",
		Short:   "Say what a topology that was not run will bear, from the demands of a run",
		Long: `Say what a topology that was not run will bear: its capacity under the run's
objective with an interval, the component that will limit it, the next one after
that, and how busy the others will be. It is worked out from the CPU that each
component was seen to need for a request, and what that assumes is printed.

RUN is a run's directory, its name below runs/ or the beginning of it, latest, or
latest~1 for the one before.`,
		Example: `  loadstone predict latest --variant cached --set api.replicas=8 --set lb.cpus=1
  loadstone predict latest --users 500 --think 2s

  # is it true? measures the predicted topology beside the one it was predicted from
  loadstone predict latest --set api.replicas=3 --check experiment.yaml --trials 6`,
		Args: a.args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(cmd.Flags().Changed); err != nil {
				return err
			}
			return a.predict(cmd.Context(), args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.runs, "runs", "runs", "directory of runs that are given by name; --check puts its run there")
	fl.StringVar(&f.volumes, "volumes", ".loadstone/volumes", "directory of named volumes, for --check")
	fl.StringVar(&f.variant, "variant", "", "the variant to change, in place of the run's first")
	fl.StringArrayVar(&f.set, "set", nil, "change a service: SERVICE.replicas=N or SERVICE.cpus=X; may be repeated")
	fl.IntVar(&f.users, "users", 0, "say what so many users get who wait for each answer")
	fl.DurationVar(&f.think, "think", 0, "how long each of the users thinks after an answer")
	fl.StringVar(&f.check, "check", "", "measure the predicted topology too; the run's experiment file, for its place on disk")
	fl.IntVar(&f.trials, "trials", 0, "trials of each for --check, in place of the experiment's")
	fl.BoolVar(&f.json, "json", false, "print JSON")
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
	case given("check") && len(f.set) == 0:
		return usagef("--check measures what --set changes; write at least one --set")
	}
	return nil
}

func (a *app) predict(ctx context.Context, name string, f predictFlags) error {
	dir, err := findRun(f.runs, name)
	if err != nil {
		return err
	}
	r, err := run.Open(dir)
	if err != nil {
		return err
	}
	res, err := analysis.Derive(r)
	if err != nil {
		return err
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
		if err := a.checkPrediction(ctx, answer, res, q.Changes, f); err != nil {
			return err
		}
	}
	if f.json {
		return a.printJSON(answer)
	}
	return predict.Text(a.Stdout, answer)
}

// checkPrediction measures the predicted topology beside the one that it was
// predicted from, with the experiment as it was run: the file says only where it
// lies, for the paths in it.
func (a *app) checkPrediction(ctx context.Context, answer *predict.Answer, res *report.Result, cs []predict.Change, f predictFlags) error {
	exp, err := experiment.Parse(f.check, []byte(res.Source))
	if err != nil {
		return err
	}
	text, changed, err := predict.Experiment(exp, answer.Variant, cs)
	if err != nil {
		return fmt.Errorf("--check: %w", err)
	}
	if exp, err = experiment.Parse(f.check, []byte(text)); err != nil {
		return fmt.Errorf("--check: the experiment with the changes cannot be read: %w", err)
	}
	if exp.Seed = res.Seed; f.trials > 0 {
		exp.Trials = f.trials
	}
	// The report of the check is progress here; the prediction is the output.
	quiet := *a
	quiet.Stdout = a.Stderr
	measured, dir, err := quiet.conducted(ctx, exp, runFlags{runs: f.runs, volumes: f.volumes})
	if err != nil {
		return err
	}
	return answer.Against(measured, filepath.Base(dir), answer.Variant, changed)
}
