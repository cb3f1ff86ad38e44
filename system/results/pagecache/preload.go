package pagecache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
	"loadstone/block/dataset"
	"loadstone/system/results"
)

// markerPrefix begins the keys that say which data sets Redis has been filled with.
const markerPrefix = "results.preloaded:2:"

// Preload writes the pages of a whole data set into Redis, so that the first
// look-up of each finds it there. They live for MaxAge after the results are out, less up
// to a tenth. The database holds all of its data set: one that is still being filled cannot
// be opened.
//
// When it is done, it writes down that Redis has this data set, at this revision, for this
// time of publication. A Redis that has it is left alone: written is then 0. Progress may be
// nil.
//
// Redis may still forget pages, for want of memory or because their day is over;
// servers load those again one by one. After that day a Preload fills it again.
func Preload(ctx context.Context, redisURL string, db results.Database, progress dataset.Progress) (written int64, err error) {
	tier, err := TierConfig(redisURL, prometheus.NewRegistry())
	if err != nil {
		return 0, err
	}
	written, err = preload(ctx, tier, db, progress)
	if err != nil {
		return written, fmt.Errorf("preload %s: %w", Redact(redisURL), err)
	}
	return written, nil
}

func preload(ctx context.Context, tier rediscache.Config, db results.Database, progress dataset.Progress) (written int64, err error) {
	state, count := db.State(), db.Meta().Count
	marker := rediscache.Entry{
		Key:   strconv.FormatUint(uint64(state.Set), base),
		Value: fmt.Appendf(nil, "%d students, revision %d, published %d", count, state.Revision, state.PublishAt.Unix()),
	}
	if done, err := isMarked(ctx, tier, marker); err != nil || done {
		return 0, err
	}
	p := rediscache.DefaultPreload(tier, MaxAge)
	if state.PublishAt.After(p.Born) {
		p.Born = state.PublishAt
	}
	p.Jitter, p.Seed = Jitter, uint64(state.Set)
	if progress != nil {
		p.Progress = func(written int64) { progress(written, count) }
	}
	if written, err = p.Run(ctx, entries(ctx, db)); err != nil {
		return written, err
	}
	// It must not outlive the first page to expire.
	m := rediscache.DefaultPreload(tier, MaxAge-time.Duration(float64(MaxAge)*Jitter))
	m.Prefix, m.Born = markerPrefix, p.Born
	_, err = m.Run(ctx, func(yield func(rediscache.Entry, error) bool) { yield(marker, nil) })
	return written, err
}

// patience is how long Redis may take to say whether it has the pages.
const patience = 30 * time.Second

// errEnough ends the reading of a source whose consumer has stopped.
var errEnough = errors.New("nobody wants more")

// entries are the pages of a database that is checked while it is read: it fails if
// there are fewer or more students than it says.
func entries(ctx context.Context, db results.Database) iter.Seq2[rediscache.Entry, error] {
	state := db.State()
	return func(yield func(rediscache.Entry, error) bool) {
		err := results.Each(ctx, db, nil, func(s *results.Student) error {
			page := kept{results.NewPage(s), state.Revision}
			value := encode(make([]byte, 0, Overhead+len(page.Code)+len(page.Body)), page)
			if !yield(rediscache.Entry{Key: Key{state.Set, s.ID}.Text(), Value: value}, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(rediscache.Entry{}, err)
		}
	}
}

// isMarked reports whether the marker is there as it is.
func isMarked(ctx context.Context, pages rediscache.Config, marker rediscache.Entry) (done bool, err error) {
	pages.Prefix = markerPrefix
	// The marker is read once, on a machine that may be starting everything else, and without
	// it a system does not start: with the time that a batch has.
	pages.ReadTimeout, pages.WriteTimeout = patience, patience
	tier, err := rediscache.New(ctx, pages)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, tier.Close()) }()
	item, err := tier.Get(ctx, marker.Key)
	switch {
	case err == nil:
		return bytes.Equal(item.Value, marker.Value), nil
	case errors.Is(err, cache.ErrMiss), errors.Is(err, cache.ErrGarbage):
		return false, nil
	}
	return false, fmt.Errorf("ask whether the pages are there: %w", err)
}
