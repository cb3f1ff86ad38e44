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

// document returns nil if there is none.
func (s *Store) document(ctx context.Context, session *gocql.Session, kind menu.Kind, id int64) (*menu.Document, error) {
	d, tag := menu.Document{Kind: kind, ID: id}, int64(0)
	err := session.Query("SELECT tag, editor, at, body FROM documents WHERE kind = ? AND part = ? AND id = ?", string(kind), part(id), id).
		Consistency(s.read).Idempotent(true).ScanContext(ctx, &tag, &d.Editor, &d.At, &d.Body)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil, nil
	}
	d.Tag = uint64(tag)
	return &d, err
}

// Document implements menu.Desk.
func (s *Store) Document(ctx context.Context, kind menu.Kind, id int64) (menu.Document, error) {
	if err := kind.Check(); err != nil {
		return menu.Document{}, err
	}
	var d *menu.Document
	err := s.do(ctx, func(ctx context.Context, session *gocql.Session) (err error) {
		d, err = s.document(ctx, session, kind, id)
		return err
	})
	switch {
	case err != nil:
		return menu.Document{}, fmt.Errorf("read %s %d in %s: %w", kind, id, s.cfg.name(), s.classify(ctx, err))
	case d == nil:
		return menu.Document{}, menu.ErrNotFound
	}
	return *d, nil
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
			var tag any // null if there is none
			if before != nil {
				tag = int64(before.Tag)
				held = only.Holds(before.Tag, true)
			} else {
				held = only.Holds(0, false)
			}
			switch {
			case !held || (tag == nil && d.Body == nil):
				return true, nil
			case d.Body == nil:
				return s.swap(ctx, session, "DELETE FROM documents WHERE kind = ? AND part = ? AND id = ? IF tag = ?",
					string(d.Kind), part(d.ID), d.ID, tag)
			}
			return s.swap(ctx, session, "UPDATE documents SET tag = ?, editor = ?, at = ?, body = ? WHERE kind = ? AND part = ? AND id = ? IF tag = ?",
				int64(next.Tag), next.Editor, next.At, next.Body, string(d.Kind), part(d.ID), d.ID, tag)
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
				rows := session.Query("SELECT id, tag, editor, at, body FROM documents WHERE kind = ? AND part = ? AND id > ? LIMIT ?", string(kind), i, after, limit).
					PageSize(documentRows).Consistency(s.read).Idempotent(true).IterContext(ctx)
				var tag int64
				for d := (menu.Document{Kind: kind}); rows.Scan(&d.ID, &tag, &d.Editor, &d.At, &d.Body); d = (menu.Document{Kind: kind}) {
					d.Tag = uint64(tag)
					parts[i] = append(parts[i], d)
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
