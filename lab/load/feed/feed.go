// Package feed supplies the values of a request's placeholders: whole numbers
// by a distribution, or the rows of a file.
//
// A value is a pure function of the plan's seed, the feed's name and the
// position in the load at which it is wanted. So it does not matter which
// virtual user asks, when, or in which order: the same plan always offers the
// same values, and a Set can be used by any number of goroutines without a
// lock. Only Open does work that takes long: it reads the files.
//
// The package does not know what a value is used for. Append gives the bytes
// as they are; whoever builds a request escapes them as the place in it
// requires, in a path with AppendEscaped.
package feed

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Feed says where values come from: exactly one of its first five fields.
type Feed struct {
	// Uniform draws whole numbers from [Uniform[0], Uniform[1]], ends included.
	Uniform *[2]int64 `json:"uniform,omitempty"`
	// Sequential counts from Sequential[0] to Sequential[1] and starts again.
	Sequential *[2]int64 `json:"sequential,omitempty"`
	// Zipf draws whole numbers, the lower the more often.
	Zipf *Zipf `json:"zipf,omitempty"`
	// CSV takes the rows of a file whose first line names its columns.
	CSV *File `json:"csv,omitempty"`
	// JSONL takes the lines of a file, each a JSON object. The columns are the
	// keys of its first line, which every line must have.
	JSONL *File `json:"jsonl,omitempty"`

	// PerVU gives every virtual user a walk of its own: the value follows from
	// the user and from how many iterations that user has begun. Without it the
	// walk is shared: the value follows from the number of the iteration. What
	// comes in order begins at its beginning for every user.
	PerVU bool `json:"per_vu,omitempty"`
}

// Zipf is a Zipf distribution over the whole numbers from Low to High, ends
// included: the k-th of them is drawn with probability proportional to
// k^-Exponent. There may be up to 2⁵³ of them.
type Zipf struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
	// Exponent is above 0; 0.99 is YCSB's, 1 is Zipf's law.
	Exponent float64 `json:"exponent"`
}

// File is a file of rows, of 256 MiB at most: they are kept in memory.
type File struct {
	Path string `json:"path"`
	// Column is the column (the key) whose value a placeholder of the feed's
	// name takes. If it is empty, placeholders name it: {user.email} is column
	// email of feed user, and all of an iteration come from one row.
	Column string `json:"column,omitempty"`
	// Random draws rows at random; else they come in order, again and again.
	Random bool `json:"random,omitempty"`
}

// mostRanks is how many numbers a Zipf feed may have: as many as float64 can
// tell apart.
const mostRanks = 1 << 53

// Validate returns what is wrong with the feed, all of it joined, or nil. It
// opens no file.
func (f Feed) Validate() error {
	var given []string
	var errs []error
	add := func(name string, err error) {
		given = append(given, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if f.Uniform != nil {
		add("uniform", checkBounds(f.Uniform[0], f.Uniform[1]))
	}
	if f.Sequential != nil {
		add("sequential", checkBounds(f.Sequential[0], f.Sequential[1]))
	}
	if f.Zipf != nil {
		add("zipf", f.Zipf.validate())
	}
	if f.CSV != nil {
		add("csv", f.CSV.validate())
	}
	if f.JSONL != nil {
		add("jsonl", f.JSONL.validate())
	}
	switch len(given) {
	case 0:
		errs = append(errs, errors.New("it has no source: give it one of uniform, sequential, zipf, csv and jsonl"))
	case 1:
	default:
		errs = append(errs, fmt.Errorf("it has %d sources, %s: give it one", len(given), strings.Join(given, " and ")))
	}
	return errors.Join(errs...)
}

// checkBounds checks the ends of a range of whole numbers.
func checkBounds(low, high int64) error {
	if low > high {
		return fmt.Errorf("from %d to %d: put the lower number first", low, high)
	}
	return nil
}

// validate returns what is wrong with z, or nil.
func (z *Zipf) validate() error {
	err := checkBounds(z.Low, z.High)
	if err == nil && uint64(z.High)-uint64(z.Low) >= mostRanks {
		err = fmt.Errorf("from %d to %d: there may be 2^53 numbers at most: bring the ends nearer to each other", z.Low, z.High)
	}
	if !(z.Exponent > 0) || math.IsInf(z.Exponent, 1) { // NaN is not above 0 either
		err = errors.Join(err, fmt.Errorf("exponent %v: give a number above 0, such as 0.99", z.Exponent))
	}
	return err
}

// validate returns what is wrong with f, or nil.
func (f *File) validate() error {
	if f.Path == "" {
		return errors.New("it has no path: give the file to read")
	}
	return nil
}
