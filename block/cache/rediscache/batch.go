package rediscache

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/cache"
)

// batchKeys is how many keys one batch asks for at most.
const batchKeys = 128

// batches puts look-ups that begin in the same moment into one pipeline, with one deadline
// and one wake-up: each by itself costs this process a timer, a place in rueidis's queue and
// a turn of its goroutines, and both sides a system call for every few.
//
// Who begins a batch lets the goroutines run that are ready, which may add to it, and then
// asks for all. That is no delay when there are none, and takes no clock.
type batches struct {
	mu   sync.Mutex
	open *batch // the one that takes keys, or nil
}

// batch is asked by who began it; results are there once done is closed.
type batch struct {
	began   time.Time
	keys    []string
	results []rueidis.RedisResult
	done    chan struct{}
}

// join adds a key to the batch that is open, or to a new one, and returns its place.
func (bs *batches) join(key string) (*batch, int) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.open == nil {
		bs.open = &batch{began: time.Now(), done: make(chan struct{})}
	}
	b := bs.open
	b.keys = append(b.keys, key)
	if len(b.keys) == batchKeys {
		bs.open = nil
	}
	return b, len(b.keys) - 1
}

// seal ends the adding to a batch.
func (bs *batches) seal(b *batch) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.open == b {
		bs.open = nil
	}
}

// Bytes returns what Redis has under a key, which needs a prefix of its own. Errors are those
// of Read. A look-up whose ctx cannot be cancelled is made together with others.
func (t *Tier) Bytes(ctx context.Context, key string) (data []byte, err error) {
	if ctx.Done() != nil {
		err = t.Read(ctx, func(ctx context.Context, client rueidis.Client) (err error) {
			data, err = client.Do(ctx, client.B().Get().Key(key).Build()).AsBytes()
			return err
		})
		return data, err
	}
	client, ok := t.up()
	if !ok {
		return nil, cache.ErrDown
	}
	b, place := t.batches.join(key)
	if place == 0 {
		runtime.Gosched()
		t.batches.seal(b)
		t.fetch(ctx, client, b)
	} else {
		<-b.done
	}
	data, err = b.results[place].AsBytes()
	return data, t.end(ctx, opGet, b.began, err)
}

// fetch asks for the keys of a sealed batch, within ReadTimeout.
func (t *Tier) fetch(ctx context.Context, client rueidis.Client, b *batch) {
	defer close(b.done)
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ReadTimeout)
	defer cancel()
	commands := make(rueidis.Commands, len(b.keys))
	for i, key := range b.keys {
		commands[i] = client.B().Get().Key(key).Build()
	}
	b.results = client.DoMulti(ctx, commands...)
}
