package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"loadstone/block/commit"
	"loadstone/system/chat"
)

// Say has a draft written. Unless it returns an error, the draft's Done is told what became
// of it. Drafts of one caller are written in the order in which it says them.
func (l *Log) Say(d *chat.Draft) error {
	if err := l.db.Down(); err != nil {
		return fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
	}
	err := l.writer.Start(d)
	switch {
	case errors.Is(err, commit.ErrFull):
		return fmt.Errorf("%w: %w", chat.ErrOverloaded, err)
	case err != nil:
		return fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
	}
	return nil
}

// commit writes a group of drafts. While the disk is full it does not return.
func (l *Log) commit(items []*chat.Draft) error {
	drafts := slices.Clone(items) // it may outlive the call
	var said []chat.Said
	err := l.db.Guard(func() (err error) {
		said, err = l.write(drafts)
		return err
	})
	if err != nil {
		failed := fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
		for _, d := range items {
			d.Done(&chat.Said{Stream: d.Stream, Err: failed})
		}
		return err
	}
	for i, d := range items {
		d.Done(&said[i])
	}
	return nil
}

// group is what is written together.
type group struct {
	log   *Log
	batch *pebble.Batch
	next  map[int64]uint64  // of the rooms of the group
	said  map[string]uint64 // the offsets of its messages, by their keys
}

func (l *Log) write(drafts []*chat.Draft) (all []chat.Said, err error) {
	g := &group{log: l, batch: l.db.NewBatch(), next: map[int64]uint64{}, said: map[string]uint64{}}
	defer func() { err = errors.Join(err, g.batch.Close()) }()
	all = make([]chat.Said, len(drafts))
	for i, d := range drafts {
		if all[i], err = g.add(d); err != nil {
			return nil, err
		}
	}
	if len(g.said) == 0 {
		return all, nil
	}
	if err := g.batch.Commit(pebble.Sync); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, next := range g.next {
		l.streams[id].next = next
	}
	l.stored.Add(float64(len(g.said)))
	return all, nil
}

// add gives a draft its offset and writes it to the batch. What makes it fail for the draft
// alone is in the result.
func (g *group) add(d *chat.Draft) (chat.Said, error) {
	said := chat.Said{Stream: d.Stream}
	key := appendSaid(nil, d.Stream, d.Message.Sender, d.Message.ID)
	var err error
	if said.Offset, said.Again, err = g.before(key); err != nil {
		return said, err
	}
	if said.Again { // also where the stream has ended meanwhile
		g.log.repeats.Inc()
		return said, nil
	}
	next, refused := g.offset(d.Stream)
	if said.Err = refused; said.Err != nil {
		return said, nil //nolint:nilerr // it is the draft that failed, and not the group
	}
	m := d.Message
	m.Offset = next
	said.Offset, said.Encoded = next, m.Append(nil)
	g.next[d.Stream], g.said[string(key)] = next+1, next
	return said, errors.Join(
		g.batch.Set(appendKey(nil, messageKind, uint64(d.Stream), next), said.Encoded, nil),
		g.batch.Set(key, binary.BigEndian.AppendUint64(nil, next), nil),
	)
}

// offset is that of the next message of a room, if there may be one.
func (g *group) offset(id int64) (uint64, error) {
	g.log.mu.RLock()
	defer g.log.mu.RUnlock()
	s := g.log.streams[id]
	switch {
	case s == nil:
		return 0, chat.ErrNoStream
	case !s.Live():
		return 0, chat.ErrEnded
	}
	if next, ok := g.next[id]; ok {
		return next, nil
	}
	return s.next, nil
}

// before looks for the message of a key, in the log and the group.
func (g *group) before(key []byte) (offset uint64, there bool, err error) {
	if offset, there = g.said[string(key)]; there {
		return offset, true, nil
	}
	value, closer, err := g.log.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	offset, err = lastNumber(value)
	return offset, true, errors.Join(err, closer.Close())
}
