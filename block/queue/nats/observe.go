package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"loadstone/block/queue"
)

// ErrNoQueue is returned by Stats while nobody has made the queue.
var ErrNoQueue = errors.New("there is no such queue")

// Observer is a connection that asks how a queue stands. It neither makes nor changes
// one.
type Observer struct {
	name string
	conn *natsgo.Conn
	js   jetstream.JetStream
}

// Observe connects, or goes on trying to. The Observer must be closed.
func Observe(url, name string) (*Observer, error) {
	conn, err := natsgo.Connect(url,
		natsgo.RetryOnFailedConnect(true), natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(reconnectPause), natsgo.ReconnectJitter(reconnectPause, reconnectPause),
		natsgo.Timeout(dialTimeout), natsgo.PingInterval(pingInterval), natsgo.MaxPingsOutstanding(maxPings),
		// What cannot be sent now fails now: the producer's caller waits for it.
		natsgo.ReconnectBufSize(-1),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to the broker %s: %w", url, err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("use the broker %s: %w", url, err)
	}
	return &Observer{name: name, conn: conn, js: js}, nil
}

func (o *Observer) dead() string { return o.name + "_DEAD" }

// Stats asks the broker how the queue stands. Its error wraps ErrNoQueue while there is
// none.
func (o *Observer) Stats(ctx context.Context) (queue.Stats, error) {
	main, err := o.info(ctx, o.name)
	if err != nil {
		return queue.Stats{}, fmt.Errorf("ask for the queue %s: %w", o.name, err)
	}
	dead, err := o.info(ctx, o.dead())
	if err != nil {
		return queue.Stats{}, fmt.Errorf("ask for the dead letters of %s: %w", o.name, err)
	}
	stats := queue.Stats{
		Depth: int64(main.State.Msgs), Capacity: main.Config.MaxMsgs, OldestKnown: true, Dead: int64(dead.State.Msgs),
	}
	if main.State.Msgs > 0 {
		stats.Oldest = max(0, time.Since(main.State.FirstTime))
	}
	return stats, nil
}

func (o *Observer) info(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	s, err := o.js.Stream(ctx, stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, ErrNoQueue
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// Ready reports whether there is a connection to a broker.
func (o *Observer) Ready() bool { return o.conn.IsConnected() }

// Close ends the connection.
func (o *Observer) Close() error {
	o.conn.Close()
	return nil
}
