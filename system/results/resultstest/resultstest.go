// Package resultstest holds the conformance suites of the results system: what
// every results.Store, every dataset.Source[results.Student] and every builder must do. An
// implementation's own tests call the suite and add what is special to it.
package resultstest

import (
	"bytes"
	"context"
	"iter"
	"runtime"
	"testing"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Generator returns a generated data set.
func Generator(tb testing.TB, seed uint64, count int64) *results.Generator {
	tb.Helper()
	generator, err := results.NewGenerator(seed, count)
	if err != nil {
		tb.Fatal(err)
	}
	return generator
}

// CheckPage compares a page with the student that it must show.
func CheckPage(tb testing.TB, page results.Page, student *results.Student) {
	tb.Helper()
	if want := results.NewPage(student); !SamePage(page, want) {
		tb.Errorf("student %d: got %s %s %x, want %s %s %x",
			student.ID, page.Body, page.Code, page.Tag, want.Body, want.Code, want.Tag)
	}
	runtime.KeepAlive(page)
}

// SamePage reports whether two pages have the same body, code and tag.
func SamePage(a, b results.Page) bool {
	return a.Tag == b.Tag && bytes.Equal(a.Body, b.Body) && bytes.Equal(a.Code, b.Code)
}

// List is a source of exactly the given students, whatever its description
// says, and ends with Err if that is set.
type List struct {
	Description dataset.Meta
	Students    []results.Student
	Err         error
}

// Meta returns the description.
func (l List) Meta() dataset.Meta { return l.Description }

// All yields the students in the order of the list.
func (l List) All(context.Context) iter.Seq2[results.Student, error] {
	return func(yield func(results.Student, error) bool) {
		for _, student := range l.Students {
			if !yield(student, nil) {
				return
			}
		}
		if l.Err != nil {
			yield(results.Student{}, l.Err)
		}
	}
}
