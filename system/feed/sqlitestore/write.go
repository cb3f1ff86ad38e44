package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"loadstone/block/dataset"
	"loadstone/system/feed"
)

// writer is a transaction with its statements.
type writer struct {
	tx         *sql.Tx
	statements map[string]*sql.Stmt
}

// write does a transaction.
func (s *Store) write(ctx context.Context, do func(w *writer) error) (err error) {
	tx, err := s.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return s.classify(ctx, err)
	}
	w := &writer{tx: tx, statements: map[string]*sql.Stmt{}}
	if err := do(w); err != nil {
		// SQLite has rolled back by itself after some errors, and then says that there is
		// nothing to roll back.
		_ = tx.Rollback()
		return s.classify(ctx, err)
	}
	return s.classify(ctx, s.db.Commit(ctx, tx))
}

// insert runs one of the inserts.
func (w *writer) insert(ctx context.Context, name string, args ...any) error {
	statement := w.statements[name]
	if statement == nil {
		var err error
		if statement, err = w.tx.PrepareContext(ctx, inserts[name]); err != nil {
			return fmt.Errorf("prepare %s: %w", name, err)
		}
		w.statements[name] = statement
	}
	if _, err := statement.ExecContext(ctx, args...); err != nil {
		return fmt.Errorf("store the %s: %w", name, err)
	}
	return nil
}

// put stores an entry, but for its author.
func (w *writer) put(ctx context.Context, e *feed.Entry) error {
	p := &e.Post
	if err := w.insert(ctx, "post", p.ID, p.Published, p.Author, p.Pinned, p.Media, p.Comments, p.Reactions, p.Title, p.Text); err != nil {
		return err
	}
	for i, m := range e.Media {
		if err := w.insert(ctx, "medium", p.ID, i, m.Kind, m.URL, m.Alt, m.Width, m.Height); err != nil {
			return err
		}
	}
	for i, r := range e.Reactions {
		if err := w.insert(ctx, "reaction", p.ID, i, r.Kind, r.Count); err != nil {
			return err
		}
	}
	for i, c := range e.Comments {
		if err := w.insert(ctx, "comment", p.ID, i, c.Author, c.Published, c.Text); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) author(ctx context.Context, a *feed.Author) error {
	return w.insert(ctx, "author", a.ID, a.Name, a.Role, a.Team, a.About, a.Photo)
}

// Fill implements feed.Store, in one transaction.
func (s *Store) Fill(ctx context.Context, source dataset.Source[feed.Entry], progress dataset.Progress) (kept bool, err error) {
	meta := source.Meta()
	err = s.write(ctx, func(w *writer) error {
		if kept, err = occupied(ctx, w.tx, meta); err != nil || kept {
			return err
		}
		known := map[int64]bool{} // authors
		err := dataset.Each(ctx, source, progress, func(e *feed.Entry) error {
			if !known[e.Author.ID] {
				known[e.Author.ID] = true
				if err := w.author(ctx, &e.Author); err != nil {
					return err
				}
			}
			return w.put(ctx, e)
		})
		if err != nil {
			return err
		}
		_, err = w.tx.ExecContext(ctx, `UPDATE data_set SET origin = ?, fingerprint = ?, posts = ?`, meta.Origin, meta.Fingerprint, meta.Count)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("fill the feed in %s: %w", s.path, err)
	}
	return kept, nil
}

// occupied is feed.Occupied.
func occupied(ctx context.Context, tx *sql.Tx, with dataset.Meta) (kept bool, err error) {
	have, err := readMeta(ctx, tx)
	return feed.Occupied(have, err, func() (posts bool, err error) {
		err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM posts) OR EXISTS (SELECT 1 FROM kept)`).Scan(&posts)
		return posts, err
	}, with)
}
