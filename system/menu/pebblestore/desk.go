package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"loadstone/system/menu"
)

// beginList is begin for who wants a list.
func (s *Store) beginList(ctx context.Context, limit int) error {
	if err := menu.CheckListed(limit); err != nil {
		return err
	}
	return s.begin(ctx)
}

// change is an entry for people.
func (e *entry) change(id int64, at menu.Cursor) menu.Change {
	c := menu.Change{Cursor: at, ID: id, Version: e.version, Editor: string(e.editor), Deleted: !e.exists}
	if c.Availability = e.overlay; c.Availability {
		c.Version = 0
	}
	if e.editor != nil {
		c.At = time.UnixMilli(e.at).UTC()
	}
	return c
}

// Revisions implements menu.Desk.
func (s *Store) Revisions(ctx context.Context, id, before int64, limit int) ([]menu.Revision, error) {
	if err := s.beginList(ctx, limit); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	now, err := s.synced(appendKey(nil, menuKind, id))
	if err != nil || now.version == 0 || before < 0 {
		return nil, err
	}
	var found []menu.Revision
	add := func(e *entry) bool {
		found = append(found, menu.Revision{Change: e.change(id, ""), Body: e.body})
		return len(found) < limit
	}
	if before == 0 || before > now.version {
		if before = now.version; !add(&now) {
			return found, nil
		}
	}
	// What has been written and not synced is no revision below this one.
	err = each(ctx, s.db, span{revisionKey(id, 0), revisionKey(id, before), backwards}, func(_, value []byte) (bool, error) {
		e, err := decode(bytes.Clone(value))
		return add(&e), err
	})
	return found, err
}

// Changes implements menu.Desk.
func (s *Store) Changes(ctx context.Context, after menu.Cursor, limit int) ([]menu.Change, error) {
	last, err := after.Number(0)
	if err == nil {
		err = s.beginList(ctx, limit)
	}
	if err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	return s.log(ctx, max(last+1, s.state.Oldest), s.state.Newest+1, forwards, limit)
}

// LastChanges implements menu.Desk.
func (s *Store) LastChanges(ctx context.Context, before menu.Cursor, limit int) ([]menu.Change, error) {
	next, err := before.Number(math.MaxInt64)
	if err == nil {
		err = s.beginList(ctx, limit)
	}
	if err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	return s.log(ctx, s.state.Oldest, min(next, s.state.Newest+1), backwards, limit)
}

// log reads entries of the log. The state counts those that are on the disk.
func (s *Store) log(ctx context.Context, from, to int64, way direction, limit int) (found []menu.Change, err error) {
	if from >= to {
		return nil, nil
	}
	err = each(ctx, s.db, span{appendKey(nil, changeKind, from), appendKey(nil, changeKind, to), way}, func(key, value []byte) (bool, error) {
		number, err := keyNumber(key)
		id, e, damaged := decodeChange(value)
		found = append(found, e.change(id, menu.NumberCursor(number)))
		return len(found) < limit, errors.Join(err, damaged)
	})
	return found, err
}

// forgets bounds how many entries of the log go with a group of changes for each that comes, so
// that none takes long, and the log shrinks.
const forgets = 2

// forget removes entries of the log from before a time. Those of this group have not come to
// the database yet; last is the one before them.
func (g *group) forget(last int64, before time.Time) error {
	for n := forgets * (g.state.Newest - last); n > 0 && g.state.Oldest <= last; n-- {
		key := appendKey(nil, changeKind, g.state.Oldest)
		value, closer, err := g.db.Get(key)
		if err != nil {
			return fmt.Errorf("read %x: %w", key, err)
		}
		_, e, err := decodeChange(value)
		if err = errors.Join(err, closer.Close()); err != nil {
			return fmt.Errorf("read %x: %w", key, err)
		}
		if e.at >= before.UnixMilli() {
			return nil
		}
		if err := g.batch.Delete(key, nil); err != nil {
			return err
		}
		g.state.Oldest++
	}
	return nil
}

func (e *entry) document(kind menu.Kind, id int64) menu.Document {
	return menu.Document{Kind: kind, ID: id, Tag: e.tag, Editor: string(e.editor), At: time.UnixMilli(e.at).UTC(), Body: e.body}
}

// Document implements menu.Desk.
func (s *Store) Document(ctx context.Context, kind menu.Kind, id int64) (menu.Document, error) {
	if err := kind.Check(); err != nil {
		return menu.Document{}, err
	}
	if err := s.begin(ctx); err != nil {
		return menu.Document{}, err
	}
	defer s.mu.RUnlock()
	e, err := s.synced(documentKey(kind, id))
	if err != nil {
		return menu.Document{}, err
	}
	if !e.exists {
		return menu.Document{}, menu.ErrNotFound
	}
	return e.document(kind, id), nil
}

// SetDocument implements menu.Desk.
func (s *Store) SetDocument(ctx context.Context, d *menu.Document, only menu.Condition) error {
	if err := d.Check(); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	s.mu.RUnlock()
	// The document is its caller's, who may have left when it is stored.
	kind, id := d.Kind, d.ID
	key, after := documentKey(kind, id), entry{
		version: 1, at: s.now().UnixMilli(), editor: []byte(d.Editor), exists: d.Body != nil, tag: menu.Tag(d.Body), body: bytes.Clone(d.Body),
	}
	err := s.put(ctx, func(g *group) error {
		if g.state.Phase == filling {
			return s.missing()
		}
		before, err := g.get(key)
		if err == nil && !only.Holds(before.tag, before.exists) {
			err = menu.ErrChanged
		}
		if err != nil {
			return err
		}
		if kind == menu.Availability && (before.exists || after.exists) {
			said := after
			said.overlay = true
			err = g.log(id, &said)
		}
		if after.exists {
			return errors.Join(err, g.set(key, before, after))
		}
		g.note(key, before, after)
		return errors.Join(err, g.batch.Delete(key, nil))
	})
	if err != nil {
		return fmt.Errorf("store the %s of menu %d: %w", d.Kind, d.ID, err)
	}
	d.Tag, d.At = after.tag, time.UnixMilli(after.at).UTC()
	return nil
}

// Documents implements menu.Desk.
func (s *Store) Documents(ctx context.Context, kind menu.Kind, after int64, limit int) ([]menu.Document, error) {
	if err := kind.Check(); err != nil {
		return nil, err
	}
	if err := s.beginList(ctx, limit); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	keys := span{documentKey(kind, max(after, 0)+1), documentKey(kind, -1), forwards}
	var found []menu.Document
	add := func(key []byte, e *entry) error {
		id, err := keyNumber(key)
		if e.exists {
			found = append(found, e.document(kind, id))
		}
		return err
	}
	err := each(ctx, s.db, keys, func(key, value []byte) (bool, error) {
		e, err := decode(bytes.Clone(value))
		if before, changing := s.unsynced(key); changing {
			e = before
		}
		return len(found) < limit, errors.Join(err, add(key, &e))
	})
	if pending := s.pending.Load(); pending != nil { // what was removed and is not synced
		for key, before := range *pending {
			if key >= string(keys.from) && key < string(keys.to) {
				err = errors.Join(err, add([]byte(key), &before))
			}
		}
	}
	slices.SortFunc(found, func(a, b menu.Document) int { return cmp.Compare(a.ID, b.ID) })
	found = slices.CompactFunc(found, func(a, b menu.Document) bool { return a.ID == b.ID })
	return found[:min(len(found), limit)], err
}
