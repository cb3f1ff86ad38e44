package publish

import (
	"context"
	"fmt"
	"time"

	"loadstone/block/pause"
	"loadstone/system/feed"
	"loadstone/system/feed/snapshot"
)

const (
	// watch is how often the log of a feed.Desk is looked at for what was taken down.
	watch = 5 * time.Second
	// skew is how far the clocks of editors' servers and of publishers may be apart.
	skew = time.Minute
	// changesRead is how many changes are read in one query.
	changesRead = 1000
)

// removals are what a publisher knows of a store's log.
type removals struct {
	began bool      // the log was read
	read  int64     // the number of the latest change
	last  time.Time // when something was last taken out of what is published
	due   bool      // that was while this publisher ran, and it has not published since
}

// look reads what is new in the log. A store that is no Desk has none.
func (r *removals) look(ctx context.Context, store feed.Store) error {
	desk, ok := store.(feed.Desk)
	if !ok {
		return nil
	}
	read, began := r.read, r.began
	done := func() error {
		r.read, r.began = read, true
		return nil
	}
	for before := int64(0); ; {
		changes, err := desk.Changes(ctx, 0, before, changesRead) // the latest first
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		for _, c := range changes {
			if c.Number <= r.read {
				return done()
			}
			read, before = max(read, c.Number), c.Number
			if c.Action == feed.TakenDown || c.Action == feed.CommentDown || c.Action == feed.Erased {
				r.due = r.due || began
				if at := time.UnixMilli(c.At); at.After(r.last) {
					r.last = at
				}
			}
		}
		if len(changes) < changesRead {
			return done()
		}
	}
}

// outlived reports whether a version is kept that may have what was taken down since.
func (r *removals) outlived(m snapshot.Manifest) bool {
	for _, e := range m.Earlier {
		if e.Published.Before(r.last.Add(skew)) {
			return true
		}
	}
	return false
}

// wait waits until it is time to publish: for so long, or until something was taken down. It reports whether ctx
// lets the caller go on.
func (p *Publisher) wait(ctx context.Context, d time.Duration) bool {
	for due := time.Now().Add(d); ; {
		left := time.Until(due)
		if !pause.For(ctx, min(left, watch)) {
			return false
		}
		if left <= watch {
			return true
		}
		bounded, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
		err := p.look(bounded, p.cfg.Store)
		cancel()
		if err == nil && p.due { // what cannot be read now is read by the next look, or the publication
			return true
		}
	}
}
