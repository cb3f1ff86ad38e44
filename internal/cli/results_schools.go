package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"loadstone/block/atomicfile"
	"loadstone/system/results"
	"loadstone/system/results/bundle"
	"loadstone/system/results/export"
)

// bundleFlags are those of results bundle.
type bundleFlags struct {
	from, school, region, out, address string
	linkBase, keyFile                  string
	iterations                         int
}

func (a *app) bundleCommand() *cobra.Command {
	f := bundleFlags{out: ".", iterations: export.DefaultIterations}
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Write a school's students with their access codes, to hand out",
		Long: `Write a school's students with their access codes: a CSV file, and a page with one
slip per student to print and cut. Keep both as safe as the codes.

With --link-base and the key file of an export each student also gets a link into
the exported tree.`,
		Example: `  loadstone results bundle --from sqlite:results.db --school "Addis Ababa Secondary School 3" \
    --out bundles --address https://results.example.org`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bundle(cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "", "database to read: sqlite:PATH or postgres://USER@HOST/DATABASE")
	fl.StringVar(&f.school, "school", "", "the school's name, as in the data")
	fl.StringVar(&f.region, "region", "", "the school's region, if several regions have a school of that name")
	fl.StringVar(&f.out, "out", f.out, "directory for the files")
	fl.StringVar(&f.address, "address", "", "address where students look up their result, printed on the slips")
	fl.StringVar(&f.linkBase, "link-base", "", "URL of an exported tree, for a link on every slip")
	fl.StringVar(&f.keyFile, "key-file", "", "the key that the tree was exported with")
	fl.IntVar(&f.iterations, "iterations", f.iterations, "the iterations that the tree was exported with")
	return cmd
}

// bundle writes a school's bundle.
func (a *app) bundle(ctx context.Context, f bundleFlags) error {
	c := bundle.Config{School: f.school, Region: f.region, Directory: f.out, Address: f.address}
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	if (f.linkBase == "") != (f.keyFile == "") {
		return usagef("--link-base and --key-file belong together; write both, or none")
	}
	if f.linkBase != "" {
		key, err := readKey(f.keyFile)
		if err != nil {
			return usageError{err}
		}
		namer := export.Namer{Key: key, Iterations: f.iterations}
		c.Link = func(s *results.Student) (string, error) {
			path, err := namer.Path(s.ID, s.Code, export.HTML)
			return strings.TrimSuffix(f.linkBase, "/") + "/" + path, err
		}
	}
	if err := os.MkdirAll(f.out, 0o750); err != nil {
		return err
	}
	return readDatabase(ctx, f.from, "--from", func(db results.Database) error {
		bar := newCountBar(a.Stderr, a.Terminal, "students")
		c.Progress = bar.set
		done, err := bundle.Write(ctx, c, db)
		bar.close()
		if unknown, ok := errors.AsType[*bundle.UnknownSchoolError](err); ok {
			return usageError{unknown}
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.Stdout, "%d students of %s, %s\n%s\n%s\n", done.Students, done.School, done.Region, done.CSV, done.HTML)
		return nil
	})
}

// exportFlags are those of results export.
type exportFlags struct {
	from, to, keyFile string
	formats           []string
	iterations        int
}

func (a *app) exportCommand() *cobra.Command {
	f := exportFlags{formats: []string{string(export.JSON), string(export.HTML)}, iterations: export.DefaultIterations}
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write every result as a file, for a CDN or any web server",
		Long: `Write every result as a file with an unguessable name, derived from the student's id
and code and from a secret key by a slow function. Any web server or CDN can serve
the tree; students reach their file by a link (see
'loadstone results bundle --link-base').

The key file is created if it does not exist. With it and a student's id and code
anyone can find the student's file; keep it with the codes. An interrupted export
resumes, and the tree is replaced completely or not at all.

A tree knows no time of publication: whoever has a file's name sees the result. Put it
on a web server no earlier than results may be seen.`,
		Example: `  loadstone results export --from sqlite:results.db --to tree --key-file tree.key`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.export(cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "", "database to read: sqlite:PATH or postgres://USER@HOST/DATABASE")
	fl.StringVar(&f.to, "to", "", "directory of the tree")
	fl.StringVar(&f.keyFile, "key-file", "", "file with the key of the names; created if it does not exist")
	fl.StringSliceVar(&f.formats, "format", f.formats, "files for each student: json, html")
	fl.IntVar(&f.iterations, "iterations", f.iterations, "work to derive a name: 1000 iterations take a quarter of a millisecond")
	return cmd
}

// export writes the tree.
func (a *app) export(ctx context.Context, f exportFlags) error {
	if f.keyFile == "" {
		return usagef("--key-file is missing; write the file that holds the key, or that is to hold it")
	}
	c := export.Config{Root: f.to, Namer: export.Namer{Iterations: f.iterations}}
	for _, format := range f.formats {
		c.Formats = append(c.Formats, export.Format(format))
	}
	var err error
	if c.Namer.Key, err = readKey(f.keyFile); errors.Is(err, fs.ErrNotExist) {
		c.Namer.Key = export.NewKey()
		err = atomicfile.Write(f.keyFile, []byte(c.Namer.Key.Text()+"\n"), 0o600) // its owner's alone
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return usageError{err}
	}
	return readDatabase(ctx, f.from, "--from", func(db results.Database) error {
		bar := newCountBar(a.Stderr, a.Terminal, "students")
		c.Progress = bar.set
		report, err := export.Build(ctx, c, results.Current(db)) // corrected students make it another data set
		bar.close()
		if err != nil {
			return err
		}
		if report.Unchanged {
			fmt.Fprintf(a.Stdout, "%s already has these results: nothing to do\n", f.to)
			return nil
		}
		fmt.Fprintf(a.Stdout, "%d students in %s: %d files written, %d kept\n", report.Students, f.to, report.Written, report.Kept)
		if p := db.State().Publication(); !p.Out {
			fmt.Fprintf(a.Stdout, "These results come out at %s: put the tree on no web server before that.\n", p.At.Format(time.RFC3339))
		}
		return nil
	})
}

// readKey reads the key of an export.
func readKey(path string) (export.Key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return export.Key{}, fmt.Errorf("read the key: %w", err)
	}
	key, err := export.ParseKey(strings.TrimSpace(string(text)))
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}
