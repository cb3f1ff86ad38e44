package logstore

import (
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"loadstone/system/chat"
)

// Before returns the last messages before an offset, the oldest first, and the offset of the
// next message of the room.
func (l *Log) Before(id int64, offset uint64, limit chat.Limit) (found []chat.Encoded, next uint64, err error) {
	if _, err := l.Stream(id); err != nil {
		return nil, 0, err
	}
	next = l.Length(id) // what is from there on in the database may not be synced
	size := 0
	err = l.walk(within(messageKind, id, 0, min(offset, next)), true, func(number uint64, value []byte) bool {
		if size += len(value); len(found) == limit.Messages || size > limit.Bytes && len(found) > 0 {
			return false
		}
		found = append(found, chat.Encoded{Offset: number, Bytes: slices.Clone(value)})
		return true
	})
	slices.Reverse(found)
	return found, next, err
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
