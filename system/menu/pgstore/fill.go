package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/system/menu"
)

// chunkMenus is how many menus are one unit of filling, a transaction with its mark: 4.5
// MB, a tenth of a second. Databases remember the size that they were begun with.
const chunkMenus = 4096

// fillWait is how long Fill waits for another that fills the same database. One that was
// killed may hold the lock until the database notices.
const fillWait = 10 * time.Second

// errRepeated is why a source is refused after it has been read.
var errRepeated = menu.OfSource(errors.New("the data set has an id twice: mend it, and " + anew))

// anew is what to do with a database that cannot be filled.
const anew = "begin with an empty database: DROP SCHEMA menu CASCADE"

// Fill implements menu.Filler. The menus go in by COPY, in chunks, over a connection for
// each core, into a table of their own, which gets its key at the end and takes the place
// of the empty one. So nobody ever finds a part of them, and what an interrupted filling
// has written stays for the next. The source must come in the same order again.
func (s *Store) Fill(ctx context.Context, source dataset.Source[menu.Menu], progress dataset.Progress) (menu.Filled, error) {
	f := filling{store: s, source: source, progress: progress}
	done, err := f.run(ctx)
	if err != nil {
		return menu.Filled{}, fmt.Errorf("fill database %s: %w", s.name, s.classify(ctx, err))
	}
	return done, nil
}

// filling is one call of Fill.
type filling struct {
	store    *Store
	source   dataset.Source[menu.Menu]
	progress dataset.Progress

	chunk   int // menus in a chunk
	written map[int64]dataset.Mark
	resumed int64
}

func (f *filling) run(ctx context.Context) (menu.Filled, error) {
	if err := f.source.Meta().Check(); err != nil {
		return menu.Filled{}, menu.OfSource(err)
	}
	conn, err := f.store.connect(ctx)
	if err != nil {
		return menu.Filled{}, err
	}
	defer f.store.hangUp(conn) // which frees the lock
	if err := postgres.Lock(ctx, conn, fillLock, fillWait); err != nil {
		if postgres.KindOf(err) == postgres.Locked {
			return menu.Filled{}, fmt.Errorf("%w: another program has been filling it for %v: let it finish, then run this again", menu.ErrUnavailable, fillWait)
		}
		return menu.Filled{}, err
	}
	kept := false
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
		kept, err = f.begin(ctx, tx)
		return err
	}); err != nil || kept {
		return menu.Filled{Kept: kept}, err
	}
	if err := menu.Load(ctx, f.source, dataset.Load[menu.Menu]{
		ChunkRecords: f.chunk, Written: f.written, Progress: f.progress,
		Open: func(ctx context.Context) (dataset.Writer[menu.Menu], error) {
			conn, err := f.store.connect(ctx)
			return chunkWriter{f.store, conn}, err
		},
	}, anew); err != nil {
		return menu.Filled{}, err
	}
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return finish(ctx, tx) }); err != nil {
		if postgres.KindOf(err) == postgres.Exists {
			err = errRepeated
		}
		return menu.Filled{}, err
	}
	// Marks rows as visible to everybody, which the first readers would else do, one page
	// at a time, and counts for the planner. The database does it by itself, later.
	if _, err := conn.Exec(ctx, "VACUUM (ANALYZE) menu.menus"); err != nil {
		return menu.Filled{}, fmt.Errorf("vacuum: %w", err)
	}
	return menu.Filled{Resumed: f.resumed}, nil
}

