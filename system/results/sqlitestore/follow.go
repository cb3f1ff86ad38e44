package sqlitestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Config says how a Follower looks for new files.
type Config struct {
	// Interval is the time between two looks at the path. A look is one stat.
	Interval time.Duration
	// Switched: look-ups are answered from a new file from now on. Refused: the file at the
	// path cannot be served, or is gone; the old one still is. It is told once for each
	// file. Run waits for both.
	Switched func(from, to dataset.Meta)
	Refused  func(error)
}

// Follower is a Store over whatever database is at a path.
type Follower struct {
	path    string
	cfg     Config
	mu      sync.Mutex // held to change current and closed
	current atomic.Pointer[Store]
	closed  bool
	seen    fs.FileInfo // the file that was served or refused last; nil for none
}

// Follow opens the database that is at path now; its errors are those of Open. Newer
// files are noticed while Run runs.
func Follow(ctx context.Context, path string, cfg Config) (*Follower, error) {
	seen, _ := os.Stat(path) // before it is opened: what comes later is noticed
	store, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	f := &Follower{path: path, cfg: cfg, seen: seen}
	f.current.Store(store)
	return f, nil
}

// Lookup implements results.Store.
func (f *Follower) Lookup(ctx context.Context, id int64) (results.Page, error) {
	for {
		store := f.current.Load()
		page, err := store.Lookup(ctx, id)
		if !errors.Is(err, results.ErrUnavailable) || f.current.Load() == store {
			return page, err
		}
		// It was replaced, and closed, before this look-up began.
	}
}

// Meta is that of the current file.
func (f *Follower) Meta() dataset.Meta { return f.current.Load().Meta() }

// State is that of the current file.
func (f *Follower) State() results.State { return f.current.Load().State() }

// Run looks for new files until ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	ticker := time.NewTicker(f.cfg.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.look(ctx)
		}
	}
}

func (f *Follower) look(ctx context.Context) {
	now, err := os.Stat(f.path)
	if err == nil && f.seen != nil && os.SameFile(now, f.seen) && now.ModTime().Equal(f.seen.ModTime()) && now.Size() == f.seen.Size() {
		return
	}
	gone := err != nil
	if gone && f.seen == nil {
		return // as it was
	}
	next, err := Open(ctx, f.path)
	if ctx.Err() != nil {
		return
	}
	if f.seen = now; gone {
		f.seen = nil
	}
	if err != nil {
		f.cfg.Refused(err)
		return
	}
	if from, ok := f.swap(next); ok {
		f.cfg.Switched(from, next.meta)
	}
}

func (f *Follower) swap(to *Store) (from dataset.Meta, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := to
	if !f.closed {
		old = f.current.Swap(to)
	}
	_ = old.Close() // its look-ups end first; nothing of it is needed any more
	return old.meta, old != to
}

// Close closes the current database, see Store.Close.
func (f *Follower) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return f.current.Load().Close()
}
