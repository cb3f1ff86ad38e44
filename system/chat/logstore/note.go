package logstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"loadstone/system/chat"
)

// StoreNotes stores notes of a stream, all or none. It does not wait for the disk: after a loss of power
// the last of them may be missing, but never some without those that were stored before.
// While the disk is full it does not return.
func (l *Log) StoreNotes(stream int64, notes []chat.Note) error {
	l.open.RLock()
	defer l.open.RUnlock()
	if err := l.usable(); err != nil {
		return err
	}
	if err := l.db.Guard(func() error { return l.writeNotes(stream, notes) }); err != nil {
		return fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
	}
	return nil
}

func (l *Log) writeNotes(stream int64, notes []chat.Note) (err error) {
	batch := l.db.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	for _, n := range notes {
		key := noteKey(stream, n.Topic, n.Number)
		var err error
		if n.Value == nil {
			err = batch.Delete(key, nil)
		} else {
			err = batch.Set(key, n.Value, nil)
		}
		if err != nil {
			return err
		}
	}
	return batch.Commit(pebble.NoSync)
}

func noteKey(stream int64, topic chat.Topic, number uint64) []byte {
	return appendKey(nil, noteKind, uint64(stream), uint64(topic), number)
}

// Notes returns notes of a stream.
func (l *Log) Notes(stream int64, which chat.NoteRange) (found []chat.Note, err error) {
	keys := &pebble.IterOptions{LowerBound: noteKey(stream, which.Topic, which.From), UpperBound: noteKey(stream, which.Topic, which.To)}
	err = l.walk(keys, which.Newest, func(number uint64, value []byte) bool {
		if len(found) == which.Most {
			return false
		}
		found = append(found, chat.Note{Topic: which.Topic, Number: number, Value: slices.Clone(value)})
		return true
	})
	return found, err
}

// readBytes bounds what Read returns.
const readBytes = 1 << 20

// Read returns messages of a stream from an offset on, in order: one at least if there is one,
// and most at most.
func (l *Log) Read(stream int64, from uint64, most int) (found []chat.Encoded, err error) {
	next := l.Length(stream) // what is from there on in the database may not be synced
	if from >= next {
		return nil, nil
	}
	size := 0
	err = l.walk(within(messageKind, stream, from, next), false, func(number uint64, value []byte) bool {
		if size += len(value); len(found) == most || size > readBytes && len(found) > 0 {
			return false
		}
		found = append(found, chat.Encoded{Offset: number, Bytes: slices.Clone(value)})
		return true
	})
	return found, err
}

// walk calls take with the number at the end of each key, and what is under it, while it wants more.
func (l *Log) walk(keys *pebble.IterOptions, backwards bool, take func(number uint64, value []byte) bool) (err error) {
	l.open.RLock()
	defer l.open.RUnlock()
	if err := l.usable(); err != nil {
		return err
	}
	all, err := l.db.NewIter(keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	first, next := all.First, all.Next
	if backwards {
		first, next = all.Last, all.Prev
	}
	for ok := first(); ok; ok = next() {
		value, err := all.ValueAndErr()
		if err != nil {
			return err
		}
		number, err := lastNumber(all.Key())
		if err != nil {
			return err
		}
		if !take(number, value) {
			break
		}
	}
	return all.Error()
}

// Length is the offset of the next message of a stream.
func (l *Log) Length(stream int64) uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.streams[stream]; s != nil {
		return s.next
	}
	return 0
}
