package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"loadstone/block/spelling"
	"loadstone/lab/analysis"
	"loadstone/lab/archive"
	"loadstone/lab/compare"
	"loadstone/lab/predict"
	"loadstone/lab/result"
)

type compareFlags struct {
	runs       string
	json       bool
	markdown   bool
	relative   bool
	failWorse  string
	failShare  float64
	failAsked  bool
	variants   []string
	byVariant  map[string]string
	scaling    string
	scalingSet bool
}

func (a *app) compareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:     "compare RUN [RUN]",
		GroupID: "lab",
		Short:   "Show what changed between two runs, or between the variants of one, and whether it is significant",
		Long: `Show what changed from the first run to the second, or how the variants of one run
differ: capacity, response time at a rate offered to both, CPU per request and
failures, each with the ratio, its interval and the p-value of an exact test,
corrected for the number of comparisons. "~" means that no difference was found.

Figures are compared as measured. If both runs have the same first variant,
--relative divides each figure by that of its own run's first variant before the runs
are compared, so that a faster machine makes no difference.

RUN is a run's directory, its name below runs/ or the beginning of it, latest, or
latest~1 for the one before.

Exit status:
   0  compared; with --fail-if-worse: nothing is worse
   1  failed; with --fail-if-worse: it could not be determined, as with too few trials
   2  an error in the arguments
  99  with --fail-if-worse: a figure is worse by that much, and significantly`,
		Example: `  loadstone compare latest~1 latest
  loadstone compare latest
  loadstone compare runs/20261121-100000-e runs/20261122-100000-e --markdown
  loadstone compare latest~1 latest --fail-if-worse 5%
  loadstone compare latest --scaling api.replicas`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeRuns(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.failAsked, f.scalingSet = cmd.Flags().Changed("fail-if-worse"), cmd.Flags().Changed("scaling")
			return a.compare(args, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.runs, "runs", "runs", "directory in which runs are looked up by name")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.BoolVar(&f.markdown, "markdown", false, "print Markdown, for a pull request")
	fl.BoolVar(&f.relative, "relative", false, "compare relative to the first variant of each run, which both must have")
	fl.StringSliceVar(&f.variants, "variants", nil, "compare these variants of two runs, which are called differently: BEFORE=AFTER, such as baseline=cached")
	fl.StringVar(&f.failWorse, "fail-if-worse", "", "exit with status 99 if a capacity (with measure: load, a response time) or failures are worse by at least this much, such as 5%, and significantly")
	fl.StringVar(&f.scaling, "scaling", "", "show how capacity grows over the variants that differ only in this, such as api.replicas")
	return cmd
}

func (a *app) compare(args []string, f compareFlags) error {
	if err := f.check(args); err != nil {
		return err
	}
	var results []*result.Result
	var names [2]string
	for i, arg := range args {
		dir, err := a.findRun(f.runs, arg)
		if err != nil {
			return err
		}
		res, err := read(dir)
		if err != nil {
			return err
		}
		results, names[i] = append(results, res), filepath.Base(dir)
	}
	if f.scalingSet {
		a.warnOfParts(names[0], results[0])
		return a.scaling(results[0], names[0], f)
	}
	d, err := f.differ(results, names)
	if errors.Is(err, compare.ErrVariants) && len(f.variants) > 0 {
		return usageError{err}
	}
	if err != nil {
		return err
	}
	if err := a.printDifference(d, f); err != nil {
		return err
	}
	if err := f.judge(d); err != nil || !f.failAsked {
		return err
	}
	for i, res := range results { // what is not there must not be taken for a pass
		if res.Partial != "" {
			return fmt.Errorf("--fail-if-worse: no measured figure is worse, but %s is partial: %s", names[i], res.Partial)
		}
	}
	return nil
}

// read derives what the run in dir found.
func read(dir string) (*result.Result, error) {
	r, err := archive.Open(dir)
	if err != nil {
		return nil, err
	}
	return analysis.Derive(r)
}

// warnOfParts says that a run is not whole, where the output itself does not.
func (a *app) warnOfParts(name string, res *result.Result) {
	if res.Partial != "" {
		fmt.Fprintf(a.Stderr, "warning: %s is partial: %s\n", name, res.Partial)
	}
}

