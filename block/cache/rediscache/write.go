package rediscache

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/cache"
)

// writeBatch is how many queued writes go to Redis together: enough that the
// round trip does not matter, few enough for one deadline.
const writeBatch = 256

// write is an item on its way.
type write struct {
	key     string
	data    []byte
	expires time.Time
}

func (w write) bytes() int64 { return int64(len(w.key) + len(w.data)) }

// Put implements cache.Remote.
func (t *Tier) Put(ctx context.Context, key string, item cache.Item, life time.Duration) {
	if _, ok := t.up(); !ok {
		t.metrics.writes[unreachable].Inc()
		return
	}
	w := write{t.cfg.Prefix + key, encode(item), time.Now().Add(life)}
	if t.cfg.Synchronous {
		t.send(ctx, []write{w})
		return
	}
	if t.queued.Add(w.bytes()) <= t.cfg.QueueBytes {
		select {
		case t.queue <- w:
			return
		default:
		}
	}
	t.queued.Add(-w.bytes())
	t.metrics.writes[dropped].Inc()
}

// write sends what is queued, as many at a time as there are.
func (t *Tier) write(ctx context.Context) {
	batch := make([]write, 0, writeBatch)
	for {
		select {
		case <-ctx.Done():
			t.metrics.writes[dropped].Add(float64(len(t.queue)))
			return
		case w := <-t.queue:
			batch = append(batch[:0], w)
		}
		for len(batch) < writeBatch && len(t.queue) > 0 {
			batch = append(batch, <-t.queue) // nobody else receives
		}
		for _, w := range batch {
			t.queued.Add(-w.bytes())
		}
		t.send(ctx, batch)
		clear(batch)
	}
}

// send writes a batch and counts what became of it.
func (t *Tier) send(ctx context.Context, batch []write) {
	client, ok := t.up()
	if !ok {
		t.metrics.writes[unreachable].Add(float64(len(batch)))
		return
	}
	commands := make(rueidis.Commands, 0, len(batch))
	for _, w := range batch {
		if life := time.Until(w.expires).Milliseconds(); life > 0 {
			commands = append(commands, client.B().Set().Key(w.key).Value(rueidis.BinaryString(w.data)).PxMilliseconds(life).Build())
		} else {
			t.metrics.writes[outdated].Inc()
		}
	}
	began := time.Now()
	timed, cancel := context.WithTimeout(ctx, t.cfg.WriteTimeout) // see DefaultConfig
	defer cancel()
	var failure error
	for _, result := range client.DoMulti(timed, commands...) {
		if err := result.Error(); err != nil {
			failure = err
			t.metrics.writes[lost].Inc()
		} else {
			t.metrics.writes[written].Inc()
		}
	}
	if failure != nil {
		_ = t.failed(ctx, opPut, began, failure) // counted there; Put has nobody to tell
	} else if len(commands) > 0 {
		t.breaker.succeed()
	}
}
