package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"loadstone/system/menu"
)

// The statements, and the names under which they are prepared.
const (
	lookupName, writeName, nextName, skipName = "menu_lookup", "menu_write", "menu_next_id", "menu_skip_ids"

	unfinished = `EXISTS (SELECT FROM menu.data_set WHERE completed_at IS NULL) AS filling`

	// It gives one row, whatever there is.
	lookup = `SELECT s.filling, coalesce(m.version, 0), coalesce(m.tag, 0), m.body
		FROM (SELECT ` + unfinished + `) s LEFT JOIN menu.menus m ON m.id = $1`

	// A write locks the row, looks whether its condition holds, and sets the next version.
	// A row that is not there cannot be locked: if somebody else makes it meanwhile, the
	// INSERT meets it with version 1 and does nothing (see Store.write). An UPDATE after
	// the lock would do for rows that are there, but sees them as they were before it.
	//
	// With it what the menu was becomes a revision, and the change waits for its number in the
	// log, see Store.number. Its time is not before that of the change before, whatever the
	// clock does.
	//
	// $1 to $3 are the new row; a body of null deletes. $4 to $7 are the condition: absent,
	// hasTag, tag, exists. $8 is for an id that was never used, $9 the editor, and $10 how many
	// versions are kept.
	write = `WITH before AS (
			SELECT version, tag, editor, changed_at, body FROM menu.menus WHERE id = $1 FOR UPDATE
		), found AS (
			SELECT ` + unfinished + `, coalesce(b.version, 0) AS version, coalesce(b.tag, 0) AS tag, b.body IS NOT NULL AS there,
				greatest(date_trunc('milliseconds', clock_timestamp()), b.changed_at) AS at
			FROM (SELECT) one LEFT JOIN before b ON true
		), written AS (
			INSERT INTO menu.menus (id, version, tag, changed, editor, changed_at, body)
			SELECT $1::bigint, version + 1, $2::bigint, true, $9::text, at, $3::text FROM found
			WHERE NOT filling AND (there OR $3::text IS NOT NULL) AND (version = 0 OR NOT $8::boolean)
				AND CASE WHEN $4::boolean THEN NOT there WHEN $5::boolean THEN there AND tag = $6::bigint ELSE there OR NOT $7::boolean END
			ON CONFLICT (id) DO UPDATE SET version = excluded.version, tag = excluded.tag, changed = true,
				editor = excluded.editor, changed_at = excluded.changed_at, body = excluded.body
			WHERE excluded.version > 1
			RETURNING version, changed_at
		), revised AS (
			INSERT INTO menu.revisions (id, version, editor, changed_at, body)
			SELECT $1::bigint, b.version, b.editor, b.changed_at, b.body FROM before b, written
		), forgotten AS (
			DELETE FROM menu.revisions r USING written w WHERE r.id = $1 AND r.version <= w.version - $10::bigint
		), told AS (
			INSERT INTO menu.outbox (id, version, editor, changed_at, deleted)
			SELECT $1::bigint, version, $9::text, changed_at, $3::text IS NULL FROM written
		)
		SELECT filling, version, tag, there, coalesce((SELECT version FROM written), 0) FROM found`

	next = `SELECT nextval('menu.ids')`

	// From the sequence's place on, to the last id before a free one.
	skip = `SELECT setval('menu.ids', greatest(last_value, (
			SELECT id FROM menu.menus m
			WHERE id >= last_value AND NOT EXISTS (SELECT FROM menu.menus WHERE id = m.id + 1)
			ORDER BY id LIMIT 1
		))) FROM menu.ids`
)

// Lookup implements menu.Store.
func (s *Store) Lookup(ctx context.Context, id int64) (menu.Page, error) {
	var p menu.Page
	var unfinished bool
	var tag int64
	err := s.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, lookupName, id).Scan(&unfinished, &p.Version, &tag, &p.Body)
	})
	switch {
	case err != nil:
		return menu.Page{}, fmt.Errorf("look up menu %d in %s: %w", id, s.name, s.classify(ctx, err))
	case unfinished:
		return menu.Page{}, errFilling
	case p.Body == nil:
		return menu.Page{Version: p.Version}, menu.ErrNotFound
	}
	p.Tag = uint64(tag)
	return p, nil
}