// begin records what is to be done, or finds out how far it was done.
func (f *filling) begin(ctx context.Context, tx pgx.Tx) (kept bool, err error) {
	// Writers that are under way end first; those who come later see the record.
	if _, err := tx.Exec(ctx, "LOCK TABLE menu.menus IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return false, fmt.Errorf("wait for writers: %w", err)
	}
	have, err := readFilled(ctx, tx)
	want := f.source.Meta()
	switch {
	case err != nil:
		return false, err
	case have == nil:
		return false, f.beginAnew(ctx, tx)
	case !have.meta.Same(want):
		return false, fmt.Errorf("%w: it has %s, not %s; name another database, or empty this one: DROP SCHEMA menu CASCADE",
			menu.ErrOccupied, have.meta.Origin, want.Origin)
	case have.complete:
		return true, nil
	}
	f.chunk, f.written = have.chunk, map[int64]dataset.Mark{}
	rows, err := tx.Query(ctx, "SELECT number, menus, first_id, last_id FROM menu.chunks")
	if err != nil {
		return false, err
	}
	var number int64
	var mark dataset.Mark
	_, err = pgx.ForEachRow(rows, []any{&number, &mark.Records, &mark.First, &mark.Last}, func() error {
		f.written[number] = mark
		f.resumed += int64(mark.Records)
		return nil
	})
	return false, err
}

func (f *filling) beginAnew(ctx context.Context, tx pgx.Tx) error {
	var occupied bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM menu.menus)").Scan(&occupied); err != nil {
		return err
	}
	if occupied {
		return fmt.Errorf("%w: it has menus that were written one by one; name another database, or empty this one: DROP SCHEMA menu CASCADE", menu.ErrOccupied)
	}
	meta := f.source.Meta()
	f.chunk = chunkMenus
	_, err := tx.Exec(ctx, "INSERT INTO menu.data_set (origin, fingerprint, menus, chunk_menus) VALUES ($1, $2, $3, $4)",
		meta.Origin, meta.Fingerprint, meta.Count, f.chunk)
	if err == nil {
		_, err = tx.Exec(ctx, "CREATE TABLE menu.filling (LIKE menu.menus INCLUDING CONSTRAINTS)")
	}
	return err
}

// finish makes the keys, puts the table in its place, and marks it complete: all or nothing.
func finish(ctx context.Context, tx pgx.Tx) error {
	for _, statement := range []string{
		"SET LOCAL maintenance_work_mem = '256MB'", // to sort ten million ids in memory
		"ALTER TABLE menu.filling ADD CONSTRAINT filling_pkey PRIMARY KEY (id)",
		"SELECT setval('menu.ids', max(id)) FROM menu.filling",
		"DROP TABLE menu.menus",
		"ALTER TABLE menu.filling RENAME TO menus",
		"ALTER INDEX menu.filling_pkey RENAME TO menus_pkey",
		"CREATE INDEX menus_changed_idx ON menu.menus (id) WHERE changed",
		"TRUNCATE menu.chunks",
		"UPDATE menu.data_set SET completed_at = now()",
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.40s...: %w", statement, err)
		}
	}
	return nil
}

// chunkWriter writes chunks over a connection of its own.
type chunkWriter struct {
	store *Store
	conn  *pgx.Conn
}

// Write implements dataset.Writer: a transaction.
func (w chunkWriter) Write(ctx context.Context, c *dataset.Chunk[menu.Menu]) error {
	return pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		// Used again for each row: pgx has encoded them before it asks for the next.
		values, next, body := make([]any, 5), 0, []byte(nil)
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"menu", "filling"}, []string{"id", "version", "tag", "changed", "body"},
			pgx.CopyFromFunc(func() ([]any, error) {
				if next == len(c.Records) {
					return nil, nil
				}
				m := &c.Records[next]
				next++
				body = m.AppendJSON(body[:0])
				values[0], values[1], values[2], values[3], values[4] = m.ID, int64(1), int64(menu.Tag(body)), false, body
				return values, nil
			}))
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO menu.chunks (number, menus, first_id, last_id) VALUES ($1, $2, $3, $4)",
			c.Number, c.Mark.Records, c.Mark.First, c.Mark.Last)
		return err
	})
}

// Close implements dataset.Writer.
func (w chunkWriter) Close() error {
	w.store.hangUp(w.conn) // what was committed does not depend on how it ends
	return nil
}
