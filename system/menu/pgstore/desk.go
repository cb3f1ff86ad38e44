package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"loadstone/system/menu"
)

// list asks for rows. Whoever reads one is told how by scan.
func list[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], query string, args ...any) (found []T, err error) {
	err = s.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, scan)
		return err
	})
	return found, err
}

// Revisions implements menu.Desk.
func (s *Store) Revisions(ctx context.Context, id, before int64, limit int) ([]menu.Revision, error) {
	if err := menu.CheckListed(limit); err != nil {
		return nil, err
	}
	if before == 0 {
		before = math.MaxInt64
	}
	found, err := list(ctx, s, func(row pgx.CollectableRow) (menu.Revision, error) {
		r := menu.Revision{Change: menu.Change{ID: id}}
		var editor *string
		var at *time.Time
		err := row.Scan(&r.Version, &editor, &at, &r.Body)
		if r.Deleted = r.Body == nil; editor != nil && at != nil {
			r.Editor, r.At = *editor, at.UTC()
		}
		return r, err
	}, `(SELECT version, editor, changed_at, body FROM menu.menus WHERE id = $1 AND version < $2)
		UNION ALL
		(SELECT version, editor, changed_at, body FROM menu.revisions WHERE id = $1 AND version < $2 ORDER BY version DESC LIMIT $3)
		ORDER BY version DESC LIMIT $3`, id, before, limit)
	if err != nil {
		return nil, fmt.Errorf("read the revisions of menu %d in %s: %w", id, s.name, s.classify(ctx, err))
	}
	return found, nil
}

// numberMost bounds how many changes get their numbers at a time, and numberEvery is how many
// writes of this process may pass without, if nobody reads the log.
const (
	numberMost  = menu.MaxListed
	numberEvery = numberMost / 10
)

// logged counts a change, and numbers some now and then. One that is not numbered now is later.
func (s *Store) logged(ctx context.Context) {
	if s.writes.Add(1)%numberEvery == 0 {
		_ = s.number(ctx)
	}
}

