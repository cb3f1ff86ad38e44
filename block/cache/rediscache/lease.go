package rediscache

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/cache"
	"loadstone/block/pause"
)

// Lease implements cache.Remote. A lease is the key "!"+prefix+key with a token
// that only its holder knows, set if nobody has it, with a time to live: Redis
// gives it back for a holder that has died. Whoever finds it taken looks again
// after a while, for the item and for the lease, in one round trip.
func (t *Tier) Lease(ctx context.Context, key string, after int64) cache.Grant {
	if t.cfg.Lease == nil {
		return cache.Grant{}
	}
	token, poll := rand.Text(), t.cfg.Lease.Poll
	for deadline := time.Now().Add(t.cfg.Lease.Wait); ; poll = min(2*poll, 8*t.cfg.Lease.Poll) {
		client, ok := t.up()
		if !ok {
			return cache.Grant{} // counted by Get as down
		}
		began := time.Now()
		item, held, err := t.claim(ctx, client, key, token)
		if err != nil {
			_ = t.failed(ctx, opLease, began, err) // counted there; the caller loads
			return cache.Grant{}
		}
		t.breaker.succeed()
		release := func() { t.release(ctx, client, key, token) }
		switch {
		case item.Kind != 0 && item.Born > after:
			if held {
				release()
			}
			t.metrics.leases[found].Inc()
			return cache.Grant{Item: item, Found: true}
		case held:
			t.metrics.leases[granted].Inc()
			return cache.Grant{Release: release}
		case time.Now().After(deadline) || !pause.For(ctx, poll):
			t.metrics.leases[waitedOut].Inc()
			return cache.Grant{}
		}
	}
}

func (t *Tier) leaseKey(key string) string { return "!" + t.cfg.Prefix + key }

// claim tries to take the lease and looks for the item. An item of kind 0 is none.
func (t *Tier) claim(ctx context.Context, client rueidis.Client, key, token string) (cache.Item, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ReadTimeout) // see DefaultConfig: it is a look-up
	defer cancel()
	results := client.DoMulti(ctx,
		client.B().Set().Key(t.leaseKey(key)).Value(token).Nx().Px(t.cfg.Lease.Hold).Build(),
		client.B().Get().Key(t.cfg.Prefix+key).Build())
	err := results[0].Error()
	held := err == nil
	if err != nil && !rueidis.IsRedisNil(err) {
		return cache.Item{}, false, err
	}
	data, err := results[1].AsBytes()
	switch {
	case rueidis.IsRedisNil(err):
		return cache.Item{}, held, nil
	case err != nil:
		return cache.Item{}, false, err
	}
	item, err := decode(data)
	if err != nil {
		item = cache.Item{} // garbage is not what others wait for
	}
	return item, held, nil
}

// release gives a lease back. If that fails, Redis does after Hold.
func (t *Tier) release(ctx context.Context, client rueidis.Client, key, token string) {
	// Also when ctx has ended: the others should not have to wait for Hold.
	ctx, began := context.WithoutCancel(ctx), time.Now()
	timed, cancel := context.WithTimeout(ctx, t.cfg.WriteTimeout) // see DefaultConfig
	defer cancel()
	if err := releaseScript.Exec(timed, client, []string{t.leaseKey(key)}, []string{token}).Error(); err != nil {
		_ = t.failed(ctx, opLease, began, err) // counted there
	}
}

// releaseScript deletes the lease KEYS[1] if it is still the one with the token
// ARGV[1]: it may have expired and be somebody else's.
var releaseScript = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
