package pebblestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// tablesDir is where tables are written before pebble takes them, below the store's own
// directory: it takes them by a link.
const tablesDir = "filling"

// Fill implements menu.Filler. The menus are written in chunks, each a sorted table that
// pebble takes as it is: nothing is logged or compacted. Cores write chunks side by side.
//
// Three things make it resumable. First the state says what the store is being filled
// with. A chunk is in the database before its mark is; one without a mark is written
// again, over the same. Last the state says that the store is filled, and in the same
// batch the marks go.
func (s *Store) Fill(ctx context.Context, from dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)() //nolint:contextcheck // the store's own
	s.fill.Lock()
	defer s.fill.Unlock()
	s.db.GiveUp() // who fills a store waits for its end, and would not learn that it waits for room
	filled, err := s.fillAll(ctx, from, progress)
	if err != nil && s.life.Err() != nil {
		err = fmt.Errorf("%w: it is closed: %w", menu.ErrUnavailable, err)
	}
	if err != nil {
		return menu.Filled{}, fmt.Errorf("fill %s: %w", s.dir, err)
	}
	return filled, nil
}

func (s *Store) fillAll(ctx context.Context, from dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
	meta := from.Meta()
	if err := errors.Join(meta.Check(), ctx.Err()); err != nil {
		return menu.Filled{}, err
	}
	if kept, err := s.beginFilling(ctx, meta); kept || err != nil {
		return menu.Filled{Kept: kept}, err
	}
	f := &filler{Store: s, tablesDir: filepath.Join(s.dir, tablesDir)}
	resumed, err := f.load(ctx, from, progress)
	if err != nil {
		return menu.Filled{}, err
	}
	if err := s.endFilling(ctx); err != nil {
		return menu.Filled{}, err
	}
	if progress != nil {
		progress(meta.Count, meta.Count)
	}
	return menu.Filled{Resumed: resumed}, nil
}

// beginFilling says what the store is being filled with, unless it holds that already.
func (s *Store) beginFilling(ctx context.Context, meta dataset.Meta) (kept bool, err error) {
	was := make(chan phase, 1)
	err = s.put(ctx, func(g *group) error {
		have := &g.state
		if same := have.Meta.Same(meta); (have.Phase != unfilled && !same) || (have.Phase == unfilled && have.Writes > 0) {
			return fmt.Errorf("%w: %s", menu.ErrOccupied, have.now().Origin)
		}
		was <- have.Phase
		if have.Phase == unfilled {
			have.Phase, have.Meta, g.dirty = filling, meta, true
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	return <-was == filled, nil
}

// endFilling counts the menus, which reads every block, and says that the store is filled.
func (s *Store) endFilling(ctx context.Context) error {
	count, next := int64(0), int64(0)
	err := each(ctx, s.db, span{[]byte{menuKind}, []byte{menuKind + 1}, forwards}, func(key, _ []byte) (more bool, err error) {
		next, err = keyNumber(key)
		count++
		return true, err
	})
	if err != nil {
		return err
	}
	return s.put(ctx, func(g *group) error {
		if want := g.state.Meta.Count; count != want {
			return fmt.Errorf("%w: %d of %d menus have an id that another has", menu.ErrInput, want-count, want)
		}
		g.state.Phase, g.state.Count, g.state.Next, g.dirty = filled, count, next+1, true
		return g.batch.DeleteRange([]byte{markKind}, []byte{markKind + 1}, nil)
	})
}

// filler is a filling that is under way.
type filler struct {
	*Store

	tablesDir string
}

// load writes the chunks that have no marks yet.
func (f *filler) load(ctx context.Context, from dataset.Source[menu.Menu], progress dataset.Progress) (resumed int64, err error) {
	marks, err := f.marks(ctx)
	if err != nil {
		return 0, err
	}
	for _, m := range marks {
		resumed += int64(m.Records)
	}
	// What a killed filling left in the directory is not in the database.
	if err := errors.Join(f.files.RemoveAll(f.tablesDir), f.files.MkdirAll(f.tablesDir, 0o755)); err != nil { //nolint:mnd // as pebble's own
		return 0, err
	}
	defer func() { err = errors.Join(err, f.files.RemoveAll(f.tablesDir)) }()
	return resumed, menu.Load(ctx, from, dataset.Load[menu.Menu]{
		ChunkRecords: f.chunk, Written: marks, Progress: progress,
		Open: func(context.Context) (dataset.Writer[menu.Menu], error) { return &tableWriter{filler: f}, nil },
	}, "begin with an empty directory")
}

func (f *filler) marks(ctx context.Context) (map[int64]dataset.Mark, error) {
	marks := map[int64]dataset.Mark{}
	return marks, each(ctx, f.db, span{[]byte{markKind}, []byte{markKind + 1}, forwards}, func(key, value []byte) (bool, error) {
		var m dataset.Mark
		number, err := keyNumber(key)
		err = errors.Join(err, json.Unmarshal(value, &m))
		marks[number] = m
		return true, err
	})
}

// tableWriter writes chunks.
type tableWriter struct {
	*filler

	value, body []byte // of a menu
}

// Write implements dataset.Writer.
func (w *tableWriter) Write(ctx context.Context, c *dataset.Chunk[menu.Menu]) error {
	slices.SortFunc(c.Records, func(a, b menu.Menu) int { return cmp.Compare(a.ID, b.ID) })
	path := w.files.PathJoin(w.tablesDir, fmt.Sprintf("%06d.sst", c.Number))
	if err := w.table(path, c.Records); err != nil {
		return err
	}
	value, err := json.Marshal(c.Mark)
	if err != nil {
		return err
	}
	return w.db.Guard(func() error {
		if err := w.db.Ingest(ctx, []string{path}); err != nil {
			return err
		}
		return w.db.Set(appendKey(nil, markKind, c.Number), value, pebble.Sync)
	})
}

// table writes a table; when it returns, the table is on the disk.
func (w *tableWriter) table(path string, menus []menu.Menu) error {
	file, err := w.files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	table := sstable.NewWriter(objstorageprovider.NewFileWritable(file), w.tables)
	last := int64(0)
	for i := range menus {
		m := &menus[i]
		if m.ID == last {
			err = fmt.Errorf("%w: two menus have the id %d", menu.ErrInput, m.ID)
			break
		}
		last = m.ID
		w.body = m.AppendJSON(w.body[:0])
		e := entry{version: 1, exists: true, tag: menu.Tag(w.body), body: w.body}
		w.value = e.append(w.value[:0])
		var key [keyBytes]byte
		if err = table.Set(appendKey(key[:0], menuKind, m.ID), w.value); err != nil {
			break
		}
	}
	return errors.Join(err, table.Close())
}

// Close implements dataset.Writer.
func (*tableWriter) Close() error { return nil }
