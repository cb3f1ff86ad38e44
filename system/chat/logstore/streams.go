package logstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"loadstone/system/chat"
)

// stream is a stream with its log's length.
type stream struct {
	chat.Stream
	next uint64    // the offset of the next message; those before are durable
	zero time.Time // the show's time when none had elapsed
}

// AddStreams stores streams that there are not yet. One whose id there is stays as it is.
func (l *Log) AddStreams(all []chat.Stream) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	return l.storeStreams(slices.DeleteFunc(slices.Clone(all), func(s chat.Stream) bool {
		_, err := l.Stream(s.ID)
		return err == nil
	})...)
}

// AddStream stores a stream under its id. The error wraps chat.ErrThere if there is one already.
func (l *Log) AddStream(s chat.Stream) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if _, err := l.Stream(s.ID); err == nil {
		return fmt.Errorf("stream %d: %w", s.ID, chat.ErrThere)
	}
	return l.storeStreams(s)
}

// StartStream stores a stream under the next id, which it returns with it, unless its host has
// one that is live: then the error is chat.ErrLive.
func (l *Log) StartStream(s chat.Stream) (chat.Stream, error) {
	l.changing.Lock()
	defer l.changing.Unlock()
	s.ID = 1
	l.mu.RLock()
	for id, have := range l.streams {
		if have.Live() && have.HostID == s.HostID {
			s.ID = 0
			break
		}
		s.ID = max(s.ID, id+1)
	}
	l.mu.RUnlock()
	if s.ID == 0 {
		return s, chat.ErrLive
	}
	return s, l.storeStreams(s)
}

// EndStream ends a stream: nothing that is said in its room after it has returned is accepted. What was said
// before may be stored a little later than that.
func (l *Log) EndStream(id int64, at time.Time) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	s, err := l.Stream(id)
	if err != nil || !s.Live() {
		return err
	}
	s.Ended = at
	return l.storeStreams(s)
}

// storeStreams is called with l.changing held.
func (l *Log) storeStreams(all ...chat.Stream) error {
	l.open.RLock()
	defer l.open.RUnlock()
	if err := l.usable(); err != nil {
		return err
	}
	// While the disk is full it does not return. Nobody but other changes waits for it.
	if err := l.db.Guard(func() error { return l.writeStreams(all) }); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
	for _, s := range all {
		if have := l.streams[s.ID]; have != nil {
			have.Stream = s
		} else {
			have = &stream{Stream: s}
			l.anchor(have, s.Started)
			l.streams[s.ID] = have
		}
	}
	return nil
}

func (l *Log) writeStreams(all []chat.Stream) (err error) {
	batch := l.db.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	for _, s := range all {
		if s.ID < 1 || s.ID > chat.MaxStream {
			return fmt.Errorf("stream %d: an id is from 1 to %d", s.ID, int64(chat.MaxStream))
		}
		value, err := json.Marshal(s)
		if err == nil {
			err = batch.Set(appendKey(nil, streamKind, uint64(s.ID)), value, nil)
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(pebble.Sync)
}

// anchor sets a show's time to the wall's, or to what it has been already.
func (l *Log) anchor(s *stream, been time.Time) {
	now := l.cfg.Now()
	if now.Before(been) {
		now = been
	}
	s.zero = now.Round(0).Add(-l.cfg.Elapsed()) // without the monotonic time that it may have
}

// Time is the time in a show: of what is said in it, and of its end. It was the wall's when the
// show was added, or the log opened, and runs on by the monotonic clock, so that it goes neither
// back nor ahead where somebody sets the wall's. A log that is opened while the wall's is behind the
// last message goes on from that message's. So one show's times may be off the wall's by what that
// was set meanwhile, and those of the next are not.
func (l *Log) Time(id int64) time.Time {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.streams[id]; s != nil {
		return s.zero.Add(l.cfg.Elapsed())
	}
	return l.cfg.Now()
}

// Stream returns a stream, or an error that wraps chat.ErrNoStream.
func (l *Log) Stream(id int64) (chat.Stream, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.streams[id]; s != nil {
		return s.Stream, nil
	}
	return chat.Stream{}, chat.ErrNoStream
}

// Streams returns all streams, those that are live first, and of them the newest first. Nobody may change it. It is
// sorted when the first asks after a change: anybody may ask, as often as one likes.
func (l *Log) Streams() []chat.Stream {
	l.mu.RLock()
	list := l.list
	l.mu.RUnlock()
	if list != nil {
		return list
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = l.sorted()
	}
	return l.list
}

// sorted is called with l.mu held.
func (l *Log) sorted() []chat.Stream {
	all := make([]chat.Stream, 0, len(l.streams))
	for s := range maps.Values(l.streams) {
		all = append(all, s.Stream)
	}
	slices.SortFunc(all, chat.CompareStreams)
	return all
}
