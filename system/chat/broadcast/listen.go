package broadcast

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"loadstone/block/pause"
	"loadstone/system/chat"
)

// Told is a message that got its place.
type Told struct {
	Stream  int64
	Epoch   chat.Epoch
	Offset  uint64
	Message []byte
}

// Listener hears of messages, in one goroutine. What it does holds up what comes after it.
type Listener struct {
	// Began is called when messages are heard from now on: the first time, and after a lost
	// connection.
	Began func()
	// Lost is called when they are heard no longer; err is why.
	Lost func(err error)
	// Heard is called with each message, in the order of places.
	Heard func(Told)
	// Again is called five times a second, for what could not be done before.
	Again func()
}

// waiting bounds the messages that were heard and wait for the listener. Beyond, Redis has them
// wait, until it has enough of it and ends the connection.
const waiting = 1024

// Listen hears of the messages of all rooms until ctx ends. What is no message of ours is left out.
func (c *Client) Listen(ctx context.Context, l Listener) {
	began, heard, lost := make(chan struct{}, 1), make(chan Told, waiting), make(chan error)
	var receiving sync.WaitGroup
	receiving.Go(func() { c.receive(ctx, began, heard, lost) })
	defer receiving.Wait()
	again := time.NewTicker(openPause)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-began:
			l.Began()
		case t := <-heard:
			l.Heard(t)
		case err := <-lost:
			l.Lost(err)
		case <-again.C:
			l.Again()
		}
	}
}

// receive has what Redis publishes put into the channels until ctx ends.
func (c *Client) receive(ctx context.Context, began chan<- struct{}, heard chan<- Told, lost chan<- error) {
	hears := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "psubscribe" {
			select {
			case began <- struct{}{}:
			default: // it is known
			}
		}
	})
	for ctx.Err() == nil {
		err := c.hears.Receive(hears, c.hears.B().Psubscribe().Pattern(channelPrefix+"*").Build(), func(m rueidis.PubSubMessage) {
			if t, ok := parseTold(m.Channel, m.Message); ok {
				select {
				case heard <- t:
				case <-ctx.Done():
				}
			}
		})
		select {
		case lost <- err:
		case <-ctx.Done():
			return
		}
		pause.For(ctx, openPause)
	}
}

func parseTold(channel, text string) (t Told, ok bool) {
	epoch, text, _ := strings.Cut(text, " ")
	offset, message, _ := strings.Cut(text, " ")
	var errs [3]error
	t.Epoch, errs[0] = parseEpoch(epoch)
	t.Offset, errs[1] = strconv.ParseUint(offset, 10, 64)
	t.Stream, errs[2] = strconv.ParseInt(strings.TrimPrefix(channel, channelPrefix), 10, 64)
	t.Message = []byte(message)
	return t, errs == [3]error{} && len(message) > 0 && len(message) <= chat.MaxMessage
}
