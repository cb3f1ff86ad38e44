package cqlstore

import (
	"context"
	"errors"
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"loadstone/system/menu"
)

// revision is a row with what only writers and readers of the past want to know. Each
// version but the newest is a copy in a table of its own: who makes the next one keeps it
// first. A version never changes, so it does no harm if that is done twice or for nothing.
type revision struct {
	row

	id     int64
	editor string
	mark   []byte // see changes.go
	fence  []byte
}

// revision returns a row, see row.
func (s *Store) revision(ctx context.Context, session *gocql.Session, id int64) (r revision, err error) {
	r.id = id
	err = session.Query("SELECT version, tag, body, editor, mark, fence FROM menus WHERE id = ?", id).
		Consistency(s.read).Idempotent(true).ScanContext(ctx, &r.version, &r.tag, &r.body, &r.editor, &r.mark, &r.fence)
	if errors.Is(err, gocql.ErrNotFound) {
		return r, nil
	}
	return r, err
}

// prunedEvery is how many versions of a menu are made from one removal of those that are
// too old to the next.
const prunedEvery = 16

// keep copies a row that is about to get its next version.
func (s *Store) keep(ctx context.Context, session *gocql.Session, r revision) error {
	var body any // null if it is a deleted one
	if r.body != nil {
		body = r.body
	}
	err := s.exec(ctx, session, "INSERT INTO revisions (id, version, editor, mark, body) VALUES (?, ?, ?, ?, ?)", r.id, r.version, r.editor, r.mark, body)
	if err == nil && r.version%prunedEvery == 0 && r.version > menu.KeptRevisions {
		err = s.exec(ctx, session, "DELETE FROM revisions WHERE id = ? AND version <= ?", r.id, r.version-menu.KeptRevisions)
	}
	return err
}

func (r *revision) public() menu.Revision {
	return menu.Revision{
		Change: menu.Change{ID: r.id, Version: r.version, At: changedAt(r.mark), Editor: r.editor, Deleted: r.body == nil},
		Body:   r.body,
	}
}

// Revisions implements menu.Desk.
func (s *Store) Revisions(ctx context.Context, id, before int64, limit int) (revisions []menu.Revision, err error) {
	if err := menu.CheckListed(limit); err != nil {
		return nil, err
	}
	err = s.do(ctx, func(ctx context.Context, session *gocql.Session) error {
		newest, err := s.revision(ctx, session, id)
		if err != nil || newest.version == 0 || before < 0 {
			return err
		}
		if before == 0 || before > newest.version {
			before = newest.version
			revisions = append(revisions, newest.public())
		}
		if limit -= len(revisions); limit == 0 {
			return nil
		}
		rows := session.Query("SELECT version, editor, mark, body FROM revisions WHERE id = ? AND version < ? AND version > ? LIMIT ?",
			id, before, newest.version-menu.KeptRevisions, min(limit, menu.KeptRevisions)).Consistency(s.read).Idempotent(true).IterContext(ctx)
		for r := (revision{id: id}); rows.Scan(&r.version, &r.editor, &r.mark, &r.body); r = (revision{id: id}) {
			revisions = append(revisions, r.public())
		}
		return rows.Close()
	})
	if err != nil {
		return nil, fmt.Errorf("read the versions of menu %d in %s: %w", id, s.cfg.name(), s.classify(ctx, err))
	}
	return revisions, nil
}
