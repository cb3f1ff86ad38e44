// Package dataset is whole data sets: where they come from, how all of one is read with
// progress, and how it is loaded in parallel so that an interrupted load goes on where
// it stopped. It knows neither what the records are nor where they go.
package dataset

import (
	"context"
	"fmt"
	"iter"
	"unicode/utf8"
)

// Meta says what a data set is.
type Meta struct {
	// Origin is for people: "seed 1, 674823 students", or the imported file's
	// name with the start of its hash. At most MaxOriginBytes bytes.
	Origin string `json:"origin"`
	// Fingerprint is for machines: data sets with equal fingerprints hold the
	// same records. At most MaxFingerprintBytes bytes.
	Fingerprint string `json:"fingerprint"`
	// Count is the number of records.
	Count int64 `json:"count"`
}

// Bounds of the texts in a Meta, so that file headers have a fixed size.
const (
	MaxOriginBytes      = 512
	MaxFingerprintBytes = 128
)

// Same reports whether both describe the same records, whatever their origins
// are called.
func (m Meta) Same(other Meta) bool {
	return m.Fingerprint == other.Fingerprint && m.Count == other.Count
}

// Check reports whether the description can be stored.
func (m Meta) Check() error {
	if len(m.Origin) > MaxOriginBytes || len(m.Fingerprint) > MaxFingerprintBytes || m.Count < 1 {
		return fmt.Errorf("description of %d records with %d bytes of origin and %d of fingerprint: there must be records, and at most %d and %d bytes",
			m.Count, len(m.Origin), len(m.Fingerprint), MaxOriginBytes, MaxFingerprintBytes)
	}
	return nil
}

// Revised describes the data set after its corrections: revision is how often it
// was corrected, and fingerprint that of what it holds now. A data set that was
// never corrected, revision 0, is described as it was.
func (m Meta) Revised(revision int64, fingerprint string) Meta {
	if revision == 0 {
		return m
	}
	suffix := fmt.Sprintf(", revision %d", revision)
	origin := m.Origin[:min(len(m.Origin), MaxOriginBytes-len(suffix))]
	for !utf8.ValidString(origin) && len(origin) > 0 {
		origin = origin[:len(origin)-1]
	}
	m.Origin, m.Fingerprint = origin+suffix, fingerprint
	return m
}

// A Source is a whole data set.
//
// All yields every record exactly once, in any order, and then ends. A pair
// with an error is the last one: the data set is then incomplete, and a builder
// must publish nothing. It yields the context's error soon after the context
// ends. All may be called again; it then starts anew.
type Source[T any] interface {
	Meta() Meta
	All(ctx context.Context) iter.Seq2[T, error]
}

// Progress is told how many of total records are done, every few thousand records and
// once at the end, by one goroutine at a time; it should return at once.
type Progress func(done, total int64)

// progressStep is how many records lie between two calls of a Progress: a few
// milliseconds of work.
const progressStep = 4096

// Each hands every record of the source to put, counted. It fails on the first error of
// source or put, when the context ends, and when the source gives more or fewer records
// than its Meta says. Put must not keep the pointer. Progress may be nil.
func Each[T any](ctx context.Context, source Source[T], progress Progress, put func(*T) error) error {
	if progress == nil {
		progress = func(int64, int64) {}
	}
	total, done := source.Meta().Count, int64(0)
	var record T // one for all: its address goes to put
	for next, err := range source.All(ctx) {
		if err != nil {
			return fmt.Errorf("read record %d of %d: %w", done+1, total, err)
		}
		record = next
		if err := put(&record); err != nil {
			return err
		}
		done++
		if done%progressStep == 0 {
			// Sources may look at the context only when they wait.
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("stopped after %d of %d records: %w", done, total, err)
			}
			progress(done, total)
		}
	}
	if done != total {
		return fmt.Errorf("the source gave %d records instead of %d", done, total)
	}
	progress(done, total)
	return nil
}
