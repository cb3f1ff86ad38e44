package cqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"loadstone/system/menu"
)

// documentParts is how many partitions a kind has. Documents reads each; the transactions
// of one partition get into each other's way.
const (
	documentParts = 16
	documentRows  = 100 // at once: megabytes, if they are large
)

func part(id int64) int { return int(uint64(id) % documentParts) }

// document is a row; it has no body where there is none, or none any more.
type document struct {
	menu.Document

	mark, fence []byte // of an availability, see changes.go
}

func (d *document) exists() bool { return d.Body != nil }

func (s *Store) document(ctx context.Context, session *gocql.Session, kind menu.Kind, id int64) (d document, err error) {
	var tag int64
	d.Kind, d.ID = kind, id
	err = session.Query("SELECT tag, editor, at, body, mark, fence FROM documents WHERE kind = ? AND part = ? AND id = ?", string(kind), part(id), id).
		Consistency(s.read).Idempotent(true).ScanContext(ctx, &tag, &d.Editor, &d.At, &d.Body, &d.mark, &d.fence)
	if errors.Is(err, gocql.ErrNotFound) {
		return d, nil
	}
	d.Tag = uint64(tag)
	return d, err
}

// Document implements menu.Desk.
func (s *Store) Document(ctx context.Context, kind menu.Kind, id int64) (menu.Document, error) {
	if err := kind.Check(); err != nil {
		return menu.Document{}, err
	}
	var d document
	err := s.do(ctx, func(ctx context.Context, session *gocql.Session) (err error) {
		d, err = s.document(ctx, session, kind, id)
		return err
	})
	switch {
	case err != nil:
		return menu.Document{}, fmt.Errorf("read %s %d in %s: %w", kind, id, s.cfg.name(), s.classify(ctx, err))
	case !d.exists():
		return menu.Document{}, menu.ErrNotFound
	}
	return d.Document, nil
}

// SetDocument implements menu.Desk.
func (s *Store) SetDocument(ctx context.Context, d *menu.Document, only menu.Condition) error {
	if err := d.Check(); err != nil {
		return err
	}
	next := *d
	next.At, next.Tag = s.now().UTC().Truncate(time.Millisecond), menu.Tag(d.Body)
	held := false
	err := s.do(ctx, func(ctx context.Context, session *gocql.Session) error {
		end, err := s.turn(ctx, int64(part(d.ID)))
		if err != nil {
			return err
		}
		defer end()
		return again(ctx, func() (done bool, err error) {
			before, err := s.document(ctx, session, d.Kind, d.ID)
			if err != nil {
				return false, err
			}
			held = only.Holds(before.Tag, before.exists())
			switch {
			case !held || (!before.exists() && d.Body == nil):
				return true, nil
			case d.Kind == menu.Availability:
				return s.attemptOverlay(ctx, session, before, &next)
			}
			return s.takeDocument(ctx, session, before, &next)
		})
	})
	switch {
	case err != nil:
		return fmt.Errorf("set %s %d in %s: %w", d.Kind, d.ID, s.cfg.name(), s.classify(ctx, err))
	case !held:
		return menu.ErrChanged
	}
	*d = next
	return nil
}

// tag is how a transaction says what there was: null if there was nothing.
func (d *document) tag() any {
	if !d.exists() {
		return nil
	}
	return int64(d.Tag)
}

// takeDocument swaps a document, if it is as it was found.
func (s *Store) takeDocument(ctx context.Context, session *gocql.Session, before document, next *menu.Document) (bool, error) {
	if next.Body == nil {
		return s.swap(ctx, session, "DELETE FROM documents WHERE kind = ? AND part = ? AND id = ? IF tag = ?",
			string(next.Kind), part(next.ID), next.ID, before.tag())
	}
	return s.swap(ctx, session, "UPDATE documents SET tag = ?, editor = ?, at = ?, body = ? WHERE kind = ? AND part = ? AND id = ? IF tag = ?",
		int64(next.Tag), next.Editor, next.At, next.Body, string(next.Kind), part(next.ID), next.ID, before.tag())
}

// attemptOverlay swaps an availability, if it is as it was found, with an entry in the log.
func (s *Store) attemptOverlay(ctx context.Context, session *gocql.Session, before document, next *menu.Document) (bool, error) {
	began := s.now()
	e := entry{mark: newMark(began, before.mark), id: next.ID, editor: next.Editor, deleted: next.Body == nil, overlay: true}
	next.At = changedAt(e.mark)
	group, within := errgroup.WithContext(ctx)
	s.enter(within, group, session, e, before.mark)
	if err := group.Wait(); err != nil {
		return false, err
	}
	return s.within(ctx, session, began, e, func() (bool, error) { return s.takeOverlay(ctx, session, before, next, e) })
}

func (s *Store) takeOverlay(ctx context.Context, session *gocql.Session, before document, next *menu.Document, e entry) (bool, error) {
	var tag, body any // null, to remove it
	if next.Body != nil {
		tag, body = int64(next.Tag), next.Body
	}
	return s.swap(ctx, session, "UPDATE documents SET tag = ?, editor = ?, at = ?, body = ?, mark = ? WHERE kind = ? AND part = ? AND id = ? IF tag = ? AND mark = ? AND fence = ?",
		tag, next.Editor, next.At, body, e.mark, string(next.Kind), part(next.ID), next.ID, before.tag(), before.mark, before.fence)
}

// Documents implements menu.Desk.
func (s *Store) Documents(ctx context.Context, kind menu.Kind, after int64, limit int) ([]menu.Document, error) {
	if err := errors.Join(kind.Check(), menu.CheckListed(limit)); err != nil {
		return nil, err
	}
	var parts [documentParts][]menu.Document
	group, reading := errgroup.WithContext(ctx)
	for i := range parts {
		group.Go(func() error {
			return s.do(reading, func(ctx context.Context, session *gocql.Session) error {
				rows := session.Query("SELECT id, tag, editor, at, body FROM documents WHERE kind = ? AND part = ? AND id > ?", string(kind), i, after).
					PageSize(documentRows).Consistency(s.read).Idempotent(true).IterContext(ctx)
				var tag int64
				for d := (menu.Document{Kind: kind}); len(parts[i]) < limit && rows.Scan(&d.ID, &tag, &d.Editor, &d.At, &d.Body); d = (menu.Document{Kind: kind}) {
					if d.Tag = uint64(tag); d.Body != nil { // it was not removed
						parts[i] = append(parts[i], d)
					}
				}
				return rows.Close()
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("read all of %s in %s: %w", kind, s.cfg.name(), s.classify(ctx, err))
	}
	all := slices.Concat(parts[:]...)
	slices.SortFunc(all, func(a, b menu.Document) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(limit, len(all))], nil
}
