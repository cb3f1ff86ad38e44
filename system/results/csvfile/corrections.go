package csvfile

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"loadstone/system/results"
)

// MaxCorrections bounds a file of corrections, which is held in memory: some 30 MB.
// Who has more has a new data set.
const MaxCorrections = 100_000

// Corrections is a checked file of corrections: rows as Open takes them. Where the
// column code or pass_mark is left out, students keep their own.
type Corrections struct {
	List []results.Correction
	// Origin says which file it was: its name with the start of its hash.
	Origin string

	name  string
	lines map[int64]int // id to line
}

// ReadCorrections reads and checks a whole file, whose name is for people. Its
// errors are those of Open.
func ReadCorrections(ctx context.Context, name string, r io.Reader) (*Corrections, error) {
	d, err := newDecoder(name, r)
	if err != nil {
		return nil, err
	}
	c := &Corrections{name: name, lines: map[int64]int{}}
	keepCode, keepPassMark := d.layout.code == notThere, d.layout.passMark == notThere
	checked := checker{name: name, lines: c.lines, most: MaxCorrections, keep: func(s results.Student) {
		c.List = append(c.List, results.Correction{Student: s, KeepCode: keepCode, KeepPassMark: keepPassMark})
	}}
	err = checked.check(ctx, d)
	if errors.Is(err, errTooMany) {
		return nil, fmt.Errorf("%w: %s has more than %d students: correct them in several files, or import a new data set",
			results.ErrInput, name, MaxCorrections)
	}
	if err != nil {
		return nil, err
	}
	if err := checked.mistakes(); err != nil {
		return nil, err
	}
	sum := d.sum()
	c.Origin = fmt.Sprintf("%s, sha256 %s", name, hex.EncodeToString(sum[:])[:12])
	return c, nil
}

// Unknown says on which lines the students are who are not there. It is an
// *InputError.
func (c *Corrections) Unknown(missing *results.UnknownStudentsError) error {
	e := &InputError{File: c.name, Rows: int64(len(c.List))}
	for _, id := range missing.IDs {
		if e.Stopped = len(e.List) == MaxMistakes; e.Stopped {
			break
		}
		e.List = append(e.List, Mistake{c.lines[id], fmt.Sprintf(
			"id is %d, which no student has: write the id of one who is there, for a correction adds nobody", id)})
	}
	return e
}
