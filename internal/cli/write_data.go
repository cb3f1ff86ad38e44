package cli

import (
	"errors"
	"fmt"
	"io"

	"loadstone/block/atomicfile"
	"loadstone/block/dataset"
)

// writeData writes the records of a whole data set to a file, all or nothing, with
// progress. Noun is what they are, in the plural.
func (a *app) writeData(to, noun string, count int64, write func(io.Writer, dataset.Progress) error) error {
	file, err := atomicfile.Create(to)
	if err != nil {
		return err
	}
	bar := newCountBar(a.Stderr, a.Terminal, noun)
	err = write(file.File(), bar.set)
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
