// Package export writes a data set as a tree of static files for a CDN: one name
// for each student, with the result as JSON, as a small HTML page, or both.
//
// # Names
//
// Whoever knows the name of a file reads it: there is no server to ask for a
// code. So names must not be guessed, and follow from the student's id and access
// code by a slow function and a key:
//
//	slow = PBKDF2-HMAC-SHA256(password: code, salt: id in decimal, iterations, 32 bytes)
//	name = the first 20 bytes of HMAC-SHA256(key, slow), in base 32
//	path = name[0] / name[1] / name .json or .html
//
// with the code in capitals, without spaces and hyphens, and the alphabet of
// names below. Web Crypto has both functions, so an edge function that
// holds the key can turn an id and a code into a path.
//
// # What a student needs
//
// A plain page cannot compute a name: without script a form sends its fields and
// nothing more, and with script the key would be public. Two ways remain. Students
// get a link each, printed or sent with their school's bundle: whoever has the
// link has the page. Or an edge function takes the id and code from a form and
// answers with the file. Either way listing must be off at the store and the CDN,
// and names are secrets in their logs.
//
// # What keeps the tree shut
//
// Without the key, a name is as good as 160 random bits. If the key is lost the
// codes are what is left: guessing one takes half of all codes, each with the
// iterations. That holds with the system's own codes, 60 random bits, and not with
// six digits, which are tried out in minutes; a tree has no lock-out either. So
// students with a code of fewer than MinCodeChars characters are refused. Length is
// all that can be checked: codes must be random.
//
// # Building
//
// The tree grows beside its root, in a directory that is renamed over the root
// when it is whole; readers see the old tree or the new one. The same data, key
// and formats give the same bytes. An export that was interrupted goes on where
// it was: names are computed again, and files that are there with the right
// bytes are left alone. A correction makes a new data set and so a new tree.
package export

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// MinCodeChars is how many letters and digits a code must have.
const MinCodeChars = 12

// Format is a kind of file; its value is the ending.
type Format string

// The formats.
const (
	JSON Format = "json"
	HTML Format = "html"
)

// Config says what to export and where.
type Config struct {
	// Root is the directory that the tree will be. It is replaced whole. An
	// existing one must be empty or a tree of this package.
	Root string
	// Namer makes the names.
	Namer Namer
	// Formats are the files of each student: JSON, HTML or both.
	Formats []Format
	// Progress is told how many students were handed to those who write. It may be nil.
	Progress dataset.Progress
}

// Validate returns all problems of the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	if c.Root == "" {
		errs = append(errs, errors.New("the directory to export to is missing"))
	}
	errs = append(errs, c.Namer.validate())
	if len(c.Formats) == 0 {
		errs = append(errs, errors.New("there is no format: name json, html or both"))
	}
	for i, format := range c.Formats {
		if format != JSON && format != HTML {
			errs = append(errs, fmt.Errorf("format is %q, must be %q or %q", format, JSON, HTML))
		}
		if slices.Contains(c.Formats[:i], format) {
			errs = append(errs, fmt.Errorf("format %q is named twice", format))
		}
	}
	return errors.Join(errs...)
}

// Report says what an export did.
type Report struct {
	// Unchanged: the root held this tree already, and nothing was done.
	Unchanged bool
	// Students is how many there are. Written and Kept count files: an export
	// that goes on keeps those that are there.
	Students, Written, Kept int64
}

// Build exports the source. On any error, the end of the context included, the
// root is as it was; what has been written stays beside it for the next export,
// see Building.
func Build(ctx context.Context, cfg Config, source dataset.Source[results.Student]) (Report, error) {
	report, err := build(ctx, cfg, source)
	if err != nil {
		return Report{}, fmt.Errorf("export to %s: %w", cfg.Root, err)
	}
	return report, nil
}

func build(ctx context.Context, cfg Config, source dataset.Source[results.Student]) (report Report, err error) {
	meta := source.Meta()
	if err := errors.Join(cfg.Validate(), meta.Check()); err != nil {
		return report, err
	}
	plan := planOf(cfg, meta)
	have, err := inspectRoot(cfg.Root)
	if err != nil {
		return report, err
	}
	if have == plan {
		return Report{Unchanged: true, Students: meta.Count}, nil
	}
	tree, err := claim(cfg.Root, plan)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, tree.close()) }()
	e := &exporter{cfg: cfg, tree: tree}
	if err := e.fill(ctx, source); err != nil {
		return report, err
	}
	files := meta.Count * int64(len(cfg.Formats))
	if err := tree.publish(files); err != nil {
		return report, err
	}
	return Report{Students: meta.Count, Written: e.written.Load(), Kept: files - e.written.Load()}, nil
}

// exporter is one export under way.
type exporter struct {
	cfg  Config
	tree *tree

	written atomic.Int64 // files
}

// waiting is how many students wait for a worker: enough to keep all busy while
// the source is read in bursts.
const waiting = 256

// fill writes all files. A worker per core makes the names, which is nearly all
// of the time.
func (e *exporter) fill(ctx context.Context, source dataset.Source[results.Student]) error {
	group, ctx := errgroup.WithContext(ctx)
	students := make(chan results.Student, waiting)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() error {
			for student := range students {
				if err := e.write(&student); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(students)
		return results.Each(ctx, source, e.cfg.Progress, func(s *results.Student) error {
			select {
			case students <- *s:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return group.Wait()
}

// write makes a student's files.
func (e *exporter) write(s *results.Student) error {
	folded := results.FoldCode([]byte(s.Code))
	if n := len(folded.Bytes()); n < MinCodeChars {
		return fmt.Errorf("the code of student %d has %d letters and digits, and a static tree needs at least %d, for nothing stops who tries codes out: serve these results, or give out longer codes",
			s.ID, n, MinCodeChars)
	}
	name, err := e.cfg.Namer.Name(s.ID, s.Code)
	if err != nil {
		return err
	}
	for _, format := range e.cfg.Formats {
		content, err := render(format, s)
		if err != nil {
			return fmt.Errorf("student %d: %w", s.ID, err)
		}
		wrote, err := e.tree.put(pathOf(name, format), content)
		if err != nil {
			return err
		}
		if wrote {
			e.written.Add(1)
		}
	}
	return nil
}
