package lookaside

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// Changing says that a write to a key is about to begin: until all who said so have ended,
// nobody gets anything from the cache or fills it. If it fails, the write must not take place:
// old values would be served after it. Each Changing is ended by one Changed or Unchanged of
// the same process, or by time if the write's outcome is not known.
func (c *Cache) Changing(ctx context.Context, key string) error {
	err := c.owed.begin(key, time.Now().Add(c.cfg.ChangeLife))
	if err == nil {
		if _, err = c.write(ctx, key, c.scripts.changing, c.id, ms(c.cfg.ChangeLife)); err != nil {
			c.owed.end(key, true) // nothing is written
		}
	}
	if err != nil {
		c.metrics.changes[changeRefused].Inc()
		return fmt.Errorf("tell the cache that %.80q is changing: %w", key, err)
	}
	c.metrics.changes[changeBegun].Inc()
	return nil
}

// Changed says that a write has taken place, with what is there now; its Version is that of
// the write, at least 1. It may come in any order: the highest version is the last. An error
// means that reads go past the cache until Config.ChangeLife has passed since Changing; if Redis
// has lost the marker, they may get what was there before until Redis answers and is told again.
func (c *Cache) Changed(ctx context.Context, key string, v Value) error {
	if v.Version < 1 || v.Absent && len(v.Bytes) > 0 {
		return fmt.Errorf("%.80q changed to version %d, absent %v, with %d bytes: versions of writes begin at 1, and what is absent has no bytes",
			key, v.Version, v.Absent, len(v.Bytes))
	}
	return c.ended(ctx, key, v.Version, rueidis.BinaryString(c.encode(nil, v)), v.Absent)
}

// Unchanged says that a write did not take place and will not any more. Who does not know
// that says nothing; Redis is told to forget the key after Config.ChangeLife.
func (c *Cache) Unchanged(ctx context.Context, key string) error {
	return c.ended(ctx, key, 0, "", false)
}

func (c *Cache) ended(ctx context.Context, key string, version int64, entry string, absent bool) error {
	n, err := c.write(ctx, key, c.scripts.changed, c.id, number(version), entry, ms(c.lifeOf(absent)))
	c.owed.end(key, err == nil)
	switch {
	case err != nil:
		c.metrics.changes[changeFailed].Inc()
		return fmt.Errorf("tell the cache that %.80q has changed: %w", key, err)
	case n == 1:
		c.metrics.changes[changeKept].Inc()
	default:
		c.metrics.changes[changeDropped].Inc()
	}
	return nil
}

func (c *Cache) write(ctx context.Context, key string, script *rueidis.Lua, args ...string) (n int64, err error) {
	err = c.tier.Write(ctx, func(ctx context.Context, client rueidis.Client) (err error) {
		n, err = script.Exec(ctx, client, []string{c.cfg.Redis.Prefix + key, c.cfg.Redis.Prefix + journal}, args).AsInt64()
		return err
	})
	return n, err
}
