package results

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"loadstone/block/dataset"
)

// Correction is a student's result as it should be.
type Correction struct {
	Student Student
	// KeepCode and KeepPassMark say that the correction does not name them: the
	// student's own stay, whatever Student has.
	KeepCode, KeepPassMark bool
}

// over returns the student as the correction makes them.
func (c *Correction) over(have *Student) Student {
	s := c.Student
	if c.KeepCode {
		s.Code = have.Code
	}
	if c.KeepPassMark {
		s.PassMark = have.PassMark
	}
	return s
}

// Corrections are made together or not at all. Each id is there once.
type Corrections struct {
	// By says who corrects, and Source from what, for the audit; By is not empty.
	By, Source string
	List       []Correction
}

// IDs returns whom they are about.
func (c *Corrections) IDs() []int64 {
	ids := make([]int64, len(c.List))
	for i := range c.List {
		ids[i] = c.List[i].Student.ID
	}
	return ids
}

// Change is one student before and after.
type Change struct{ Before, After Student }

// Plan is what corrections come to for a data set.
type Plan struct {
	// Students are all that are named, as they will be, in ascending order of id.
	Students []Student
	// Changed are those of them that are not so yet, in the same order.
	Changed []Change
}

// Plan compares the corrections with the students whom they name, by id. If some
// are not there the error is an *UnknownStudentsError.
func (c *Corrections) Plan(have map[int64]Student) (Plan, error) {
	if c.By == "" {
		return Plan{}, errors.New("it is not said who corrects")
	}
	list := slices.SortedFunc(slices.Values(c.List), func(a, b Correction) int { return cmp.Compare(a.Student.ID, b.Student.ID) })
	plan := Plan{Students: make([]Student, 0, len(list))}
	var unknown []int64
	for i := range list {
		id := list[i].Student.ID
		before, ok := have[id]
		if !ok {
			unknown = append(unknown, id)
			continue
		}
		after := list[i].over(&before)
		if err := after.Validate(); err != nil {
			return Plan{}, fmt.Errorf("student with id %d is not valid: %w", id, err)
		}
		plan.Students = append(plan.Students, after)
		if after != before {
			plan.Changed = append(plan.Changed, Change{before, after})
		}
	}
	if len(unknown) > 0 {
		return Plan{}, &UnknownStudentsError{unknown}
	}
	return plan, nil
}

// Corrected says what came of corrections.
type Corrected struct {
	// Revision is how often the data set has been corrected, this time included.
	Revision int64
	// Changed is how many students were not as they should be.
	Changed int
	// Students are all that were named, as they are now.
	Students []Student
}

// UnknownStudentsError says that corrections name students whom the data set does
// not have. It wraps ErrNotFound.
type UnknownStudentsError struct{ IDs []int64 }

// Error names the first few.
func (e *UnknownStudentsError) Error() string {
	const most = 5
	names := make([]string, 0, most)
	for _, id := range e.IDs[:min(most, len(e.IDs))] {
		names = append(names, strconv.FormatInt(id, 10))
	}
	text := strings.Join(names, ", ")
	if len(e.IDs) > most {
		text += fmt.Sprintf(" and %d more", len(e.IDs)-most)
	}
	return "no student has the id " + text
}

// Unwrap returns ErrNotFound.
func (e *UnknownStudentsError) Unwrap() error { return ErrNotFound }

// RevisedFingerprint is the fingerprint of a data set after students of it have
// changed, in the order of a Plan. The same
// corrections of the same data have the same fingerprint in every store.
func RevisedFingerprint(before string, changed []Change) string {
	hash := sha256.New()
	text := strconv.AppendQuote(nil, before)
	for i := range changed {
		s := &changed[i].After
		text = append(s.AppendJSON(append(text, '\n')), ' ')
		hash.Write(strconv.AppendQuote(text, s.Code)) // a hash never fails
		text = text[:0]
	}
	return "revision, sha256 " + hex.EncodeToString(hash.Sum(nil))
}

// Correctable is a source whose students may have been corrected since it was
// filled.
type Correctable interface {
	dataset.Source[Student]
	// Revised describes it with its corrections.
	Revised() dataset.Meta
}

// Current is the source described with its corrections: for copies that must be
// made anew when students were corrected, such as a snapshot.
func Current(source dataset.Source[Student]) dataset.Source[Student] {
	if c, ok := source.(Correctable); ok {
		return current{c}
	}
	return source
}

type current struct{ Correctable }

func (c current) Meta() dataset.Meta   { return c.Revised() }
func (c current) PublishAt() time.Time { return PublishAt(c.Correctable) }
