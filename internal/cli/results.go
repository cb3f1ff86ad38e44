package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadstone/block/dataset"
	"loadstone/block/spelling"
	"loadstone/system/results"
	"loadstone/system/results/csvfile"
	"loadstone/system/results/stores"
)

func (a *app) resultsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "results",
		GroupID: "system",
		Short:   "Exam results: seed or import, publish, serve",
		Long: `Exam results for a whole country's students, looked up by id and access code.

A store is written KIND:PATH. sqlite:PATH is a database, with one query per request;
snapshot:PATH is an immutable file of precomputed answers, made from a database, a
CSV file or the generator, and replaced atomically while servers run.
postgres://USER@HOST/DATABASE is a PostgreSQL database that many servers share. Its
password may be in the address, in PGPASSWORD, or in the file that PGPASSFILE names;
only the first is visible in the process list.`,
		Example: `  # synthetic students
  loadstone results seed --store sqlite:results.db

  # your own: import, publish, serve
  loadstone results import students.csv --store sqlite:results.db
  loadstone results publish --from sqlite:results.db --to snapshot:results.snapshot
  loadstone results serve --store snapshot:results.snapshot --listen 127.0.0.1:8080`,
	}
	cmd.AddCommand(a.seedCommand(), a.importCommand(), a.dumpCommand(), a.publishCommand(), a.bundleCommand(), a.exportCommand(),
		a.embargoCommand(), a.certificateCommand(), a.secretsCommand(), a.rolesCommand(), a.pageCommand(), a.healthCommand("results"))
	cmd.AddCommand(a.withEnv("RESULTS_", a.preloadCommand(), a.correctCommand(), a.serveCommand())...)
	cmd.RunE = needsCommand
	return cmd
}

// needsCommand is what a command does that only has others below it: it shows
// them, and refuses a word that is none of them.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	return usagef("%s has no command %q: %s", cmd.CommandPath(), args[0], spelling.Choose(args[0], known))
}

func (a *app) seedCommand() *cobra.Command {
	var store, file, publishAt string
	var students int64
	var seed uint64
	var keep bool
	cmd := &cobra.Command{
		Use:   "seed",
		Short: "Fill a store with synthetic students, or with yours",
		Long: `Fill a store with synthetic students, with the names, schools and marks of a national
exam. The same seed gives the same students. A store that already has them is left
unchanged; other content is replaced completely or not at all. A PostgreSQL database
with other students is an error instead; an interrupted seed of PostgreSQL resumes
when it is run again.

With --publish-at no moment passes in which results are out too early. A store that
has a time already keeps it if it is later, or has passed: see 'loadstone results
embargo' for changing it.

The access codes are derived from the seed, so they are not secret. Use synthetic
students for trials and measurements only, never beside real ones.`,
		Example: `  loadstone results seed --store sqlite:results.db
  loadstone results seed --store snapshot:small.snapshot --students 1000 --seed 7`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			name, err := storeName(stores.Parse, store, "--store")
			if err != nil {
				return err
			}
			at, err := parseInstant(publishAt, "--publish-at")
			if err != nil {
				return err
			}
			if keep {
				origin, err := name.Imported(cmd.Context())
				if err != nil {
					return fmt.Errorf("nothing was changed, for it is not known whether %s has imported students: %w", name, err)
				}
				if origin != "" {
					fmt.Fprintf(a.Stdout, "%s has imported students, %s; they are kept\n", name, origin)
					return a.keepBack(cmd.Context(), name, at)
				}
			}
			source, err := seedSource(cmd.Context(), file, seed, students)
			if err != nil {
				return usageError{err}
			}
			return a.fillUntil(cmd.Context(), name, source, at)
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "store to fill: "+stores.Forms)
	cmd.Flags().StringVar(&publishAt, "publish-at", "", publishAtHelp)
	cmd.Flags().Int64Var(&students, "students", results.DefaultCount, "number of students")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the synthetic students")
	cmd.Flags().StringVar(&file, "csv", "", "CSV file of students to use instead of synthetic ones, as for 'results import'; none if empty")
	cmd.Flags().BoolVar(&keep, "keep-imported", false, "leave a store with imported students unchanged, whichever they are")
	return cmd
}

