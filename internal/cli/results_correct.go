package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"

	"github.com/spf13/cobra"

	"loadstone/system/results"
	"loadstone/system/results/csvfile"
	"loadstone/system/results/stores"
)

// correctFlags are those of results correct.
type correctFlags struct{ store, by string }

func (a *app) correctCommand() *cobra.Command {
	var f correctFlags
	cmd := &cobra.Command{
		Use:   "correct FILE.csv|-",
		Short: "Correct the results of students in the store",
		Long: `Correct the results of students in the store. The file has complete rows, as for
import, of these students only; if the column code or pass_mark is missing, students
keep theirs. Either all rows are applied or none, and a student who is not in the
store is an error. The table corrections records who corrected what and when.

A correction is visible
  on servers of a PostgreSQL or SQLite store, whatever their caches have: within about
    a second. They ask the store every second what was corrected; a server that has no
    connection to its database at that time: as soon as it has one
  through a load balancer that caches, and in browsers with --access open: when their
    cached page expires, at most a minute after the servers have the correction
  on servers of a snapshot, and in an exported tree: when it is published or exported
    again

The command may be run again: it then changes nothing.

Flags can be given as environment variables as well: --store as RESULTS_STORE.`,
		Example: `  loadstone results correct corrected.csv --store sqlite:results.db
  loadstone results correct - --store postgres://results@db/results < corrected.csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.correct(cmd.Context(), f, args[0]) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.store, "store", "", "database to correct: sqlite:PATH or postgres://USER@HOST/DATABASE")
	fl.StringVar(&f.by, "by", "", "who corrects, for the audit (default: the current user)")
	return cmd
}

// correct corrects the store.
func (a *app) correct(ctx context.Context, f correctFlags, path string) error {
	store, err := storeName(stores.Parse, f.store, "--store")
	if err != nil {
		return err
	}
	if store.Kind == stores.Snapshot {
		return usagef("--store %s: a snapshot is never changed: correct the database, then run 'loadstone results publish' again", f.store)
	}
	file, err := readInput(ctx, a, path, func(ctx context.Context, name string, from io.Reader) (*csvfile.Corrections, error) {
		return csvfile.ReadCorrections(ctx, filepath.Base(name), from)
	})
	if err != nil {
		return err
	}
	c := results.Corrections{By: f.by, Source: file.Origin, List: file.List}
	if c.By == "" {
		c.By = userName()
	}
	done, err := store.Correct(ctx, c)
	if unknown, ok := errors.AsType[*results.UnknownStudentsError](err); ok {
		return usageError{file.Unknown(unknown)}
	}
	if err != nil {
		return err
	}
	a.printCorrected(store.Place(), done)
	return nil
}

// userName is the user who runs this, for an audit.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}

func (a *app) printCorrected(store string, done results.Corrected) {
	if done.Changed == 0 {
		fmt.Fprintf(a.Stdout, "%s: nothing changed; all of %s already had these results\n", store, students(len(done.Students)))
		return
	}
	fmt.Fprintf(a.Stdout, "%s: %d of %s corrected; it is at revision %d\n", store, done.Changed, students(len(done.Students)), done.Revision)
	fmt.Fprintln(a.Stdout, "Servers see the change within about a second. Snapshots and exported trees keep the old results until you run 'loadstone results publish' or 'export' again.")
}

func students(n int) string {
	if n == 1 {
		return "1 student"
	}
	return fmt.Sprintf("%d students", n)
}
