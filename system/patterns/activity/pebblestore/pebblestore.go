// Package pebblestore keeps activities in a pebble database, a log-structured
// merge tree: the embedded store without SQL.
//
// A key is an activity's id and its value the rest, see codec.go. Writes are
// committed in groups, each one batch in the write-ahead log that is synced
// before anybody is answered. Pebble would group concurrent writers by itself; the
// queue of package group is in front of it so that it is bounded, and grouped in
// the same way as the other embedded store's.
//
// The store owns its directory and locks it.
package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/system/patterns/activity"
	"loadstone/system/patterns/activity/group"
)

const (
	// cacheBytes is for blocks of the tree: SQLite's, of this system, is the operating
	// system's, as is what does not fit here.
	cacheBytes = 32 << 20
	// memTableBytes is what is gathered in memory before it becomes a file.
	// There are two: one filling, one being written.
	memTableBytes = 16 << 20
	// maxReads bounds the reads that are under way.
	maxReads = 1024
)

// Store is an activity.Store over one directory.
type Store struct {
	db     *pebble.DB
	writer *group.Writer[activity.Activity]
	gate   activity.Gate

	mu       sync.RWMutex // held by Get: pebble panics when it is read after its end
	closed   bool
	closeErr error
}

// Open opens the database in the directory, or makes it. The metrics are package
// group's.
func Open(dir string, r prometheus.Registerer) (*Store, error) {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref() // the database has its own reference
	db, err := pebble.Open(dir, &pebble.Options{
		Cache: cache, MemTableSize: memTableBytes,
		FormatMajorVersion: pebble.FormatNewest, // no older program reads it
		// Without the watch for slow disks, which pebble adds if it chooses the
		// file system itself: nobody here would hear it, and it is a goroutine
		// that stays when the directory cannot be opened.
		FS:     vfs.Default,
		Logger: silent{},
	})
	if err != nil {
		return nil, fmt.Errorf("open the activities in %s: %w", dir, err)
	}
	s := &Store{db: db, gate: activity.NewGate(maxReads)}
	cfg := group.DefaultConfig[activity.Activity]()
	cfg.Commit, cfg.Registerer = s.commit, r
	if s.writer, err = group.New(cfg); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// silent is pebble's logger. What pebble tells is about its files, and is in its
// metrics; only what it cannot survive is said, as it has to be.
type silent struct{}

// Infof does nothing.
func (silent) Infof(string, ...any) {}

// Errorf does nothing: the errors that matter are returned to somebody as well.
func (silent) Errorf(string, ...any) {}

// Fatalf ends the process, which pebble relies on: a log that could not be synced
// is in an unknown state, and only reading it again tells what is in it. Nobody
// was told that the writes under way are stored.
func (silent) Fatalf(format string, args ...any) { panic("pebble: " + fmt.Sprintf(format, args...)) }

// commit stores a group as one batch.
func (s *Store) commit(group []activity.Activity) error {
	batch := s.db.NewBatch()
	var value []byte
	for i := range group {
		value = encode(value[:0], &group[i])
		if err := batch.Set([]byte(group[i].ID), value, nil); err != nil {
			return errors.Join(fmt.Errorf("set: %w", err), batch.Close())
		}
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		return errors.Join(fmt.Errorf("commit: %w", err), batch.Close())
	}
	return batch.Close()
}

// Put implements activity.Store.
func (s *Store) Put(ctx context.Context, a *activity.Activity) error {
	if err := s.writer.Put(ctx, *a); err != nil {
		return fmt.Errorf("store activity %s: %w", a.ID, activity.OfGroup(err))
	}
	return nil
}

// Get implements activity.Store. A read is processor work and perhaps one access
// to a local disk, so ctx is only looked at before it.
func (s *Store) Get(ctx context.Context, id string) (activity.Activity, error) {
	if err := ctx.Err(); err != nil {
		return activity.Activity{}, err
	}
	if !s.gate.Enter() {
		return activity.Activity{}, activity.ErrBusy
	}
	defer s.gate.Leave()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return activity.Activity{}, activity.ErrClosed
	}
	value, closer, err := s.db.Get([]byte(id))
	if errors.Is(err, pebble.ErrNotFound) {
		return activity.Activity{}, activity.ErrNotFound
	}
	if err != nil {
		return activity.Activity{}, fmt.Errorf("read activity %s: %w", id, err)
	}
	a, err := decode(id, value)
	if err := errors.Join(err, closer.Close()); err != nil {
		return activity.Activity{}, fmt.Errorf("read activity %s: %w", id, err)
	}
	return a, nil
}

// Durability implements activity.Store.
func (s *Store) Durability() activity.Durability {
	return activity.Durability{Synced: true, How: "pebble: write-ahead log synced, group commit"}
}

// Close implements activity.Store.
func (s *Store) Close() error {
	s.writer.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.closeErr = s.db.Close()
	}
	return s.closeErr
}
