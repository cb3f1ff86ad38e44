package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"loadstone/block/dataset"
	"loadstone/system/results"
	"loadstone/system/results/csvfile"
)

func (a *app) dumpCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Write all students as a CSV file, as 'results import' reads it",
		Long: `Write all students of a database, as corrected, to a CSV file that 'loadstone results
import' reads: for a copy that no database is needed to read, or as the ids and codes
of a load test (see 'loadstone load --help', --feed).

- is the standard output. The file has every access code. Only you may read it; keep it as safe as the codes.`,
		Example: `  loadstone results dump --from sqlite:results.db --to students.csv`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usagef("--to is missing; write the path of the CSV file")
			}
			return readDatabase(cmd.Context(), from, "--from", func(db results.Database) error {
				return a.dump(cmd.Context(), db, to)
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "database to read: sqlite:PATH or postgres://USER@HOST/DATABASE")
	cmd.Flags().StringVar(&to, "to", "", "CSV file to write")
	return cmd
}

// dump writes the students of a database to a file, all or nothing.
func (a *app) dump(ctx context.Context, db dataset.Source[results.Student], to string) error {
	return a.writeData(to, "students", func(w io.Writer, progress dataset.Progress) error {
		return csvfile.Write(ctx, w, db, progress)
	})
}
