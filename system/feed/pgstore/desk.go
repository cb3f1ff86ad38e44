package pgstore

import (
	"context"
	"fmt"
	"maps"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/system/feed"
)

// deskQueries are prepared when they are first used, but for those of queries.
var deskQueries = func() map[string]string {
	all := feed.DeskQueries()
	// Locks of two numbers are others than those of one: "LSFD", and the hash of the id.
	all["lock"] = `SELECT FROM pg_advisory_xact_lock(1280525892, hashint8($1))`
	maps.Copy(all, queries)
	return all
}()

// queriesOf are the queries of a transaction.
func queriesOf(tx pgx.Tx) feed.Rows {
	return func(ctx context.Context, query string, scan func(row feed.Scan) error, args ...any) error {
		found, err := tx.Query(ctx, deskQueries[query], args...)
		if err := scanned(found, err, scan); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
		return nil
	}
}

// list is ids as queries take them.
func list(ids ...int64) any { return ids }

// Apply implements feed.Desk.
func (s *Store) Apply(ctx context.Context, c feed.Change, e *feed.Entry, only feed.Condition) (done feed.Change, err error) {
	err = s.pool.Tx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		// While a filling lasts, changes wait.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock_shared($1)", int64(fillLock)); err != nil {
			return err
		}
		put := func(ctx context.Context, e *feed.Entry) error {
			a := &e.Author
			if _, err := tx.Exec(ctx, putAuthor, a.ID, a.Name, a.Role, a.Team, a.About, a.Photo); err != nil {
				return err
			}
			all := newRows()
			all.put(e)
			return all.copyTo(ctx, tx)
		}
		done, err = feed.Tx{Rows: queriesOf(tx), Posts: list, Put: put}.Apply(ctx, c, e, only)
		return err
	})
	if err != nil {
		return c, fmt.Errorf("change post %d: %w", c.Post, classify(ctx, err))
	}
	return done, nil
}

// Put implements feed.Store.
func (s *Store) Put(ctx context.Context, e *feed.Entry) error { return feed.Put(ctx, s, e) }

// Delete implements feed.Store.
func (s *Store) Delete(ctx context.Context, id int64) error { return feed.Delete(ctx, s, id) }

// oneState is what a transaction that reads sees.
var oneState = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// look does a transaction that reads one state.
func (s *Store) look(ctx context.Context, do func(ctx context.Context, t feed.Tx) error) error {
	err := s.pool.With(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, oneState, func(tx pgx.Tx) error { return do(ctx, feed.Tx{Rows: queriesOf(tx), Posts: list}) })
	})
	return classify(ctx, err)
}

// Each implements feed.Desk, over a connection of its own: reading everything takes as long as it takes.
func (s *Store) Each(ctx context.Context, progress dataset.Progress, use func(e *feed.Entry) error) error {
	conn, err := postgres.Connect(ctx, s.cfg.URL)
	if err != nil {
		return fmt.Errorf("read the feed in %s: %w", s.name, classify(ctx, err))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it only read
	err = pgx.BeginTxFunc(ctx, conn, oneState, func(tx pgx.Tx) error {
		return feed.Tx{Rows: queriesOf(tx), Posts: list}.Each(ctx, progress, use)
	})
	if err != nil {
		return fmt.Errorf("read the feed in %s: %w", s.name, classify(ctx, err))
	}
	return nil
}
