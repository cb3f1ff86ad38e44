package cli

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
)

// writeData writes the records of a whole data set to a file, all or nothing, or to the standard
// output, -, with progress. Noun is what they are, in the plural.
func (a *app) writeData(to, noun string, write func(io.Writer, dataset.Progress) error) error {
	bar, count := newCountBar(a.Stderr, a.Terminal, noun), int64(0)
	progress := func(done, total int64) {
		count = done
		bar.set(done, total)
	}
	if to == "-" {
		defer bar.close()
		return write(a.Stdout, progress)
	}
	file, err := atomicfile.Create(to)
	if err != nil {
		return err
	}
	err = write(file.File(), progress)
	bar.close()
	if err != nil {
		return errors.Join(err, file.Discard())
	}
	if err := file.Commit(); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%d %s in %s\n", count, noun, to)
	return nil
}

// compressing calls write with w, or with what compresses into w if the name of the file says so.
func compressing(name string, w io.Writer, write func(io.Writer) error) error {
	if !strings.HasSuffix(strings.ToLower(name), ".gz") {
		return write(w)
	}
	zipped := gzip.NewWriter(w)
	return errors.Join(write(zipped), zipped.Close())
}

// filled is what came of filling a store.
type filled struct {
	already bool
	held    string // what it held already, if that is called otherwise
	resumed int64  // records of an interrupted filling
}

// filling shows how fill fills a store with what is of an origin, and says what came of it.
func (a *app) filling(store fmt.Stringer, noun, origin string, fill func(dataset.Progress) (filled, error)) error {
	began := time.Now()
	bar := newCountBar(a.Stderr, a.Terminal, noun)
	did, err := fill(bar.set)
	bar.close()
	switch {
	case err != nil:
		return err
	case did.already:
		fmt.Fprintf(a.Stdout, "%s already holds %s; nothing to do\n", store, cmp.Or(did.held, origin))
		return nil
	case did.resumed > 0:
		fmt.Fprintf(a.Stdout, "resumed after the %d %s that were already stored\n", did.resumed, noun)
	}
	fmt.Fprintf(a.Stdout, "%s holds %s (%.1f s)\n", store, origin, time.Since(began).Seconds())
	return nil
}

func leftAsItIs(err error) error {
	return fmt.Errorf("%w; it is left as it is: name another store, or remove what is there first", err)
}

// storeName reads the value of a flag that names a store.
func storeName[N any](parse func(string) (N, error), text, flag string) (N, error) {
	name, err := parse(text)
	if err != nil {
		err = usagef("%s: %w", flag, err)
	}
	return name, err
}

// readInput hands a file to read, or the standard input for -.
func readInput[T any](ctx context.Context, a *app, path string, read func(ctx context.Context, name string, from io.Reader) (T, error)) (all T, err error) {
	name, from := "standard input", a.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return all, usageError{err}
		}
		defer func() { _ = file.Close() }() // it was only read
		name, from = path, file
	}
	if all, err = read(ctx, name, from); err != nil && ctx.Err() == nil {
		err = usageError{err}
	}
	return all, err
}
