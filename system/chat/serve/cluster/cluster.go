// Package cluster is the log of a chat that several servers serve together.
//
//	Say ─► raw-chats (Kafka) ─► ack ─► a place, from Redis ─┬─► this server's viewers
//	             │                         ▲                └─► those of the others
//	             └─► the republisher ──────┘  what the server that had acked it did not place
//
// Who gives every hundredth message of a room its place asks for a summary of the last two hundred, on
// summary-requests: so one server does. One that is killed before leaves that summary out.
//
// A message is accepted once Kafka has it, and shown once it has a place. Between the two the server may
// die, or Redis: then whoever republishes, one server of all for each partition, has it placed. Who
// places a message that has a place changes nothing, so both may.
//
// A server hears of places by a subscription. What it missed it reads from the history in Redis,
// and what is not there any more its viewers are told they missed, as if they had been too slow.
//
// # Another epoch
//
// Where a Redis takes over, or starts again, some of the last places may be lost and given again. So
// the epoch is another one, which Redis itself is asked for every Config.Look: what is heard of another one may as well be of
// the one before. Then the server lets nobody in, ends its connections, and goes on with the
// new epoch once nobody is left. The viewers come back, and are shown the newest messages anew. The
// republisher goes back by Config.Rewind, and places what has lost its place: it may have another one then.
//
// It fails closed: without Kafka nothing is accepted; without Redis it is accepted, and shown later.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"loadstone/block/pause"
	"loadstone/block/websocket"
	"loadstone/system/chat"
	"loadstone/system/chat/broadcast"
	"loadstone/system/chat/registry"
	"loadstone/system/chat/topics"
)

// Config says of what the log is made. Start from DefaultConfig.
type Config struct {
	Topics    topics.Config
	Broadcast broadcast.Config
	Registry  registry.Config
	// Waiting bounds the messages that are accepted and wait for their places. Those beyond are left to
	// the republisher.
	Waiting int
	// Rewind is how far the republisher goes back where another epoch begins, or partitions are given to it:
	// longer than what a replica may lack, or a disk.
	Rewind time.Duration
	// Look is how often it is asked which epoch it is, and whether Kafka answers.
	Look time.Duration
	// Results is told what is found in messages of a stream, as it is on the topic.
	Results func(topic string, stream int64, value []byte)
	// Failed is told of what goes wrong and is tried again.
	Failed func(error)
	// Registerer receives the metrics, see newMetrics.
	Registerer prometheus.Registerer
}

// DefaultConfig leaves the addresses to the caller.
func DefaultConfig() Config {
	return Config{
		Topics: topics.DefaultConfig(), Broadcast: broadcast.DefaultConfig(), Registry: registry.DefaultConfig(),
		Waiting: 1024, Rewind: time.Minute, Look: time.Second, Results: func(string, int64, []byte) {}, Failed: func(error) {},
	}
}

// Validate returns all problems of the addresses and numbers, joined, or nil.
func (c Config) Validate() error {
	return errors.Join(c.Topics.Validate(), c.Broadcast.Validate(), c.Registry.Validate())
}

// Viewers are those of this server: a hub's.
type Viewers interface {
	Publish(room int64, offset uint64, message []byte)
	Next(room int64) (next uint64, open bool)
	Skip(room int64, next uint64)
	Rooms() []int64
	Empty(ctx context.Context, code websocket.Code, reason string) bool
}

// Log is the log. It is safe for concurrent use.
type Log struct {
	*registry.Registry

	cfg       Config
	topics    *topics.Client
	broadcast *broadcast.Client
	metrics   *metrics
	waiting   chan *chat.Raw
	due       chan due
	back      chan time.Time // for the republisher: until when places were surely kept

	epoch   atomic.Uint64
	kept    time.Time   // Redis said after it that it is this epoch; once open, only look uses it
	hears   atomic.Bool // the subscription is there
	turning atomic.Bool // to another epoch
	kafka   atomic.Bool // it has answered lately
	turn    sync.Mutex  // held by who turns, and by who tells viewers what is said
}

