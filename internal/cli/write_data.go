package cli

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

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
