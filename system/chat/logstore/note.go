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
