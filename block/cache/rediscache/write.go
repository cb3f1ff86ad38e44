package rediscache

import (
	"context"
	"strconv"
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

// exec is the call of putScript, or false if the item has expired meanwhile.
func (w write) exec() (rueidis.LuaExec, bool) {
	life := time.Until(w.expires).Milliseconds()
	return rueidis.LuaExec{
		Keys: []string{w.key},
		Args: []string{rueidis.BinaryString(w.data), strconv.FormatInt(life, 10)},
	}, life > 0
}

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
	calls := make([]rueidis.LuaExec, 0, len(batch))
	for _, w := range batch {
		if call, ok := w.exec(); ok {
			calls = append(calls, call)
		} else {
			t.metrics.writes[outdated].Inc()
		}
	}
	timed, cancel := context.WithTimeout(ctx, t.cfg.WriteTimeout) // see DefaultConfig
	defer cancel()
	var results []rueidis.RedisResult
	if len(calls) == 1 {
		results = []rueidis.RedisResult{putScript.Exec(timed, client, calls[0].Keys, calls[0].Args)}
	} else if len(calls) > 1 {
		results = putScript.ExecMulti(timed, client, calls...)
	}
	var failure error
	for _, result := range results {
		kept, err := result.AsInt64()
		switch {
		case err != nil:
			failure = err
			t.metrics.writes[lost].Inc()
		case kept == 0:
			t.metrics.writes[outdated].Inc()
		default:
			t.metrics.writes[written].Inc()
		}
	}
	if failure != nil {
		_ = t.failed(ctx, opPut, failure) // counted there; Put has nobody to tell
	} else if len(results) > 0 {
		t.breaker.succeed()
	}
}
