package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
	"loadstone/lab/report"
	"loadstone/lab/result"
)

func (a *app) reportCommand() *cobra.Command {
	var format, runs string
	cmd := &cobra.Command{
		Use:     "report RUN",
		GroupID: "lab",
		Short:   "Regenerate the report of a run from its raw data",
		Long: `Regenerate the report of a run from its raw data: the printed summary, result.json
and report.html. The raw data is not changed. The report of a run that was stopped
covers the completed trials, and says so.

RUN is a run's directory, its name below runs/ or the beginning of it, latest, or
latest~1 for the one before.`,
		Example: `  loadstone report latest
  loadstone report runs/20261121-100000-results-embedded

  # for a pull request
  loadstone report runs/20261121-100000-results-embedded --format markdown`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeRuns(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "text" && format != "markdown" {
				return usagef("--format %q: write text or markdown", format)
			}
			dir, err := a.findRun(runs, args[0])
			if err != nil {
				return err
			}
			if format == "text" {
				_, err := a.writeReport(dir)
				return err
			}
			res, err := a.derived(dir)
			if err != nil {
				return err
			}
			return report.Markdown(a.Stdout, res)
		},
	}
	cmd.Flags().StringVar(&runs, "runs", "runs", "directory in which runs are looked up by name")
	cmd.Flags().StringVar(&format, "format", "text", "output format: text, or markdown for a pull request")
	completing(cmd, "format", cobra.FixedCompletions([]cobra.Completion{"text", "markdown"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// writeReport derives the result of a run, writes it beside the raw data and
// prints the summary.
func (a *app) writeReport(dir string) (*result.Result, error) {
	res, err := a.derived(dir)
	if err != nil {
		return nil, err
	}
	if err := report.Text(a.Stdout, res, report.Options{Color: a.Color, Width: a.Width}); err != nil {
		return nil, err
	}
	fmt.Fprintf(a.Stdout, "\nreport  %s\nraw     %s\n", filepath.Join(dir, reportFile), dir)
	return res, nil
}

const reportFile = "report.html"

// derived derives the result of a run and writes it beside the raw data.
func (a *app) derived(dir string) (*result.Result, error) {
	res, err := read(dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		writeWhole(filepath.Join(dir, reportFile), res, report.HTML),
		writeWhole(filepath.Join(dir, "result.json"), res, result.WriteJSON),
	); err != nil {
		return nil, fmt.Errorf("write the report of %s: %w", dir, err)
	}
	return res, nil
}

// writeWhole writes a result in one form to path, whole or not at all.
func writeWhole(path string, res *result.Result, form func(io.Writer, *result.Result) error) error {
	var b bytes.Buffer
	if err := form(&b, res); err != nil {
		return err
	}
	return archive.WriteFile(path, b.Bytes())
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema [experiment|load]",
		GroupID: "lab",
		Short:   "Print the JSON Schema of the experiment file, or of a load file, for editors",
		Example: `  loadstone schema > experiment.schema.json
  loadstone schema load > load-file.schema.json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"experiment", "load"},
		RunE: func(_ *cobra.Command, args []string) error {
			describe := experiment.Schema
			if len(args) == 1 && args[0] == "load" {
				describe = experiment.LoadSchema
			}
			schema, err := describe()
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(schema)
			return err
		},
	}
}
