package pagecache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"loadstone/block/cache"
	"loadstone/block/cache/rediscache"
	"loadstone/block/dataset"
	"loadstone/system/results"
)

// deletedLife is how long the mark of a deletion stays: longer than the load of
// what was there before can take and its writing can wait.
const deletedLife = 2 * time.Minute

// Corrector corrects pages in Redis and tells all servers to forget what they
// have of them. It is for whoever has corrected the database, after that was
// committed: servers that ask anew must find the new result.
//
// When Replace or Delete returns nil, no server takes the old page from Redis any
// more, and the servers have been told; each drops its own copy when it hears of
// it, within milliseconds, or else when it has read the journal, within
// JournalEvery. A server that cannot reach Redis does either once it can.
type Corrector struct {
	tier    *rediscache.Tier
	journal rueidis.Client
	set     Set
	name    string
}

// NewCorrector connects to the Redis that the text names, for the data set that a
// database says that it holds, before or after corrections. The caller must Close
// it.
func NewCorrector(ctx context.Context, redisURL string, meta dataset.Meta) (*Corrector, error) {
	cfg, err := TierConfig(redisURL, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	journal, err := connect(cfg)
	if err != nil {
		return nil, err
	}
	tier, err := rediscache.New(ctx, cfg)
	if err != nil {
		journal.Close()
		return nil, fmt.Errorf("connect to %s: %w", Redact(redisURL), err)
	}
	return &Corrector{tier, journal, SetOf(meta), Redact(redisURL)}, nil
}

// Replace puts a student's new page in place of the old one. With an error the old
// one may still be there: try again, it does no harm.
func (c *Corrector) Replace(ctx context.Context, id int64, page results.Page) error {
	item := cache.Item{Kind: cache.Present, Born: time.Now().UnixMicro(), Value: Encode(nil, page)}
	return c.correct(ctx, id, item, MaxAge)
}

// Delete makes servers ask the database for a student anew, as for one who was
// removed or added.
func (c *Corrector) Delete(ctx context.Context, id int64) error {
	return c.correct(ctx, id, cache.Item{Kind: cache.Deleted, Born: time.Now().UnixMicro()}, deletedLife)
}

func (c *Corrector) correct(ctx context.Context, id int64, item cache.Item, life time.Duration) error {
	key := Key{c.set, id}.Text()
	err := c.tier.Correct(ctx, key, item, life)
	if err == nil {
		err = note(ctx, c.journal, key)
	}
	if err != nil {
		return fmt.Errorf("correct student %d in %s: %w", id, c.name, err)
	}
	return nil
}

// Close ends the connections.
func (c *Corrector) Close() error {
	c.journal.Close()
	return c.tier.Close()
}

// replacing is how many pages are on the way to Redis at a time: enough to fill the
// pipeline.
const replacing = 32

// ReplaceAll is a Corrector's Replace for many students, as they are now. It tries
// every one before it fails.
func ReplaceAll(ctx context.Context, redisURL string, meta dataset.Meta, students []results.Student) (err error) {
	c, err := NewCorrector(ctx, redisURL, meta)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var group errgroup.Group
	group.SetLimit(replacing)
	for i := range students {
		group.Go(func() error {
			return c.Replace(ctx, students[i].ID, results.NewPage(&students[i]))
		})
	}
	return group.Wait()
}

// Correct is a Corrector for one student: page replaces what Redis has, and nil
// deletes it.
func Correct(ctx context.Context, redisURL string, meta dataset.Meta, id int64, page *results.Page) (err error) {
	c, err := NewCorrector(ctx, redisURL, meta)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if page == nil {
		return c.Delete(ctx, id)
	}
	return c.Replace(ctx, id, *page)
}