// number takes changes from the outbox into the log. Those who do it take turns: numbers are
// committed in their order, and a change comes to the outbox with its commit, so that what
// comes to the log later has a higher number. Changes of one menu are in the order of their
// versions: their times are, see write. For every change that comes, two that are too old go,
// if there are any.
func (s *Store) number(ctx context.Context) error {
	return s.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		var some bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM menu.outbox)").Scan(&some); err != nil || !some {
			return err
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", logLock); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `WITH taken AS (
					DELETE FROM menu.outbox WHERE (changed_at, id, version) IN (
						SELECT changed_at, id, version FROM menu.outbox ORDER BY changed_at, id, version LIMIT $1)
					RETURNING *
				), forgotten AS (
					DELETE FROM menu.changes WHERE changed_at < now() - $2::interval AND number IN (
						SELECT number FROM menu.changes ORDER BY number LIMIT (SELECT 2 * count(*) FROM taken))
				)
				INSERT INTO menu.changes (id, version, editor, changed_at, deleted, availability)
				SELECT id, version, editor, changed_at, deleted, availability FROM taken ORDER BY changed_at, id, version`, numberMost, menu.KeptChanges)
			return err
		})
	})
}

// Changes implements menu.Desk.
func (s *Store) Changes(ctx context.Context, after menu.Cursor, limit int) ([]menu.Change, error) {
	return s.log(ctx, after, 0, limit, "number > $1 ORDER BY number")
}

// LastChanges implements menu.Desk.
func (s *Store) LastChanges(ctx context.Context, before menu.Cursor, limit int) ([]menu.Change, error) {
	return s.log(ctx, before, math.MaxInt64, limit, "number < $1 ORDER BY number DESC")
}

// log reads the log from a cursor, or a number if there is none.
func (s *Store) log(ctx context.Context, from menu.Cursor, none int64, limit int, where string) ([]menu.Change, error) {
	number, err := from.Number(none)
	if err = errors.Join(err, menu.CheckListed(limit)); err != nil {
		return nil, err
	}
	var found []menu.Change
	if err = s.number(ctx); err == nil {
		found, err = list(ctx, s, func(row pgx.CollectableRow) (c menu.Change, err error) {
			var number int64
			err = row.Scan(&number, &c.ID, &c.Version, &c.Editor, &c.At, &c.Deleted, &c.Availability)
			c.Cursor, c.At = menu.NumberCursor(number), c.At.UTC().Truncate(time.Millisecond)
			return c, err
		}, "SELECT number, id, version, editor, changed_at, deleted, availability FROM menu.changes WHERE "+where+" LIMIT $2", number, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of %s: %w", s.name, s.classify(ctx, err))
	}
	return found, nil
}

const selectDocument = "SELECT kind, id, editor, changed_at, body FROM menu.documents WHERE "

func scanDocument(row pgx.CollectableRow) (d menu.Document, err error) {
	err = row.Scan(&d.Kind, &d.ID, &d.Editor, &d.At, &d.Body)
	d.At, d.Tag = d.At.UTC(), menu.Tag(d.Body)
	return d, err
}

// Document implements menu.Desk.
func (s *Store) Document(ctx context.Context, kind menu.Kind, id int64) (menu.Document, error) {
	if err := kind.Check(); err != nil {
		return menu.Document{}, err
	}
	found, err := list(ctx, s, scanDocument, selectDocument+"kind = $1 AND id = $2", kind, id)
	if err != nil {
		return menu.Document{}, fmt.Errorf("read the %s of menu %d in %s: %w", kind, id, s.name, s.classify(ctx, err))
	}
	if len(found) == 0 {
		return menu.Document{}, menu.ErrNotFound
	}
	return found[0], nil
}

// Documents implements menu.Desk.
func (s *Store) Documents(ctx context.Context, kind menu.Kind, after int64, limit int) ([]menu.Document, error) {
	if err := errors.Join(kind.Check(), menu.CheckListed(limit)); err != nil {
		return nil, err
	}
	found, err := list(ctx, s, scanDocument, selectDocument+"kind = $1 AND id > $2 ORDER BY id LIMIT $3", kind, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list the %s documents of %s: %w", kind, s.name, s.classify(ctx, err))
	}
	return found, nil
}

// SetDocument implements menu.Desk. It locks the document's name, for there may be no row.
func (s *Store) SetDocument(ctx context.Context, d *menu.Document, only menu.Condition) error {
	if err := d.Check(); err != nil {
		return err
	}
	var at time.Time
	err := s.pool.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, $2))", d.Kind, d.ID); err != nil {
			return err
		}
		// With all digits: two changes of one document, which wait for each other, differ.
		var body []byte
		err := tx.QueryRow(ctx, "SELECT clock_timestamp(), (SELECT body FROM menu.documents WHERE kind = $1 AND id = $2)", d.Kind, d.ID).Scan(&at, &body)
		switch {
		case err != nil:
			return err
		case !only.Holds(menu.Tag(body), body != nil):
			return menu.ErrChanged
		case d.Body == nil && body == nil:
			return nil
		case d.Body == nil:
			_, err = tx.Exec(ctx, "DELETE FROM menu.documents WHERE kind = $1 AND id = $2", d.Kind, d.ID)
		default:
			_, err = tx.Exec(ctx, `INSERT INTO menu.documents (kind, id, editor, changed_at, body) VALUES ($1, $2, $3, date_trunc('milliseconds', $4::timestamptz), $5)
				ON CONFLICT (kind, id) DO UPDATE SET editor = excluded.editor, changed_at = excluded.changed_at, body = excluded.body`, d.Kind, d.ID, d.Editor, at, d.Body)
		}
		if err != nil || d.Kind != menu.Availability {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO menu.outbox (id, version, editor, changed_at, deleted, availability) VALUES ($1, 0, $2, $3, $4, true)", d.ID, d.Editor, at, d.Body == nil)
		return err
	})
	if err != nil {
		return fmt.Errorf("store the %s of menu %d in %s: %w", d.Kind, d.ID, s.name, s.classify(ctx, err))
	}
	d.Tag, d.At = menu.Tag(d.Body), at.UTC().Truncate(time.Millisecond)
	if d.Kind == menu.Availability {
		s.logged(ctx)
	}
	return nil
}
