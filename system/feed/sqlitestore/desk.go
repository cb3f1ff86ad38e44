package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"loadstone/block/dataset"
	"loadstone/system/feed"
)

// queriesOf are the queries of a transaction.
func queriesOf(tx *sql.Tx) feed.Rows {
	return func(ctx context.Context, query string, scan func(row feed.Scan) error, args ...any) error {
		text, ok := deskQueries[query]
		if !ok {
			text, ok = queries[query]
		}
		if !ok { // lock: who writes is alone
			return nil
		}
		found, err := tx.QueryContext(ctx, text, args...)
		if err := scanned(found, err, scan); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		return nil
	}
}

// Apply implements feed.Desk.
func (s *Store) Apply(ctx context.Context, c feed.Change, e *feed.Entry, only feed.Condition) (done feed.Change, err error) {
	err = s.write(ctx, func(w *writer) error {
		put := func(ctx context.Context, e *feed.Entry) error {
			return errors.Join(w.author(ctx, &e.Author), w.put(ctx, e))
		}
		done, err = feed.Tx{Rows: queriesOf(w.tx), Posts: list, Put: put}.Apply(ctx, c, e, only)
		return err
	})
	if err != nil {
		return c, fmt.Errorf("change post %d: %w", c.Post, err)
	}
	return done, nil
}

// Put implements feed.Store.
func (s *Store) Put(ctx context.Context, e *feed.Entry) error { return feed.Put(ctx, s, e) }

// Delete implements feed.Store.
func (s *Store) Delete(ctx context.Context, id int64) error { return feed.Delete(ctx, s, id) }

// look does a transaction that reads one state.
func (s *Store) look(ctx context.Context, do func(ctx context.Context, t feed.Tx) error) error {
	tx, err := s.db.Read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return s.classify(ctx, err)
	}
	defer func() { _ = tx.Rollback() }() // it only read
	return s.classify(ctx, do(ctx, feed.Tx{Rows: queriesOf(tx), Posts: list}))
}

// Each implements feed.Desk.
func (s *Store) Each(ctx context.Context, progress dataset.Progress, use func(e *feed.Entry) error) error {
	return s.look(ctx, func(ctx context.Context, t feed.Tx) error { return t.Each(ctx, progress, use) })
}
