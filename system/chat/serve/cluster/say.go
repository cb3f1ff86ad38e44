package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"loadstone/system/chat"
	"loadstone/system/chat/topics"
)

// Say has a draft accepted. Unless it returns an error, the draft's Done is told what became of it.
func (l *Log) Say(d *chat.Draft) error {
	s, err := l.Stream(d.Stream)
	if err == nil && !s.Live() {
		err = chat.ErrEnded
	}
	if err != nil {
		return err
	}
	raw := &chat.Raw{Stream: d.Stream, Message: d.Message}
	return l.topics.Say(raw, func(err error) {
		if err != nil {
			d.Done(&chat.Said{Stream: d.Stream, Err: err})
			return
		}
		l.metrics.stored.Inc()
		d.Done(&chat.Said{Stream: d.Stream, Unplaced: true})
		select {
		case l.waiting <- raw:
		default:
			l.metrics.left.Inc()
		}
	})
}

// together bounds the messages that are placed in one pipeline.
const together = 256

// place has places given to what this server accepted, until ctx ends. What cannot have one now is left to
// the republisher.
func (l *Log) place(ctx context.Context) {
	for {
		var some []*chat.Raw
		select {
		case <-ctx.Done():
			return
		case raw := <-l.waiting:
			some = append(some, raw)
		}
		for len(some) < together && len(l.waiting) > 0 {
			some = append(some, <-l.waiting) // nobody else takes any
		}
		placed, err := l.placeAll(ctx, some)
		l.metrics.placed.Add(float64(placed))
		if err != nil && ctx.Err() == nil {
			l.metrics.left.Add(float64(len(some) - placed))
			l.cfg.Failed(err)
		}
	}
}

// placeAll gives places, and returns how many messages had none before. The error is the first's.
func (l *Log) placeAll(ctx context.Context, all []*chat.Raw) (placed int, err error) {
	for i, p := range l.broadcast.Place(ctx, all) {
		switch {
		case p.Err != nil && err == nil:
			err = fmt.Errorf("give a message its place: %w", p.Err)
		case p.Err == nil && !p.Again:
			placed++
			l.summaryDue(all[i].Stream, p.Offset+1)
		}
	}
	return placed, err
}

// Of the republisher: it is late by up to a second, so that it hardly ever finds what has no place.
const (
	republisher     = "republisher"
	republishMost   = 500
	republishLinger = 500 * time.Millisecond
)

// republish has places given to what was accepted by whichever server and has none, until ctx ends. What
// is older than its id is known is left out: nobody could tell whether it was shown before.
func (l *Log) republish(ctx context.Context) {
	reader := topics.Reader{Group: republisher, Most: republishMost, Linger: republishLinger, Rewind: l.cfg.Rewind, Back: l.back, Failed: l.cfg.Failed, Take: func(ctx context.Context, batch []topics.Record) error {
		oldest := time.Now().Add(-l.cfg.Broadcast.Remember / 2).UnixMilli()
		var some []*chat.Raw
		for i := range batch {
			if batch[i].Err == nil && batch[i].Message.At > oldest {
				some = append(some, &batch[i].Message)
			}
		}
		for len(some) > 0 {
			n := min(together, len(some))
			placed, err := l.placeAll(ctx, some[:n])
			l.metrics.republished.Add(float64(placed))
			if err != nil {
				return err
			}
			some = some[n:]
		}
		return nil
	}}
	if err := l.topics.Read(ctx, reader); err != nil && !errors.Is(err, context.Canceled) {
		l.cfg.Failed(err)
	}
}
