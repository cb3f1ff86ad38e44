package logstore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"loadstone/system/chat"
)

// MaxEntries bounds the log of who did what in a room. The oldest make room for new ones.
const MaxEntries = 10_000

// Alter stores an alteration and returns once it is durable, with the message that is deleted
// as it is now. While the disk is full it does not return.
func (l *Log) Alter(a *chat.Alteration) (deleted []byte, err error) {
	l.changing.Lock()
	defer l.changing.Unlock()
	l.open.RLock()
	defer l.open.RUnlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	if _, err := l.Stream(a.Stream); err != nil {
		return nil, err
	}
	err = l.db.Guard(func() (err error) {
		deleted, err = l.alter(a)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", chat.ErrUnavailable, err)
	}
	return deleted, nil
}

func (l *Log) alter(a *chat.Alteration) (deleted []byte, err error) {
	batch := l.db.NewBatch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	for name, value := range a.Records {
		key := append(appendKey(nil, recordKind, uint64(a.Stream)), name...)
		if value == nil {
			err = batch.Delete(key, nil)
		} else {
			err = batch.Set(key, value, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	if a.Delete != nil {
		if deleted, err = l.takeBack(batch, a.Stream, *a.Delete); err != nil {
			return nil, err
		}
	}
	if err := l.enter(batch, a); err != nil {
		return nil, err
	}
	return deleted, batch.Commit(pebble.Sync)
}

// takeBack writes a message without what it said.
func (l *Log) takeBack(batch *pebble.Batch, stream int64, offset uint64) ([]byte, error) {
	key := appendKey(nil, messageKind, uint64(stream), offset)
	value, closer, err := l.db.Get(key)
	if err != nil {
		return nil, err
	}
	m, err := chat.ParseMessage(value)
	if err = errors.Join(err, closer.Close()); err != nil {
		return nil, err
	}
	m.Delete()
	deleted := m.Append(nil)
	return deleted, batch.Set(key, deleted, nil)
}

// enter writes a line of the log of who did what, and forgets the one that is too much.
func (l *Log) enter(batch *pebble.Batch, a *chat.Alteration) error {
	number, err := l.nextEntry(a.Stream)
	if err != nil {
		return err
	}
	entry, err := a.Entry(number)
	if err != nil {
		return err
	}
	if number >= MaxEntries {
		err = batch.Delete(appendKey(nil, entryKind, uint64(a.Stream), number-MaxEntries), nil)
	}
	return errors.Join(err, batch.Set(appendKey(nil, entryKind, uint64(a.Stream), number), entry, nil))
}

func (l *Log) nextEntry(stream int64) (number uint64, err error) {
	all, err := l.db.NewIter(within(entryKind, stream, 0, 1<<63))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	if !all.Last() {
		return 0, all.Error()
	}
	last, err := lastNumber(all.Key())
	return last + 1, err
}

// within are the keys of a kind and a stream, from one number to before another.
func within(kind byte, stream int64, from, to uint64) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: appendKey(nil, kind, uint64(stream), from), UpperBound: appendKey(nil, kind, uint64(stream), to)}
}

// EachRecord calls take with what is kept of all rooms by name, until that is an error.
func (l *Log) EachRecord(take func(stream int64, name string, value []byte) error) error {
	l.open.RLock()
	defer l.open.RUnlock()
	if err := l.usable(); err != nil {
		return err
	}
	const prefix = 1 + numberBytes
	return l.each(appendKey(nil, recordKind), appendKey(nil, recordKind+1), func(key, value []byte) error {
		if len(key) < prefix {
			return fmt.Errorf("%x: %w", key, errCorrupt)
		}
		stream, err := lastNumber(key[:prefix])
		if err != nil {
			return err
		}
		return take(int64(stream), string(key[prefix:]), slices.Clone(value))
	})
}

// Entries returns the last lines of the log of who did what before a number, the newest first.
func (l *Log) Entries(stream int64, before uint64, most int) (found []chat.Encoded, err error) {
	err = l.walk(within(entryKind, stream, 0, before), true, func(number uint64, value []byte) bool {
		if len(found) == most {
			return false
		}
		found = append(found, chat.Encoded{Offset: number, Bytes: slices.Clone(value)})
		return true
	})
	return found, err
}

// LiveStream is the stream of a host that is live, if there is one.
func (l *Log) LiveStream(host string) (id int64, live bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for id, s := range l.streams {
		if s.Live() && s.HostID == host {
			return id, true
		}
	}
	return 0, false
}
