// Package csvfile reads and writes students as CSV: RFC 4180 with a header,
// commas, UTF-8 with or without byte order mark, LF or CRLF. Columns lists the
// columns; their order is free, and an unknown, missing or repeated one is a
// mistake, as a misspelt optional column would else be ignored in silence.
//
// Open reads the whole file once to check it and reports every mistake it finds
// with file, line and what to write instead, so that a bad file is known before
// anything is built. Only then is the file a dataset.Source[results.Student], which reads it
// again, row by row, and makes sure that it has not changed. Memory holds one row and,
// during the check, about 50 bytes per student to find repeated ids.
//
// ReadCorrections reads a few students of a data set as they should be.
package csvfile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Column describes a column.
type Column struct {
	Name     string
	Optional bool
	Meaning  string
}

// Columns returns all columns in the order in which Write writes them.
func Columns() []Column {
	columns := []Column{
		{Name: "id", Meaning: "1 to 18 digits, no leading zero; each id once"},
		{Name: "name", Meaning: "full name"},
		{Name: "sex", Meaning: "female or male"},
		{Name: "school", Meaning: "name of the school"},
		{Name: "region", Meaning: "region of the school"},
		{Name: "birth_date", Meaning: "YYYY-MM-DD"},
		{Name: "stream", Meaning: "natural or social"},
	}
	for _, subject := range results.Subjects() {
		columns = append(columns, Column{Name: subject.String(), Meaning: subjectMeaning(subject)})
	}
	return append(columns,
		Column{Name: "pass_mark", Optional: true, Meaning: fmt.Sprintf(
			"total that passes, 1 to %d; %d if the column or the value is missing", results.MaxTotal, results.DefaultPassMark)},
		Column{Name: "code", Optional: true, Meaning: fmt.Sprintf(
			"access code, at least %d letters and digits, with hyphens between them up to %d characters; without the column every import invents new codes at random",
			results.MinCodeChars, results.MaxCodeBytes)},
	)
}

func subjectMeaning(subject results.Subject) string {
	const mark = "whole number from 0 to 100"
	natural, social := inStream(results.Natural, subject), inStream(results.Social, subject)
	switch {
	case natural && social:
		return mark
	case natural:
		return mark + "; empty for social"
	default:
		return mark + "; empty for natural"
	}
}

func inStream(stream results.Stream, subject results.Subject) bool {
	subjects := stream.Subjects()
	return slices.Contains(subjects[:], subject)
}

// File is a checked CSV file: a dataset.Source[results.Student].
//
// If the file has no codes, every call of All draws new ones (results.Drawing). Its
// fingerprint is that of the file alone, so importing the same file again is no change
// and the codes that were handed out stay valid.
type File struct {
	path  string
	meta  dataset.Meta
	sum   [sumSize]byte
	draws bool
}

// Open checks the whole file. The error of a file with mistakes wraps
// results.ErrInput, and is an *InputError if they are in its rows. If there is no
// file, it wraps results.ErrMissing.
func Open(ctx context.Context, path string) (*File, error) {
	checked := checker{name: path, lines: map[int64]int{}}
	draws := false
	sum, err := read(path, func(decoder *decoder) error {
		draws = decoder.layout.code == notThere
		return checked.check(ctx, decoder)
	})
	if err != nil {
		return nil, err
	}
	if err := checked.mistakes(); err != nil {
		return nil, err
	}
	digits := hex.EncodeToString(sum[:])
	return &File{path: path, sum: sum, draws: draws, meta: dataset.Meta{
		Origin:      fmt.Sprintf("%s, sha256 %s", filepath.Base(path), digits[:12]),
		Fingerprint: "csv 1, sha256 " + digits,
		Count:       int64(len(checked.lines)),
	}}, nil
}

// Meta describes the data set.
func (f *File) Meta() dataset.Meta { return f.meta }

// Draws implements results.Drawing.
func (f *File) Draws() bool { return f.draws }

var errStopped = errors.New("the consumer has had enough")

// All yields the students in the order of the file. It ends with an error if the
// file is no longer the one that was checked.
func (f *File) All(ctx context.Context) iter.Seq2[results.Student, error] {
	return func(yield func(results.Student, error) bool) {
		sum, err := read(f.path, func(decoder *decoder) error {
			for {
				student, err := decoder.next()
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					return err
				}
				if !yield(student, nil) {
					return errStopped
				}
			}
		})
		if errors.Is(err, errStopped) {
			return
		}
		if err == nil && sum != f.sum {
			err = fmt.Errorf("%s has changed since it was checked: import it again", f.path)
		}
		if err != nil {
			yield(results.Student{}, err)
		}
	}
}

// read opens the file, lets use decode it, and returns the hash of what was read.
func read(path string, use func(*decoder) error) (sum [sumSize]byte, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for its writer
	if errors.Is(err, fs.ErrNotExist) {
		return sum, fmt.Errorf("open %s: %w", path, results.ErrMissing)
	}
	if err != nil {
		return sum, fmt.Errorf("open CSV file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return sum, fmt.Errorf("open CSV file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return sum, fmt.Errorf("%w: %s is not a file: save the data in one, for it is read twice", results.ErrInput, path)
	}
	decoder, err := newDecoder(path, file)
	if err != nil {
		return sum, err
	}
	if err := use(decoder); err != nil {
		return sum, err
	}
	return decoder.sum(), nil
}
