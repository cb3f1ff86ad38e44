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
	began   bool                // the log was read
	latest  feed.Change         // that was read
	last    time.Time           // when something was last taken out of what is published
	removed map[int64]time.Time // posts that were, or comments of them, and that may be published yet
}

// look reads what is new in the log. A store that is no Desk has none.
func (r *removals) look(ctx context.Context, store feed.Store) error {
	desk, ok := store.(feed.Desk)
	if !ok {
		return nil
	}
	for {
		changes, err := desk.Since(ctx, r.latest.Number-1, changesRead) // and the latest once more
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		if r.latest.Number > 0 {
			if len(changes) == 0 || !sameChange(changes[0], r.latest) { // the store was restored from a backup: all of it is new
				r.latest = feed.Change{}
				continue
			}
			changes = changes[1:]
		}
		for _, c := range changes {
			r.note(c)
		}
		if len(changes) < changesRead-1 {
			r.began = true
			return nil
		}
	}
}

// sameChange compares what an erasure does not take out of the log.
func sameChange(a, b feed.Change) bool {
	a.Title, b.Title = "", ""
	return a == b
}

// note reads one entry of the log. What comes while this publisher runs counts as of now, whatever the editor's clock
// says, and however long what is published was being read.
func (r *removals) note(c feed.Change) {
	r.latest = c
	if c.Action != feed.TakenDown && c.Action != feed.CommentDown && c.Action != feed.Erased {
		return
	}
	at := time.UnixMilli(c.At)
	if now := time.Now(); r.began && now.After(at) {
		at = now
	}
	if at.After(r.last) {
		r.last = at
	}
	if r.removed == nil {
		r.removed = map[int64]time.Time{}
	}
	r.removed[c.Post] = at
}

// left are the posts that the log says are removed and that a version may have none the less.
func (r *removals) left(m snapshot.Manifest) (posts []int64) {
	for post, at := range r.removed {
		if m.Published.Before(at.Add(skew)) {
			posts = append(posts, post)
		}
	}
	return posts
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
		if err == nil && len(p.removed) > 0 { // what cannot be read now is read by the next look, or the publication
			return true
		}
	}
}