// Open opens all parts. It waits for each for as long as the database says, and says so, see registry.Config.Await.
func Open(ctx context.Context, cfg Config) (_ *Log, err error) {
	l := &Log{cfg: cfg, metrics: newMetrics(cfg.Registerer), waiting: make(chan *chat.Raw, cfg.Waiting), due: make(chan due, dueMost), back: make(chan time.Time, 1)}
	defer func() { //nolint:contextcheck // what was said outlives ctx
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	cfg.Registry.Failed = cfg.Failed
	if l.Registry, err = registry.Open(ctx, cfg.Registry); err != nil {
		return nil, err
	}
	if err = pause.AtStart(ctx, fmt.Sprintf("Redis at %v", cfg.Broadcast.Where()), cfg.Registry.Patience, cfg.Failed, l.openBroadcast); err != nil {
		return nil, err
	}
	cfg.Topics.Registerer = cfg.Registerer
	open := func(ctx context.Context) (err error) { l.topics, err = topics.Open(ctx, cfg.Topics); return err }
	if err = pause.AtStart(ctx, fmt.Sprintf("Kafka at %v", cfg.Topics.Brokers), cfg.Registry.Patience, cfg.Failed, open); err != nil {
		return nil, err
	}
	l.kafka.Store(true)
	return l, nil
}

// openBroadcast connects to Redis, and has its epoch.
func (l *Log) openBroadcast(ctx context.Context) (err error) {
	if l.broadcast, err = broadcast.Open(ctx, l.cfg.Broadcast); err != nil {
		return err
	}
	for {
		before := time.Now()
		epoch, err := l.broadcast.Epoch(ctx)
		if err == nil {
			l.kept = before
			l.epoch.Store(uint64(epoch))
			return nil
		}
		if !pause.For(ctx, l.cfg.Look) {
			return fmt.Errorf("ask Redis for its epoch: %w", err)
		}
	}
}

// Close closes all parts, once what was said is accepted, or known not to be.
func (l *Log) Close() error {
	if l.topics != nil {
		ctx, cancel := context.WithTimeout(context.Background(), l.cfg.Topics.Timeout)
		defer cancel()
		_ = l.topics.Flush(ctx) // who is not answered by then does not know
		l.topics.Close()
	}
	if l.broadcast != nil {
		l.broadcast.Close()
	}
	if l.Registry != nil {
		return l.Registry.Close()
	}
	return nil
}

// Epoch is that of the places that viewers have.
func (l *Log) Epoch() chat.Epoch { return chat.Epoch(l.epoch.Load()) }

// Ready reports whether a broker of Kafka answers, without which no message is accepted, and whether messages are
// heard of.
func (l *Log) Ready() bool { return l.hears.Load() && l.kafka.Load() && !l.turning.Load() }

// Time is what the time is in all shows: that of this machine.
func (l *Log) Time(int64) time.Time { return time.Now() }

// Run works for the viewers until ctx ends.
func (l *Log) Run(ctx context.Context, viewers Viewers) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return l.Registry.Run(ctx) })
	all.Go(func() error { l.place(ctx); return nil })
	all.Go(func() error { l.republish(ctx); return nil })
	all.Go(func() error { l.askForSummaries(ctx); return nil })
	all.Go(func() error { l.listen(ctx, viewers); return nil })
	all.Go(func() error { l.look(ctx, viewers); return nil })
	all.Go(func() error { return l.topics.Results(ctx, l.heardResult, l.cfg.Failed) })
	return all.Wait()
}

// look asks now and then which epoch it is, and whether Kafka answers. Nobody else turns to an epoch.
func (l *Log) look(ctx context.Context, viewers Viewers) {
	for pause.For(ctx, l.cfg.Look) {
		asked, cancel := context.WithTimeout(ctx, l.cfg.Broadcast.Timeout)
		err := l.topics.Ready(asked)
		cancel()
		l.kafka.Store(err == nil)
		if err != nil && ctx.Err() == nil {
			l.cfg.Failed(fmt.Errorf("ask Kafka: %w", err))
		}
		before := time.Now()
		switch epoch, err := l.broadcast.Epoch(ctx); {
		case err == nil:
			l.turnTo(ctx, epoch, viewers)
			if epoch == l.Epoch() {
				l.kept = before
			}
		case ctx.Err() == nil:
			l.cfg.Failed(err)
		}
	}
}

// turnTo goes on with an epoch, unless it is the one that there is.
func (l *Log) turnTo(ctx context.Context, epoch chat.Epoch, viewers Viewers) {
	l.turn.Lock()
	defer l.turn.Unlock()
	if epoch == l.Epoch() {
		return
	}
	l.turning.Store(true)
	defer l.turning.Store(false)
	if viewers.Empty(ctx, websocket.GoingAway, "come back: the room begins anew") {
		l.epoch.Store(uint64(epoch))
		l.metrics.epochs.Inc()
		select {
		case l.back <- l.kept:
		default: // it is about to go back
		}
	}
}
