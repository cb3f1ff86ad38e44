package rediscache

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/cache"
)

// idLength is the length of a process's id at the beginning of its messages.
const idLength = 16

// channel is where corrections are told. No key has that name: the prefix of a
// key is followed by a key's text, not by an exclamation mark at the front.
func (t *Tier) channel() string { return "!" + t.cfg.Prefix + "corrections" }

// Correct implements cache.Remote. It asks Redis even when the breaker is open: a
// correction is rare and worth a try.
func (t *Tier) Correct(ctx context.Context, key string, item cache.Item, life time.Duration) error {
	client := t.client.Load()
	if client == nil {
		return fmt.Errorf("redis %s: %w", opCorrect, cache.ErrDown)
	}
	timed, cancel := context.WithTimeout(ctx, t.cfg.WriteTimeout) // see DefaultConfig
	defer cancel()
	keys := []string{t.cfg.Prefix + key}
	args := []string{
		rueidis.BinaryString(encode(item)), strconv.FormatInt(max(1, life.Milliseconds()), 10), t.channel(), t.id + key,
	}
	for attempt := 1; ; attempt++ {
		err := correctScript.Exec(timed, *client, keys, args).Error()
		if err == nil {
			return nil
		}
		// A connection that was lost while nobody used it fails the first call
		// after that. To correct twice does no harm.
		if _, answered := rueidis.IsRedisErr(err); answered || attempt == corrections || !pause(timed, correctionPause) {
			return t.failed(ctx, opCorrect, err)
		}
	}
}

// A correction is tried a few times within WriteTimeout: each connection may be
// lost, and Redis may be restarting.
const (
	corrections     = 5
	correctionPause = 20 * time.Millisecond
)

// Watch implements cache.Remote.
func (t *Tier) Watch(drop func(key string)) { t.drop.Store(&drop) }

// subscribe hears of corrections, and subscribes again when the connection was
// lost. What was told in between is not heard; it is bounded by the cache's MaxAge,
// and the gap is counted.
func (t *Tier) subscribe(ctx context.Context) {
	for {
		if client, ok := t.up(); ok {
			// It has no deadline: it ends with ctx or with the connection,
			// which rueidis pings every ConnWriteTimeout.
			err := client.Receive(ctx, client.B().Subscribe().Channel(t.channel()).Build(), t.hear)
			if ctx.Err() == nil && err != nil {
				t.metrics.gaps.Inc()
			}
		}
		if !pause(ctx, t.cfg.ProbeEvery) {
			return
		}
	}
}

func (t *Tier) hear(message rueidis.PubSubMessage) {
	drop := t.drop.Load()
	if drop == nil || len(message.Message) < idLength || message.Message[:idLength] == t.id {
		return
	}
	(*drop)(message.Message[idLength:])
}
