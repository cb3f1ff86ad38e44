package results

import (
	"context"
	"fmt"
	"iter"
	"strings"
)

// Meta says what a data set is.
type Meta struct {
	// Origin is for people: "seed 1, 674823 students", or the imported file's
	// name with the start of its hash. At most MaxOriginBytes bytes.
	Origin string
	// Fingerprint is for machines: data sets with equal fingerprints hold the
	// same students. At most MaxFingerprintBytes bytes.
	Fingerprint string
	// Count is the number of students.
	Count int64
}

// Bounds of the texts in a Meta, so that file headers have a fixed size.
const (
	MaxOriginBytes      = 512
	MaxFingerprintBytes = 128
)

// Same reports whether both describe the same students, whatever their origins
// are called.
func (m Meta) Same(other Meta) bool {
	return m.Fingerprint == other.Fingerprint && m.Count == other.Count
}

// madeUp begins the fingerprint of what a Generator makes.
const madeUp = "generator "

// MadeUp reports whether the students are a Generator's.
func (m Meta) MadeUp() bool { return strings.HasPrefix(m.Fingerprint, madeUp) }

// A Source is a whole data set.
//
// All yields every student exactly once, in any order, and then ends. A pair
// with an error is the last one: the data set is then incomplete, and a builder
// must publish nothing. It yields the context's error soon after the context
// ends. All may be called again; it then starts anew.
type Source interface {
	Meta() Meta
	All(ctx context.Context) iter.Seq2[Student, error]
}

// Progress is told how many of total students are done. Builders call it from
// their own goroutine every few thousand students and once at the end; it
// should return at once.
type Progress func(done, total int64)

// progressStep is how many students lie between two calls of a Progress: a few
// milliseconds of work.
const progressStep = 4096

// Each hands every student of the source to put, valid and counted: what all
// builders have in common. It fails on the first student that is not valid, on
// the first error of source or put, when the context ends, and when the source
// gives more or fewer students than its Meta says. Put must not keep the
// pointer. Progress may be nil.
func Each(ctx context.Context, source Source, progress Progress, put func(*Student) error) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	total, done := source.Meta().Count, int64(0)
	var student Student // one for all: its address goes to put
	for next, err := range source.All(ctx) {
		if err != nil {
			return fmt.Errorf("read student %d of %d: %w", done+1, total, err)
		}
		student = next
		if err := student.Validate(); err != nil {
			return fmt.Errorf("student with id %d is not valid: %w", student.ID, err)
		}
		if err := put(&student); err != nil {
			return err
		}
		done++
		if done%progressStep == 0 {
			// Sources may look at the context only when they wait.
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("stopped after %d of %d students: %w", done, total, err)
			}
			progress(done, total)
		}
	}
	if done != total {
		return fmt.Errorf("the source gave %d students instead of %d", done, total)
	}
	progress(done, total)
	return nil
}

// CheckMeta reports whether a builder can store the description.
func CheckMeta(meta Meta) error {
	if len(meta.Origin) > MaxOriginBytes || len(meta.Fingerprint) > MaxFingerprintBytes || meta.Count < 1 {
		return fmt.Errorf("description of %d students with %d bytes of origin and %d of fingerprint: there must be students, and at most %d and %d bytes",
			meta.Count, len(meta.Origin), len(meta.Fingerprint), MaxOriginBytes, MaxFingerprintBytes)
	}
	return nil
}
