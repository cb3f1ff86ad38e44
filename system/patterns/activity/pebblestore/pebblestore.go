// Package pebblestore keeps activities in a pebble database, a log-structured
// merge tree: the embedded store without SQL.
//
// A key is an activity's id and its value the rest, see codec.go. Writes are
// committed in groups, each one batch in the write-ahead log that is synced
// before anybody is answered. Pebble would group concurrent writers by itself; the
// queue of package commit is in front of it so that it is bounded, and grouped in
// the same way as the other embedded store's.
//
// It fails closed. While the disk is full nothing is stored, and what is there can be
// read; it goes on by itself when there is room, see package lsm. What else pebble cannot
// survive, such as a sync that failed, ends the store until the process starts anew.
//
// The store owns its directory and locks it.
package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/commit"
	"loadstone/block/lsm"
	"loadstone/system/patterns/activity"
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

// writes are the options of each commit.
var writes = pebble.Sync

// Store is an activity.Store over one directory.
type Store struct {
	db     *lsm.DB
	writer *commit.Writer[activity.Activity]
	gate   activity.Gate

	synced bool // before Put returns

	mu       sync.RWMutex // held by Get: pebble panics when it is read after its end
	closed   bool
	closeErr error
}

// Open opens the database in the directory, or makes it. The metrics are package
// commit's.
func Open(dir string, r prometheus.Registerer) (*Store, error) {
	return openOn(vfs.Default, dir, r)
}

func openOn(files vfs.FS, dir string, r prometheus.Registerer) (*Store, error) {
	s := &Store{gate: activity.NewGate(maxReads)}
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref() // the database has its own reference
	options := &pebble.Options{
		Cache: cache, MemTableSize: memTableBytes,
		FormatMajorVersion: pebble.FormatNewest, // no older program reads it
		FS:                 files,
	}
	s.synced = writes.Sync && !options.DisableWAL
	var err error
	if s.db, err = lsm.Open(dir, options); err != nil {
		return nil, fmt.Errorf("open the activities in %s: %w", dir, err)
	}
	cfg := commit.DefaultConfig[activity.Activity]()
	cfg.Commit, cfg.Registerer = s.commit, r
	s.writer = commit.New(cfg)
	return s, nil
}

// commit stores a group as one batch. While the disk is full it does not return, and
// those who wait have their deadlines.
func (s *Store) commit(items []activity.Activity) error {
	group := slices.Clone(items) // it may outlive the call
	if err := s.db.Guard(func() error { return s.write(group) }); err != nil {
		return fmt.Errorf("%w: %w", activity.ErrUnavailable, err)
	}
	return nil
}

func (s *Store) write(group []activity.Activity) error {
	batch := s.db.NewBatch()
	var value []byte
	for i := range group {
		value = encode(value[:0], &group[i])
		if err := batch.Set([]byte(group[i].ID), value, nil); err != nil {
			return errors.Join(fmt.Errorf("set: %w", err), batch.Close())
		}
	}
	if err := batch.Commit(writes); err != nil {
		return errors.Join(fmt.Errorf("commit: %w", err), batch.Close())
	}
	return batch.Close()
}

// Put implements activity.Store.
func (s *Store) Put(ctx context.Context, a *activity.Activity) error {
	if err := s.down(); err != nil {
		return err
	}
	if s.db.Full() {
		return fmt.Errorf("store activity %s: %w: %w", a.ID, activity.ErrUnavailable, lsm.ErrFull)
	}
	if err := s.writer.Put(ctx, *a); err != nil {
		if s.db.Full() {
			err = fmt.Errorf("%w: %w", lsm.ErrFull, err) // why it took too long
		}
		return fmt.Errorf("store activity %s: %w", a.ID, activity.OfCommit(err))
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
	if err := s.down(); err != nil {
		return activity.Activity{}, err
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

// down is why nothing can be stored or read until the process starts anew, or nil.
func (s *Store) down() error {
	if err := s.db.Down(); err != nil {
		return fmt.Errorf("%w: %w", activity.ErrUnavailable, err)
	}
	return nil
}

// Durability implements activity.Store.
func (s *Store) Durability() activity.Durability {
	if s.synced {
		return activity.Durability{Synced: true, How: "pebble: write-ahead log synced, group commit"}
	}
	return activity.Durability{How: "pebble: nothing synced, group commit"}
}

// Close implements activity.Store. It does not wait for room on a full disk: what
// was acknowledged is in the log.
func (s *Store) Close() error {
	s.db.GiveUp()
	s.writer.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.closeErr = s.db.Close()
	}
	return s.closeErr
}
