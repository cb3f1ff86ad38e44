package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// readMenus are read at a time. In between nothing is held, so that whoever takes his time
// with a menu is in nobody's way.
const readMenus = 256

// source is the menus as they were at one time.
type source struct {
	store *Store
	meta  dataset.Meta

	mu       sync.Mutex
	snapshot *pebble.Snapshot // nil after the end
}

// Menus implements menu.Database.
func (s *Store) Menus(ctx context.Context) (dataset.Source[menu.Menu], error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	s.mu.RUnlock()
	// The goroutine that commits does it, between two groups: all before is synced.
	made := make(chan *source, 1)
	err := s.put(ctx, func(g *group) error {
		if g.state.Phase == filling {
			return s.missing()
		}
		src := &source{store: s, meta: s.state.now(), snapshot: s.db.NewSnapshot()}
		s.held.Lock()
		defer s.held.Unlock()
		s.sources[src] = context.AfterFunc(ctx, src.forget)
		made <- src
		return nil
	})
	if err != nil {
		return nil, err
	}
	return <-made, nil
}

// free gives back what the source holds. Whoever takes it out of sources calls it.
func (src *source) free() error {
	src.mu.Lock()
	defer src.mu.Unlock()
	snapshot := src.snapshot
	src.snapshot = nil
	return snapshot.Close()
}

// forget is the end of the source's context.
func (src *source) forget() {
	s := src.store
	s.held.Lock()
	defer s.held.Unlock()
	if _, ok := s.sources[src]; ok { // and the store was not closed
		delete(s.sources, src)
		_ = src.free() // it closes a list entry, and has no other error than being closed
	}
}

// Meta implements dataset.Source.
func (src *source) Meta() dataset.Meta { return src.meta }

// All implements dataset.Source.
func (src *source) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		var entries []entry
		for from := int64(1); ; {
			var err error
			if entries, from, err = src.read(ctx, entries[:0], from); err != nil {
				yield(menu.Menu{}, err)
				return
			}
			if len(entries) == 0 {
				return
			}
			for i := range entries {
				m, err := menu.ParseJSON(entries[i].body)
				if err != nil {
					yield(menu.Menu{}, fmt.Errorf("a stored menu before %d: %w: %w", from, menu.ErrCorrupt, err))
					return
				}
				if !yield(m, nil) {
					return
				}
			}
		}
	}
}

// read appends the next menus with ids at and above from, and returns where it goes on. It
// appends none only at the end.
func (src *source) read(ctx context.Context, entries []entry, from int64) ([]entry, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	src.store.mu.RLock()
	defer src.store.mu.RUnlock()
	if err := src.store.usable(); err != nil {
		return nil, 0, err
	}
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.snapshot == nil {
		return nil, 0, errors.New("the context that the menus were asked for with has ended")
	}
	err := each(ctx, src.snapshot, span{appendKey(nil, menuKind, from), []byte{menuKind + 1}, forwards}, func(key, value []byte) (bool, error) {
		id, err := keyNumber(key)
		if err != nil {
			return false, err
		}
		e, err := decode(bytes.Clone(value))
		if from = id + 1; e.exists {
			entries = append(entries, e)
		}
		return len(entries) < readMenus, err
	})
	return entries, from, err
}
