package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/cockroachdb/pebble/v2"

	"loadstone/block/commit"
	"loadstone/block/dataset"
	"loadstone/block/lsm"
	"loadstone/system/menu"
)

// change is one writer's wish. It is done by the goroutine that commits, perhaps after the
// writer has left.
type change struct {
	do  func(*group) error
	err error // why it was not done, once the group is committed
}

// group is what is committed together: the database with what the changes before have
// done to it. A change that fails has done nothing.
type group struct {
	db          *lsm.DB
	batch       *pebble.Batch
	state       state
	dirty       bool
	before, now map[string]entry // of the keys of what is changed
}

func (g *group) get(key []byte) (entry, error) {
	if e, changed := g.now[string(key)]; changed {
		return e, nil
	}
	return get(g.db, key)
}

// note says that the entry of a key changes.
func (g *group) note(key []byte, before, after entry) {
	if _, again := g.now[string(key)]; !again {
		g.before[string(key)] = before
	}
	g.now[string(key)] = after
	g.dirty = true
}

// set changes the entry of a key from one to the other.
func (g *group) set(key []byte, before, after entry) error {
	g.note(key, before, after)
	return g.batch.Set(key, after.append(nil), nil)
}

// setMenu changes a menu, and notes what it was and who did it.
func (g *group) setMenu(id int64, before, after entry) error {
	switch {
	case after.exists && !before.exists:
		g.state.Count++
	case before.exists && !after.exists:
		g.state.Count--
	}
	g.state.Writes++
	errs := []error{
		g.set(appendKey(nil, menuKind, id), before, after),
		g.log(id, &after),
	}
	if before.version > 0 {
		errs = append(errs, g.batch.Set(revisionKey(id, before.version), before.append(nil), nil))
	}
	if oldest := after.version - menu.KeptRevisions; oldest > 0 {
		errs = append(errs, g.batch.Delete(revisionKey(id, oldest), nil))
	}
	return errors.Join(errs...)
}

// log adds an entry to the log.
func (g *group) log(id int64, e *entry) error {
	g.state.Newest++
	return g.batch.Set(appendKey(nil, changeKind, g.state.Newest), appendChange(nil, id, e), nil)
}

// commit does a group of changes. While the disk is full it does not return, and those who
// wait have their deadlines.
func (s *Store) commit(items []*change) error {
	changes := slices.Clone(items) // it may outlive the call
	if err := s.db.Guard(func() error { return s.apply(changes) }); err != nil {
		return fmt.Errorf("%w: %w", menu.ErrUnavailable, err)
	}
	return nil
}

