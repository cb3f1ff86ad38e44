package pgstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/system/menu"
)

// source is the menus of one moment.
type source struct {
	store    *Store
	meta     dataset.Meta
	snapshot string
}

// Menus implements menu.Database. The database keeps what the moment needs, also what has
// been changed since, for as long as a transaction is open; it is until ctx ends or the
// Store is closed. Counting ten million menus takes the database a second or two.
func (s *Store) Menus(ctx context.Context) (dataset.Source[menu.Menu], error) {
	source, err := s.moment(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the menus of %s: %w", s.name, s.classify(ctx, err))
	}
	return source, nil
}

// moment opens a transaction that ends with ctx.
func (s *Store) moment(ctx context.Context) (_ *source, err error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.hangUp(conn)
		}
	}()
	tx, err := conn.BeginTx(ctx, oneMoment)
	if err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
		return nil, err
	}
	source := &source{store: s}
	if source.meta, err = describe(ctx, tx); err != nil {
		return nil, err
	}
	if err := tx.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&source.snapshot); err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { s.hangUp(conn) })
	return source, nil
}

var oneMoment = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// describe says what the menus are as of tx: those of the filling, or those and what has
// changed, which is told by the versions and tags of the rows that were written since.
func describe(ctx context.Context, tx pgx.Tx) (dataset.Meta, error) {
	f, err := readFilled(ctx, tx)
	if err != nil {
		return dataset.Meta{}, err
	}
	meta := dataset.Meta{Origin: "menus that were written one by one"}
	if f != nil {
		if !f.complete {
			return dataset.Meta{}, errFilling
		}
		meta = f.meta
	}
	var rows, changed, deleted, versions, digest int64
	err = tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM menu.menus), count(*), count(*) FILTER (WHERE body IS NULL),
			coalesce(sum(version), 0)::bigint, coalesce(bit_xor(hashint8extended(id, tag # version)), 0)
		FROM menu.menus WHERE changed`).Scan(&rows, &changed, &deleted, &versions, &digest)
	if err != nil {
		return dataset.Meta{}, fmt.Errorf("count what has changed: %w", err)
	}
	// A row that was filled in had version 1 before it was changed.
	writes := versions - (changed - (rows - meta.Count))
	meta = meta.Revised(writes, fmt.Sprintf("%016x after %d writes to %016x", uint64(digest), writes, menu.Tag([]byte(meta.Fingerprint))))
	meta.Count = rows - deleted
	return meta, nil
}

// Meta implements dataset.Source.
func (s *source) Meta() dataset.Meta { return s.meta }

// All implements dataset.Source. Rows are read from the connection one by one: memory
// does not grow with their number.
func (s *source) All(ctx context.Context) iter.Seq2[menu.Menu, error] {
	return func(yield func(menu.Menu, error) bool) {
		err := s.scan(ctx, yield)
		if err != nil {
			yield(menu.Menu{}, fmt.Errorf("read all menus of %s: %w", s.store.name, s.store.classify(ctx, err)))
		}
	}
}

// silenceTimeout is how long the database may take for the next row: a thousand times
// what a busy one takes.
const silenceTimeout = 30 * time.Second

// scan yields the menus, and returns nil when all are yielded or the consumer has had enough.
func (s *source) scan(ctx context.Context, yield func(menu.Menu, error) bool) error {
	conn, err := s.store.connect(ctx)
	if err != nil {
		return err
	}
	defer s.store.hangUp(conn) // rows that nobody wants are not read to the last
	tx, err := conn.BeginTx(ctx, oneMoment)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+s.snapshot+"'"); err != nil {
		return fmt.Errorf("go back to the moment of Menus, whose context must not end before this: %w", err)
	}
	// There is no time in which all must have come, but one in which the next must.
	silence := time.AfterFunc(silenceTimeout, func() { s.store.hangUp(conn) })
	defer silence.Stop()
	rows, err := tx.Query(ctx, "SELECT id, body FROM menu.menus WHERE body IS NOT NULL ORDER BY id")
	if err != nil {
		return err
	}
	var id int64
	var body []byte
	for rows.Next() {
		silence.Stop() // what is done with a menu is not the database's time
		if err := rows.Scan(&id, &body); err != nil {
			return err
		}
		m, err := menu.ParseStored(id, body)
		if err != nil {
			return err
		}
		if !yield(m, nil) {
			return nil
		}
		silence.Reset(silenceTimeout)
	}
	return rows.Err()
}
