package csvfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"loadstone/system/results"
)

// MaxMistakes is how many bad rows are reported before the check gives up: more
// than one mends at a time, and a file of the wrong kind has nothing else.
const MaxMistakes = 20

// Mistake is one bad row.
type Mistake struct {
	Line int // where the row starts; the header is on line 1
	Text string
}

// InputError is the error of a file with bad rows. It wraps results.ErrInput.
type InputError struct {
	File string
	List []Mistake
	// Stopped says that the check gave up after MaxMistakes bad rows.
	Stopped bool
	// Rows is how many rows were looked at.
	Rows int64
}

// Error lists the mistakes as file:line: reason, one a line, under a summary.
func (e *InputError) Error() string {
	var text strings.Builder
	switch {
	case e.Stopped:
		fmt.Fprintf(&text, "%s: stopped after %d bad rows in the first %d:", e.File, len(e.List), e.Rows)
	case len(e.List) == 1:
		fmt.Fprintf(&text, "%s: 1 bad row of %d:", e.File, e.Rows)
	default:
		fmt.Fprintf(&text, "%s: %d bad rows of %d:", e.File, len(e.List), e.Rows)
	}
	for _, mistake := range e.List {
		fmt.Fprintf(&text, "\n%s:%d: %s", e.File, mistake.Line, mistake.Text)
	}
	return text.String()
}

// Unwrap returns results.ErrInput.
func (e *InputError) Unwrap() error { return results.ErrInput }

// rowError is a mistake on its way from the decoder.
type rowError struct {
	file string
	Mistake
}

func (e *rowError) Error() string { return fmt.Sprintf("%s:%d: %s", e.file, e.Line, e.Text) }

func (e *rowError) Unwrap() error { return results.ErrInput }

// checker reads a whole file and keeps what is wrong with it.
type checker struct {
	name    string
	lines   map[int64]int // id to line
	list    []Mistake
	rows    int64
	stopped bool
	// keep is given each good row, if it is set, and most bounds them.
	keep func(results.Student)
	most int64
}

// errTooMany ends a check that has kept all that it may.
var errTooMany = errors.New("there are too many rows")

// check fails only if the file cannot be read or the context ends.
func (c *checker) check(ctx context.Context, decoder *decoder) error {
	for {
		student, err := decoder.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if c.rows++; c.keep != nil && c.rows > c.most {
			return errTooMany
		}
		var bad *rowError
		switch {
		case errors.As(err, &bad):
			c.list = append(c.list, bad.Mistake)
		case err != nil:
			return err
		default:
			c.once(student.ID, decoder.line())
			if c.keep != nil {
				c.keep(student)
			}
		}
		if len(c.list) == MaxMistakes {
			c.stopped = true
			return nil
		}
		const rowsBetweenLooks = 1024
		if c.rows%rowsBetweenLooks == 0 && ctx.Err() != nil {
			return fmt.Errorf("check %s: stopped after %d rows: %w", c.name, c.rows, ctx.Err())
		}
	}
}

func (c *checker) once(id int64, line int) {
	if first, seen := c.lines[id]; seen {
		c.list = append(c.list, Mistake{line, fmt.Sprintf("id is %d, as on line %d: write each student once", id, first)})
		return
	}
	c.lines[id] = line
}

func (c *checker) mistakes() error {
	if len(c.list) > 0 {
		return &InputError{File: c.name, List: c.list, Stopped: c.stopped, Rows: c.rows}
	}
	if c.rows == 0 {
		return fmt.Errorf("%w: %s has a header but no students: write one row for each", results.ErrInput, c.name)
	}
	return nil
}
