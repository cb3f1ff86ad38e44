package pagecache

import (
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
const markerPrefix = "results.preloaded:1:"

// Preload writes the pages of a whole data set into Redis, so that the first
// look-up of each finds it there. The source is a complete database: one that is
// still being filled cannot be opened as a source.
//
// When it is done, it writes down that Redis has this data set, by origin and count.
// A Redis that has it is left alone: written and existing are then 0 and all. Pages
// that are there already, from a preload that was broken off or from servers, stay
// as they are. Progress may be nil.
//
// Redis may still forget pages, for want of memory or because their day is over;
// servers load those again one by one, and a later Preload does not.
func Preload(ctx context.Context, redisURL string, source dataset.Source[results.Student], progress dataset.Progress) (written, existing int64, err error) {
	tier, err := TierConfig(redisURL, prometheus.NewRegistry())
	if err != nil {
		return 0, 0, err
	}
	meta := source.Meta()
	marker, err := openMarker(ctx, tier, meta)
	if err != nil {
		return 0, 0, fmt.Errorf("preload %s: %w", Redact(redisURL), err)
	}
	defer func() { err = errors.Join(err, marker.tier.Close()) }()
	if done, err := marker.read(ctx); err != nil {
		return 0, 0, fmt.Errorf("preload %s: %w", Redact(redisURL), err)
	} else if done {
		return 0, meta.Count, nil
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	began := time.Now()
	p := rediscache.DefaultPreload(tier, MaxAge)
	p.Jitter, p.Seed = Jitter, uint64(SetOf(meta))
	p.Progress = func(now rediscache.Progress) { progress(now.Written+now.Existing, meta.Count) }
	did, err := p.Run(ctx, entries(ctx, source))
	if err == nil {
		// It must not outlive the first page to expire.
		life := time.Duration(float64(MaxAge)*(1-Jitter)) - time.Since(began)
		err = marker.write(ctx, life)
	}
	if err != nil {
		return did.Written, did.Existing, fmt.Errorf("preload %s: %w", Redact(redisURL), err)
	}
	return did.Written, did.Existing, nil
}

// errEnough ends the reading of a source whose consumer has stopped.
var errEnough = errors.New("nobody wants more")

// entries are the pages of a source that is checked while it is read: it fails if
// there are fewer or more students than it says.
func entries(ctx context.Context, source dataset.Source[results.Student]) iter.Seq2[rediscache.Entry, error] {
	set := SetOf(source.Meta())
	return func(yield func(rediscache.Entry, error) bool) {
		err := results.Each(ctx, source, nil, func(s *results.Student) error {
			page := results.NewPage(s)
			value := Encode(make([]byte, 0, header+len(page.Code)+len(page.Body)), page)
			if !yield(rediscache.Entry{Key: Key{set, s.ID}.Text(), Value: value}, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(rediscache.Entry{}, err)
		}
	}
}

// marker is the note in Redis that a data set has been preloaded.
type marker struct {
	tier *rediscache.Tier
	key  string
	note string
}

func openMarker(ctx context.Context, pages rediscache.Config, meta dataset.Meta) (*marker, error) {
	pages.Prefix, pages.Registerer = markerPrefix, prometheus.NewRegistry()
	// The note is read once, perhaps while Redis reads its own data back.
	pages.ReadTimeout = pages.WriteTimeout
	tier, err := rediscache.New(ctx, pages)
	if err != nil {
		return nil, err
	}
	return &marker{
		tier: tier, key: strconv.FormatUint(uint64(SetOf(meta)), base),
		note: fmt.Sprintf("%d students: %s", meta.Count, revision.ReplaceAllString(meta.Origin, "")),
	}, nil
}

// read reports whether the data set is there.
func (m *marker) read(ctx context.Context) (bool, error) {
	item, err := m.tier.Get(ctx, m.key)
	switch {
	case err == nil:
		return string(item.Value) == m.note, nil
	case errors.Is(err, cache.ErrMiss), errors.Is(err, cache.ErrGarbage):
		return false, nil
	}
	return false, fmt.Errorf("ask whether the pages are there: %w", err)
}

func (m *marker) write(ctx context.Context, life time.Duration) error {
	if life < time.Second {
		return nil // the first pages have expired before the last was there
	}
	item := cache.Item{Kind: cache.Present, Born: time.Now().UnixMicro(), Value: []byte(m.note)}
	if err := m.tier.Correct(ctx, m.key, item, life); err != nil {
		return fmt.Errorf("note that the pages are there: %w", err)
	}
	return nil
}
