package lookaside

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/cache"
	"loadstone/block/pause"
)

// ticket is what a flight may do. It is in the context of who leads the flight, and only
// used by that.
type ticket struct {
	past    bool   // load only
	renew   bool   // replace the entry that is there
	foreign string // the head of what may be overwritten
	lease   string // whoever has it may fill
	led     bool   // the flight is of who has this ticket: it began after that came
}

type ticketKey struct{}

func ticketOf(ctx context.Context) *ticket {
	t, _ := ctx.Value(ticketKey{}).(*ticket)
	return t
}

// remote is Redis as flights see it. They are only made after a look at Redis, so they
// find nothing there, and begin with the lease.
type remote struct{ *Cache }

var _ cache.Remote = remote{}

// Get implements cache.Remote.
func (remote) Get(ctx context.Context, _ string) (cache.Item, error) {
	ticketOf(ctx).led = true
	return cache.Item{}, cache.ErrMiss
}

// Lease implements cache.Remote.
func (r remote) Lease(ctx context.Context, key string, _ int64) cache.Grant {
	t := ticketOf(ctx)
	if t.past || t.renew {
		return cache.Grant{}
	}
	lease, poll, another := string([]byte{formatVersion, 'l'})+rand.Text(), r.cfg.LeasePoll, ""
	for deadline := time.Now().Add(r.cfg.LeaseWait); ; poll = min(2*poll, 8*r.cfg.LeasePoll) {
		s, err := r.exec(ctx, key, r.scripts.claim, lease, ms(r.cfg.hold()), t.foreign)
		switch {
		case err != nil:
			r.metrics.leases[leaseFailed].Inc()
			return cache.Grant{}
		case s.kind == kindNone:
			t.lease = lease
			r.metrics.leases[leaseGranted].Inc()
			return cache.Grant{Release: func() { r.release(ctx, key, t) }}
		case s.entry():
			r.metrics.leases[leaseFound].Inc()
			return cache.Grant{Found: true, Item: cache.Item{Kind: cache.Present, Born: time.Now().UnixMicro(), Value: s.raw}}
		case s.kind == kindForeign: // damaged in another way than the one that was seen
			t.foreign = s.head
		case s.kind == kindMarker:
			r.metrics.leases[leasePast].Inc()
			return cache.Grant{}
		case another != "" && another != s.head: // waited for a lease that was lost
			r.metrics.leases[leaseLost].Inc()
			return cache.Grant{}
		case s.kind == kindLease:
			another = s.head
		}
		if time.Now().After(deadline) || !pause.For(ctx, poll) {
			r.metrics.leases[leaseWaitedOut].Inc()
			return cache.Grant{}
		}
	}
}

// release gives a lease back that was not used. If that fails, Redis does.
func (r remote) release(ctx context.Context, key string, t *ticket) {
	if t.lease != "" {
		// Also when ctx has ended: the others should not have to wait.
		_, _ = r.exec(context.WithoutCancel(ctx), key, r.scripts.release, t.lease) // the tier counts failures
	}
}

// Put implements cache.Remote.
func (r remote) Put(ctx context.Context, key string, item cache.Item, _ time.Duration) {
	t, entry := ticketOf(ctx), rueidis.BinaryString(item.Value)
	life := ms(r.lifeOf(item.Value[1] == 'a'))
	var n int64
	var err error
	switch {
	case t.renew:
		n, err = r.execInt(ctx, key, r.scripts.refresh, entry, life)
	case t.lease != "":
		n, err = r.execInt(ctx, key, r.scripts.fill, t.lease, entry, life)
	default:
		return
	}
	switch {
	case err != nil:
		r.metrics.fills[fillFailed].Inc()
	case n == 0:
		r.metrics.fills[fillRefused].Inc()
	default:
		r.metrics.fills[fillDone].Inc()
	}
	if err == nil {
		t.lease = "" // used, or another's by now
	}
}

// refresh has an entry loaded again behind the caller, if this is the first to ask since its
// soft deadline and there is a slot. Who takes it on moves the deadline, for all processes;
// if it fails, another takes over then.
func (c *Cache) refresh(key string, soft int64) {
	select {
	case c.slots <- struct{}{}:
	default:
		c.metrics.refreshes[refreshSkipped].Inc()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		<-c.slots
		return
	}
	c.running.Go(func() {
		defer func() { <-c.slots }()
		later := time.Now().Add(c.cfg.hold()).UnixMilli()
		n, err := remote{c}.execInt(c.life, key, c.scripts.touch, number(soft), number(later))
		if err != nil || n == 0 {
			return // the tier counts failures
		}
		outcome := refreshDone
		if _, err := c.flights.Get(context.WithValue(c.life, ticketKey{}, &ticket{renew: true}), key); err != nil {
			outcome = refreshFailed
		}
		c.metrics.refreshes[outcome].Inc()
	})
}

// exec runs a script that answers with what is under the key.
func (c *Cache) exec(ctx context.Context, key string, script *rueidis.Lua, args ...string) (state, error) {
	var data []byte
	err := c.tier.Read(ctx, func(ctx context.Context, client rueidis.Client) (err error) {
		data, err = script.Exec(ctx, client, []string{c.cfg.Redis.Prefix + key}, args).AsBytes()
		return err
	})
	return c.stateOf(data, err)
}

// execInt runs a script that answers with a number.
func (c *Cache) execInt(ctx context.Context, key string, script *rueidis.Lua, args ...string) (n int64, err error) {
	err = c.tier.Read(ctx, func(ctx context.Context, client rueidis.Client) (err error) {
		n, err = script.Exec(ctx, client, []string{c.cfg.Redis.Prefix + key}, args).AsInt64()
		return err
	})
	return n, err
}

// number is a number as scripts get it.
func number(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