func (s *Store) apply(changes []*change) (err error) {
	// Only this goroutine changes the state, so it may be read here without the lock.
	g := &group{db: s.db, batch: s.db.NewBatch(), state: s.state, before: map[string]entry{}, now: map[string]entry{}}
	defer func() { err = errors.Join(err, g.batch.Close()) }()
	for _, c := range changes {
		c.err = c.do(g)
	}
	if !g.dirty {
		return nil
	}
	if err := g.forget(s.state.Newest, s.now().Add(-menu.KeptChanges)); err != nil {
		return err
	}
	value, err := g.state.encode()
	if err != nil {
		return err
	}
	if err := g.batch.Set(stateKey, value, nil); err != nil {
		return err
	}
	s.pending.Store(&g.before)
	if err := g.batch.Commit(pebble.Sync); err != nil {
		return err // and what it was to change stays hidden
	}
	s.pending.Store(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = g.state
	return nil
}

// put has a change done.
func (s *Store) put(ctx context.Context, do func(*group) error) error {
	if s.db.Full() {
		return fmt.Errorf("%w: %w", menu.ErrUnavailable, lsm.ErrFull)
	}
	c := &change{do: do}
	err := s.writer.Put(ctx, c)
	switch {
	case err == nil:
		return c.err
	case errors.Is(err, commit.ErrFull):
		return fmt.Errorf("%w: %w", menu.ErrOverloaded, err)
	case s.db.Full():
		err = fmt.Errorf("%w: %w", lsm.ErrFull, err) // why it took too long
	}
	if errors.Is(err, menu.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", menu.ErrUnavailable, err)
}

// written is a change that was done.
type written struct {
	id            int64
	before, after entry
}

// write has the entry of an id changed, if it may be; the version is set here. An id of 0
// is one to be chosen.
func (s *Store) write(ctx context.Context, id int64, after entry, may func(before entry) error) (written, error) {
	if err := s.begin(ctx); err != nil {
		return written{}, err
	}
	s.mu.RUnlock()
	editor := menu.Editor(ctx)
	if err := menu.CheckEditor(editor); err != nil {
		return written{}, err
	}
	done := make(chan written, 1) // not a variable: the writer may have left
	err := s.put(ctx, func(g *group) (err error) {
		w := written{id: id, after: after}
		if g.state.Phase == filling {
			return s.missing()
		}
		if id == 0 {
			if w.id, err = g.free(); err != nil {
				return err
			}
			w.after = after.of(w.id)
		}
		if w.before, err = g.get(appendKey(nil, menuKind, w.id)); err != nil {
			return err
		}
		if err := may(w.before); err != nil {
			return err
		}
		w.after.version, w.after.at, w.after.editor = w.before.version+1, s.now().UnixMilli(), []byte(editor)
		if err = g.setMenu(w.id, w.before, w.after); err == nil {
			done <- w
		}
		return err
	})
	if err != nil {
		return written{}, fmt.Errorf("write menu %d: %w", id, err)
	}
	return <-done, nil
}

// free is an id that nothing was ever stored under. It goes on where it stopped, past what
// was given by others since.
func (g *group) free() (int64, error) {
	for ; ; g.state.Next++ {
		if g.state.Next > dataset.MaxID {
			g.state.Next = 1
		}
		if e, err := g.get(appendKey(nil, menuKind, g.state.Next)); err != nil || e.version == 0 {
			return g.state.Next, err
		}
	}
}

// makeEntry is a menu's entry.
func makeEntry(m *menu.Menu) entry {
	body := m.AppendJSON(nil)
	return entry{exists: true, tag: menu.Tag(body), body: body}
}

// of is the entry of a menu without an id, with this one. The menu itself is its caller's,
// who may have left.
func (e *entry) of(id int64) entry {
	const without = `{"id":0`
	body := append(strconv.AppendInt([]byte(without[:len(without)-1]), id, 10), e.body[len(without):]...)
	return entry{exists: true, tag: menu.Tag(body), body: body}
}

func impossible(id int64) error {
	return fmt.Errorf("%w: its id is %d: write 1 to %d", menu.ErrInput, id, int64(dataset.MaxID))
}

// Create implements menu.Database.
func (s *Store) Create(ctx context.Context, m *menu.Menu) (menu.Page, error) {
	if m.ID < 0 || m.ID > dataset.MaxID {
		return menu.Page{}, impossible(m.ID)
	}
	w, err := s.write(ctx, m.ID, makeEntry(m), func(before entry) error {
		if before.exists {
			return menu.ErrExists
		}
		return nil
	})
	if err != nil {
		return menu.Page{}, err
	}
	m.ID = w.id
	return w.after.page(), nil
}

// Replace implements menu.Database.
func (s *Store) Replace(ctx context.Context, m *menu.Menu, only menu.Condition) (menu.Page, bool, error) {
	if m.ID < 1 || m.ID > dataset.MaxID {
		return menu.Page{}, false, impossible(m.ID)
	}
	w, err := s.write(ctx, m.ID, makeEntry(m), func(before entry) error {
		if !only.Holds(before.tag, before.exists) {
			return menu.ErrChanged
		}
		return nil
	})
	if err != nil {
		return menu.Page{}, false, err
	}
	return w.after.page(), !w.before.exists, nil
}

// Delete implements menu.Database.
func (s *Store) Delete(ctx context.Context, id int64, only menu.Condition) (int64, error) {
	if id < 1 || id > dataset.MaxID {
		return 0, fmt.Errorf("delete menu %d: %w", id, menu.ErrNotFound)
	}
	w, err := s.write(ctx, id, entry{}, func(before entry) error {
		if !before.exists {
			return menu.ErrNotFound
		}
		if !only.Holds(before.tag, true) {
			return menu.ErrChanged
		}
		return nil
	})
	return w.after.version, err
}