// change is a write of one row.
type change struct {
	id   int64
	body []byte // nil to delete
	only menu.Condition
	// fresh is for an id that was never used.
	fresh bool
}

// found is what a write found before it, and the version that it set; 0 if the condition
// did not hold.
type found struct {
	unfinished, there bool
	version, written  int64
}

// write does a write, and returns how it found the row.
func (s *Store) write(ctx context.Context, c change) (found, error) {
	editor := menu.Editor(ctx)
	if err := menu.CheckEditor(editor); err != nil {
		return found{}, err
	}
	var f found
	err := s.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		// Again if somebody made the row meanwhile: then it is there, and rows stay.
		for range 2 {
			var tag int64
			err := conn.QueryRow(ctx, writeName, c.id, int64(menu.Tag(c.body)), c.body, c.only.Absent, c.only.HasTag, int64(c.only.Tag),
				c.only.Exists, c.fresh, editor, menu.KeptRevisions).Scan(&f.unfinished, &f.version, &tag, &f.there, &f.written)
			if err != nil || f.written > 0 || f.version > 0 || !c.only.Holds(uint64(tag), f.there) {
				return err
			}
		}
		return nil
	})
	if err == nil && f.unfinished {
		err = errFilling
	}
	if f.written > 0 {
		s.logged(ctx)
	}
	return f, s.classify(ctx, err)
}

// put writes a menu; its page has version 0 if the condition did not hold.
func (s *Store) put(ctx context.Context, m *menu.Menu, only menu.Condition, fresh bool) (menu.Page, found, error) {
	body := m.AppendJSON(nil)
	f, err := s.write(ctx, change{m.ID, body, only, fresh})
	return menu.Page{Body: body, Tag: menu.Tag(body), Version: f.written}, f, err
}

// Create implements menu.Database.
func (s *Store) Create(ctx context.Context, m *menu.Menu) (menu.Page, error) {
	page, err := menu.CreateChoosing(ctx, m, s.choose, func(ctx context.Context, m *menu.Menu, fresh bool) (menu.Page, error) {
		page, _, err := s.put(ctx, m, menu.Condition{Absent: true}, fresh)
		return page, err
	})
	if err != nil {
		return menu.Page{}, fmt.Errorf("%s: %w", s.name, err)
	}
	return page, nil
}

// choose takes the next id, after those that are known to be taken if the last was.
func (s *Store) choose(ctx context.Context, choice int) (id int64, err error) {
	err = s.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		if choice > 0 {
			if _, err := conn.Exec(ctx, skipName); err != nil {
				return err
			}
		}
		return conn.QueryRow(ctx, nextName).Scan(&id)
	})
	return id, s.classify(ctx, err)
}

// Replace implements menu.Database.
func (s *Store) Replace(ctx context.Context, m *menu.Menu, only menu.Condition) (page menu.Page, created bool, err error) {
	page, f, err := s.put(ctx, m, only, false)
	if err != nil {
		return menu.Page{}, false, fmt.Errorf("replace menu %d in %s: %w", m.ID, s.name, err)
	}
	if page.Version == 0 {
		return menu.Page{}, false, menu.ErrChanged
	}
	return page, !f.there, nil
}

// Delete implements menu.Database.
func (s *Store) Delete(ctx context.Context, id int64, only menu.Condition) (version int64, err error) {
	f, err := s.write(ctx, change{id: id, only: only})
	switch {
	case err != nil:
		return 0, fmt.Errorf("delete menu %d in %s: %w", id, s.name, err)
	case !f.there:
		return 0, menu.ErrNotFound
	case f.written == 0:
		return 0, menu.ErrChanged
	}
	return f.written, nil
}
