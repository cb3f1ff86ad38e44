package results

import (
	"fmt"
	"time"

	"loadstone/block/dataset"
)

// Publication is whether results are out. The store says so, by its own clock: what
// the clock of a process that serves them says does not matter. The zero Publication is
// that of a store that has not answered yet: nothing is shown.
type Publication struct {
	// Out: results may be shown.
	Out bool
	// At is the instant from which they may, in the zone in which it was announced. It
	// is zero if they came out without one, and as long as the store has not answered.
	At time.Time
	// Left is the time until At; 0 or less if the store has not said yet that it is over.
	Left time.Duration
}

// Publication says of a state whether its results are out.
func (s State) Publication() Publication {
	p := Publication{Out: s.Published, At: s.PublishAt}
	if !s.Published {
		p.Left = time.Until(s.Due)
	}
	return p
}

// Scheduled is the state of a file that says that its results come out at an instant, zero
// if they are out: by this machine's clock.
func (s State) Scheduled(at time.Time) State {
	s.PublishAt, s.Due, s.Published = at, at, !time.Now().Before(at)
	return s
}

// Reschedule chooses when the results in a store come out. It is given the instant that the
// store has, zero for none, and the time by the store's clock.
type Reschedule func(have, now time.Time) (time.Time, error)

// Until keeps results back until an instant. The error is a *PastError if that has passed.
func Until(at time.Time) Reschedule {
	return func(_, now time.Time) (time.Time, error) {
		if !at.After(now) {
			return at, &PastError{at, now}
		}
		return at, nil
	}
}

// Lift lets results come out now. Those that are out stay as they are.
func Lift(have, now time.Time) (time.Time, error) {
	if have.After(now) {
		return now.In(have.Location()), nil
	}
	return have, nil
}

// NotBefore keeps results back until an instant that whoever filled the store gave. It lets
// none out earlier than before, and takes none back that somebody let out.
func NotBefore(at time.Time) Reschedule {
	return func(have, now time.Time) (time.Time, error) {
		if at.After(now) && (have.IsZero() || (have.After(now) && at.After(have))) {
			return at, nil
		}
		return have, nil
	}
}

// PastError says that an instant at which results are to come out has passed.
type PastError struct{ At, Now time.Time }

// Error implements error.
func (e *PastError) Error() string {
	return fmt.Sprintf("%s has passed: it is %s", e.At.Format(time.RFC3339), e.Now.In(e.At.Location()).Format(time.RFC3339))
}

// PublishAt is the instant before which nothing of the source may be shown, in the zone
// in which it was announced; zero if there is none.
func PublishAt(source dataset.Source[Student]) time.Time {
	switch s := source.(type) {
	case interface{ PublishAt() time.Time }:
		return s.PublishAt()
	case Database:
		return s.State().PublishAt
	}
	return time.Time{}
}

// Embargoed is the source, of which nothing may be shown before the instant; a zero
// one means that all of it may at once.
func Embargoed(source dataset.Source[Student], at time.Time) dataset.Source[Student] {
	return embargoed{source, at}
}

type embargoed struct {
	dataset.Source[Student]
	at time.Time
}

func (e embargoed) PublishAt() time.Time { return e.at }

// Draws implements Drawing.
func (e embargoed) Draws() bool { return draws(e.Source) }
