package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"loadstone/lab/driver"
	"loadstone/lab/result"
	"loadstone/lab/runner"
	"loadstone/lab/selftest"
	"loadstone/lab/selftest/plant"
)

// mostSeeds bounds a self-test to about two weeks.
const mostSeeds = 1000

// selftestFlags are those of loadstone selftest.
type selftestFlags struct {
	quick, json, busy bool
	seed, seeds       uint64
	only              []string
	dir               string
}

func (a *app) selftestCommand() *cobra.Command {
	var f selftestFlags
	cmd := &cobra.Command{
		Use:     "selftest",
		GroupID: "lab",
		Short:   "Measure systems with known bottlenecks and check the verdicts",
		Long: `Measure systems with known bottlenecks and check the verdicts. Each system is a
Compose project of small real processes with one bottleneck: a service with too
little CPU, a pool, a lock, a hot partition, a slow replica, a queue, a pipeline, a
network, a cache, the load generator itself, two services equally, or none inside
the tested range; or with one of which a verdict has to say that it is undecided, and
where requests wait: slots, pools and locks that nobody declares, a disk, a service
outside the file. Each is measured as by 'loadstone run', and the verdict and the
result of each of its methods are compared with the known bottleneck.

Two more are measured if --only names them: same compares a variant with itself, and
tenth one with another that has 10 % more of the CPU that limits it. Each seed takes
three minutes; how often the variants were called different is printed.

The parameters of the systems depend on the seed, which is new for every self-test
unless it is given. The files of the systems, their runs and score.json are kept, so
that a wrong verdict can be investigated.

Nothing else should load the machine during the self-test; where that cannot be
helped, --busy tells wrong verdicts from disturbed ones.

Exit status:
   0  at least 11 of every 12 verdicts are right (with --quick, all four), and pairs
      leave it open that 5 % of equals are called different, and 80 % of the others
   1  fewer are right, or the self-test failed
   2  an error in the arguments`,
		Example: `  # all systems, in about 25 minutes
  loadstone selftest

  # four of them, in three to four minutes
  loadstone selftest --quick

  # one that had a wrong verdict, again with the same parameters
  loadstone selftest --only pool --seed 42

  # how often two variants are called different that are not, and that are
  loadstone selftest --only same,tenth --seeds 10

  # as JSON
  loadstone selftest --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("seed") {
				f.seed = rand.Uint64N(1_000_000)
			}
			return a.selftest(cmd.Context(), f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.quick, "quick", false, "only four of the systems")
	fl.BoolVar(&f.busy, "busy", false, "other programs use the machine: measure a wrong verdict again, twice at most, and leave it out if they are the reason")
	fl.BoolVar(&f.json, "json", false, "print the score as JSON")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of the systems' parameters (default: a new one)")
	fl.Uint64Var(&f.seeds, "seeds", 1, "how many seeds to plant each system with: this one and those that follow")
	fl.StringSliceVar(&f.only, "only", nil, "only these systems, comma separated")
	fl.StringVar(&f.dir, "runs", "runs", "directory that gets the self-test's directory")
	return cmd
}

// selftest runs the self-test and prints its score.
func (a *app) selftest(ctx context.Context, f selftestFlags) error {
	systems, err := f.systems()
	if err != nil {
		return err
	}
	if f.seeds < 1 || f.seeds > mostSeeds {
		return usagef("--seeds %d: write a number from 1 to %d", f.seeds, mostSeeds)
	}
	dir, err := filepath.Abs(filepath.Join(f.dir, fmt.Sprintf("%s-selftest-%d", time.Now().Format("20060102-150405"), f.seed)))
	if err != nil {
		return err
	}
	conducted := func(d driver.Driver) func(context.Context, string, string) (*result.Result, string, error) {
		return selftest.Conducted(runner.Config{Env: a.composeEnv(), Driver: d, Generator: a.generator(), Version: version})
	}
	of := len(systems) * int(f.seeds)
	fmt.Fprintf(a.Stderr, "selftest %s: %d systems, seed %d\n", dir, of, f.seed)
	score, err := selftest.Run(ctx, selftest.Config{
		Dir: dir, Seed: f.seed, Seeds: f.seeds, Systems: systems, Busy: f.busy,
		Measure: conducted(a.driver(processDriver, false, true)), Unlimited: conducted(a.unlimitedDriver()),
		Started: func(n int, p selftest.Planted) {
			fmt.Fprintf(a.Stderr, "%2d/%d  %-12s %s\n", n, of, p.Name, p.What)
		},
		Ended: func(n int, r selftest.Row) {
			fmt.Fprintf(a.Stderr, "%2d/%d  %-12s %s  (%.1f s)\n", n, of, r.Name, rowText(&r), r.Seconds)
		},
	})
	if err != nil {
		return err
	}
	if err := a.writeScore(dir, score, f.json); err != nil {
		return err
	}
	if !score.Passed {
		return exitStatusError(exitFailed)
	}
	return nil
}

// systems are those that the flags choose.
func (f *selftestFlags) systems() ([]selftest.Planted, error) {
	switch {
	case f.quick && len(f.only) > 0:
		return nil, usagef("--quick chooses the systems, and so does --only; write one of them")
	case f.quick:
		return selftest.Quick(), nil
	case len(f.only) > 0:
		systems, err := selftest.Choose(f.only)
		if err != nil {
			return nil, usagef("--only: %w", err)
		}
		return systems, nil
	}
	return selftest.Systems(), nil
}

func rowText(r *selftest.Row) string {
	switch {
	case r.Error != "":
		return "could not be measured: " + r.Error
	case r.Right():
		return "right: " + r.Verdict.Text
	case r.LeftOut:
		return fmt.Sprintf("left out: other programs used %.1f cores", r.Outside)
	}
	return fmt.Sprintf("WRONG: %s, expected %s", r.Verdict.Text, r.Truth)
}

// writeScore keeps the score beside the runs, and prints it.
func (a *app) writeScore(dir string, score *selftest.Score, asJSON bool) error {
	path := filepath.Join(dir, "score.json")
	form := selftest.WriteText
	if asJSON {
		form = selftest.WriteJSON
	}
	if err := errors.Join(selftest.WriteFile(path, score), form(a.Stdout, score)); err != nil {
		return fmt.Errorf("write the score: %w", err)
	}
	fmt.Fprintf(a.Stderr, "score %s\n", path)
	return nil
}

// plant runs one service of a planted system until ctx ends.
func (a *app) plant(ctx context.Context, text string) error {
	c, err := plant.Parse(text)
	if err != nil {
		return usageError{err}
	}
	s, err := plant.Listen(ctx, c)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