// seedSource is the file, or else the generator.
func seedSource(ctx context.Context, file string, seed uint64, students int64) (dataset.Source[results.Student], error) {
	if file != "" {
		return csvfile.Open(ctx, file)
	}
	return results.NewGenerator(seed, students)
}

func (a *app) importCommand() *cobra.Command {
	var store, publishAt string
	var example bool
	cmd := &cobra.Command{
		Use:   "import FILE.csv",
		Short: "Fill a store with the students of a CSV file",
		Long: `Fill a store with the students of a CSV file. The header is required, columns may
be in any order: ` + columnNames() + `.
A student has marks in the subjects of one stream; the other columns stay empty.
Without the column code each student gets a new random access code.

An import is complete or changes nothing: every bad row is reported with its line
and the reason. An interrupted import into PostgreSQL resumes when it is run again;
nothing of it is served before it is complete.`,
		Example: `  loadstone results import students.csv --store sqlite:results.db

  # print an example of such a file
  loadstone results import --example`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if example {
				return csvfile.Example(cmd.Context(), a.Stdout)
			}
			if len(args) == 0 {
				return usagef("results import: name the CSV file; 'loadstone results import --example' prints one")
			}
			file, err := csvfile.Open(cmd.Context(), args[0])
			if err != nil {
				return usageError{err}
			}
			name, err := storeName(stores.Parse, store, "--store")
			if err != nil {
				return err
			}
			at, err := parseInstant(publishAt, "--publish-at")
			if err != nil {
				return err
			}
			return a.fillUntil(cmd.Context(), name, file, at)
		},
	}
	cmd.Flags().StringVar(&store, "store", "", "store to fill: "+stores.Forms)
	cmd.Flags().StringVar(&publishAt, "publish-at", "", publishAtHelp)
	cmd.Flags().BoolVar(&example, "example", false, "print a CSV file of four synthetic students")
	return cmd
}

func columnNames() string {
	var names []string
	for _, c := range csvfile.Columns() {
		name := c.Name
		if c.Optional {
			name += " (optional)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

func (a *app) publishCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Turn a database into a snapshot of precomputed answers",
		Long: `Turn a database into a snapshot of precomputed answers. A snapshot of the same data
is left unchanged but for the time of publication, which becomes the database's.
Servers that serve the snapshot's path switch to the new file
within a second, without a failed or mixed answer.`,
		Example: `  loadstone results publish --from sqlite:results.db --to snapshot:results.snapshot`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.publish(cmd.Context(), from, to)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "database to read: sqlite:PATH or postgres://USER@HOST/DATABASE")
	cmd.Flags().StringVar(&to, "to", "", "snapshot to write: snapshot:PATH")
	return cmd
}

// publish turns the database that --from names into a snapshot.
func (a *app) publish(ctx context.Context, from, to string) error {
	name, err := storeName(stores.Parse, to, "--to")
	if err != nil {
		return err
	}
	return readDatabase(ctx, from, "--from", func(db results.Database) error {
		// Corrected students make it another data set.
		if err := a.fill(ctx, name, results.Current(db)); err != nil {
			return err
		}
		// A snapshot that is left as it is gets the time of publication all the same.
		if err := name.Reschedule(ctx, userName(), func(_, _ time.Time) (time.Time, error) { return results.PublishAt(db), nil }); err != nil {
			return err
		}
		if p := db.State().Publication(); p.Out {
			return nil
		}
		return a.printPublication(ctx, name)
	})
}

// readDatabase opens the store that a flag names for use.
func readDatabase(ctx context.Context, text, flag string, use func(results.Database) error) error {
	name, err := storeName(stores.Parse, text, flag)
	if err != nil {
		return err
	}
	if name.Kind == stores.Snapshot {
		return usagef("%s %s: this reads a database; write %s", flag, text, stores.DatabaseForms)
	}
	return name.Read(ctx, use)
}

// fill puts the source into a store, unless the store holds it already, and says so.
func (a *app) fill(ctx context.Context, store stores.Name, source dataset.Source[results.Student]) error {
	return a.filling(store, "students", source.Meta().Origin, func(progress dataset.Progress) (filled, error) {
		did, err := store.Fill(ctx, source, progress)
		if errors.Is(err, results.ErrInput) {
			err = usageError{err}
		}
		return filled{already: did.Already != "", held: did.Already, resumed: did.Resumed}, err
	})
}
