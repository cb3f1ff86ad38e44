package results

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"loadstone/block/dataset"
)

// Set is the identity of a stored data set: of one filling of one store. Whoever fills a
// store anew, be it from the same source, makes another. It is never 0.
//
// A fingerprint says what students there are, so that copies need not be made twice; a
// Set says whose pages and revisions are meant.
type Set uint64

// NewSet draws the identity of a filling.
func NewSet() Set {
	var bits [8]byte
	// Read never fails: it ends the program if the system has no random source.
	_, _ = rand.Read(bits[:])
	return Set(binary.LittleEndian.Uint64(bits[:]) | 1)
}

// State is what a store says of its data set, as it was when the store was last asked.
type State struct {
	Set Set
	// Revision is how often students were corrected since the filling.
	Revision int64
	// PublishAt is when the results are out; the zero Time if nobody has said so: then
	// they are.
	PublishAt time.Time
	// Published says that they are, by the store's own clock.
	Published bool
	// Due is PublishAt by this process's clock, as far as it was known when the store
	// answered.
	Due time.Time
	// Corrected is the revision of a student's last correction, for everybody who was
	// corrected after revision Since. Nobody modifies it.
	Corrected map[int64]int64
	Since     int64
}

// Fresh reports whether what was read of a student, when the store was known to have been
// corrected so often, still is what the store holds.
func (s State) Fresh(id, revision int64) bool {
	return revision >= s.Since && revision >= s.Corrected[id]
}

// MaxCorrections is how many corrections a State knows, the last ones: 3 MB of memory. What
// was read before those is not fresh, whosever it is.
const MaxCorrections = 1 << 16

// Mark says who was corrected by which revision.
type Mark struct{ ID, Revision int64 }

// Recalling is the state with the last corrections, newest first: MaxCorrections and one
// more, or all.
func (s State) Recalling(last []Mark) State {
	s.Corrected, s.Since = make(map[int64]int64, min(len(last), MaxCorrections)), 0
	for i, c := range last {
		if i == MaxCorrections {
			s.Since = c.Revision
			break
		}
		s.Corrected[c.ID] = max(s.Corrected[c.ID], c.Revision)
	}
	return s
}

// Database is a store that can be read whole, as it was when it was opened.
type Database interface {
	Correctable
	// State is what it said of itself then.
	State() State
}

// Drawing is a source that draws a part of its students at random, such as their codes,
// whenever it is read.
type Drawing interface{ Draws() bool }

func draws(source dataset.Source[Student]) bool {
	d, ok := source.(Drawing)
	return ok && d.Draws()
}

// filling stands in the fingerprint of a data set that was filled from a source that
// draws, before the Set.
const filling = ", fill "

// Filled describes what a store holds after it was filled from the source. It is what
// the source says of itself, unless that draws: then no other filling holds the same.
func Filled(source dataset.Source[Student], set Set) dataset.Meta {
	meta := source.Meta()
	if draws(source) {
		meta.Fingerprint = DrawnFingerprint(meta.Fingerprint, set)
	}
	return meta
}

// DrawnFingerprint is the fingerprint of a filling from a source that draws.
func DrawnFingerprint(fingerprint string, set Set) string {
	return fmt.Sprintf("%s%s%016x", fingerprint, filling, uint64(set))
}

// FilledFrom reports whether a store that is described so was filled from the source
// that is described so.
func FilledFrom(have, source dataset.Meta) bool {
	from := have
	from.Fingerprint, _, _ = strings.Cut(have.Fingerprint, filling)
	return have.Same(source) || from.Same(source)
}