func (f *compareFlags) differ(results []*result.Result, names [2]string) (*compare.Difference, error) {
	if len(results) == 1 {
		return compare.Within(results[0], names[0])
	}
	return compare.Between(results[0], results[1], names, compare.Config{Relative: f.relative, Variants: f.byVariant})
}

// scaling says how capacity grows over the run's variants.
func (a *app) scaling(res *result.Result, name string, f compareFlags) error {
	g, err := predict.Grow(res, name, f.scaling)
	if errors.Is(err, predict.ErrService) {
		return usagef("--scaling: %w", err)
	}
	if err != nil {
		return err
	}
	if f.json {
		return a.printJSON(g)
	}
	return g.Text(a.Stdout)
}

// check looks for what cannot be meant.
func (f *compareFlags) check(args []string) error {
	var err error
	switch {
	case f.json && f.markdown:
		return usagef("--json and --markdown are two forms of the same output; write one of them")
	case f.relative && len(args) == 1:
		return usagef("--relative is about two runs; name a second one, or leave it out")
	case f.scalingSet && len(args) == 2:
		return usagef("--scaling is about the variants of one run; name one")
	case f.scalingSet && (f.failAsked || f.markdown):
		return usagef("--scaling describes one run: it has no --fail-if-worse and no --markdown")
	case f.failAsked:
		f.failShare, err = parseShare(f.failWorse)
	}
	if err != nil {
		return err
	}
	return f.pairVariants(args)
}

// pairVariants reads --variants.
func (f *compareFlags) pairVariants(args []string) error {
	switch {
	case len(f.variants) == 0:
		return nil
	case len(args) == 1:
		return usagef("--variants pairs those of two runs; name a second one, or leave it out")
	case f.relative:
		return usagef("--relative is about a first variant of the same name in both runs; leave it out, or --variants")
	}
	f.byVariant = map[string]string{}
	for _, text := range f.variants {
		before, after, ok := strings.Cut(text, "=")
		if !ok || before == "" || after == "" || f.byVariant[before] != "" {
			return usagef("--variants %s: write BEFORE=AFTER, such as baseline=cached, each variant once", spelling.Quote(text))
		}
		f.byVariant[before] = after
	}
	return nil
}

// parseShare reads a share of 1 as "5%" or "0.05".
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return 0, usagef("--fail-if-worse %s: write a share such as 5%% or 0.05", spelling.Quote(text))
	}
	return v, nil
}

// printDifference prints in the form that was asked for.
func (a *app) printDifference(d *compare.Difference, f compareFlags) error {
	switch {
	case f.json:
		return a.printJSON(d)
	case f.markdown:
		return compare.Markdown(a.Stdout, d)
	default:
		return compare.Text(a.Stdout, d, a.Color)
	}
}

func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// judge is the exit status that --fail-if-worse calls for. What could not have
// been decided is a failure: whoever asks must not take it for a pass.
func (f *compareFlags) judge(d *compare.Difference) error {
	if !f.failAsked {
		return nil
	}
	if len(d.Worse(f.failShare)) > 0 {
		return exitStatusError(exitCrossed)
	}
	if r := d.Baseline(); r != nil && r.Lost(f.failShare) {
		return fmt.Errorf("--fail-if-worse: %s, the baseline of both runs, is itself worse, because of the machine or because of a change; without --relative it counts as a change", r.Name)
	}
	if len(d.Tables) == 0 {
		return errors.New("--fail-if-worse: nothing could be compared")
	}
	if rows := d.Undecidable(); len(rows) > 0 {
		reason := rows[0].Note
		if rows[0].Result != nil {
			reason = fmt.Sprintf("its trials are too few, %d of each are needed", rows[0].Result.Needed)
		}
		return fmt.Errorf("--fail-if-worse: %s of %s could not be compared: %s", rows[0].Metric.Name, rows[0].Name, reason)
	}
	return nil
}

// findRun is the directory of the run that text names. If that passes over runs that are newer than
// the latest whole one, it says so.
func (a *app) findRun(runs, text string) (string, error) {
	dir, err := archive.Find(runs, text)
	if err != nil {
		return "", err
	}
	for _, name := range archive.PassedOver(runs, text, dir) {
		fmt.Fprintf(a.Stderr, "note: %s is newer but incomplete, so it is not the latest; give its name to use its completed trials\n", filepath.Join(runs, name))
	}
	return dir, nil
}
