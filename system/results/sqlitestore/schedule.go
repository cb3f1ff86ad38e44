package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"loadstone/block/atomicfile"
	"loadstone/block/sqlite"
	"loadstone/system/results"
)

// createSchedule is made with the first instant of publication: who has set which, empty
// for none.
const createSchedule = `CREATE TABLE IF NOT EXISTS schedule (
	set_at TEXT NOT NULL, set_by TEXT NOT NULL, publish_at TEXT NOT NULL) STRICT`

// Reschedule changes when the results in the database come out, by this machine's clock,
// and notes who changed it in the table schedule. As with Correct, a copy replaces the
// file. The error is choose's or one of Open's, or wraps atomicfile.ErrBusy.
func Reschedule(ctx context.Context, path, by string, choose results.Reschedule) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("change when the results in %s come out: %w", path, err)
		}
	}()
	if _, err := inspect(path); err != nil { // before a file is made beside a mistyped name
		return err
	}
	pending, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pending.Discard()) }()
	store, err := Open(ctx, path)
	if err != nil {
		return err
	}
	have := store.state.PublishAt
	if err := store.Close(); err != nil {
		return err
	}
	at, err := choose(have, time.Now())
	if err != nil || at.Equal(have) {
		return err
	}
	if err := copyFile(pending.File(), path); err != nil {
		return err
	}
	if err := change(ctx, pending.Path(), func(conn *sql.Conn) error { return schedule(ctx, conn, at, by) }); err != nil {
		return err
	}
	return pending.Commit()
}

// change makes changes in a database that nobody else has, all or none.
func change(ctx context.Context, path string, apply func(*sql.Conn) error) (err error) {
	conn, closeAll, err := sqlite.OpenAlone(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	if err := execute(ctx, conn, "BEGIN"); err != nil {
		return err
	}
	if err := apply(conn); err != nil {
		return err
	}
	return execute(ctx, conn, "COMMIT")
}

// schedule notes an instant, zero for none, and who has set it.
func schedule(ctx context.Context, conn *sql.Conn, at time.Time, by string) error {
	if at.IsZero() {
		return nil
	}
	text := at.Format(time.RFC3339Nano)
	if err := execute(ctx, conn, createSchedule); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "INSERT INTO schedule VALUES (?, ?, ?)", time.Now().UTC().Format(time.RFC3339), by, text); err != nil {
		return fmt.Errorf("note who has set it: %w", err)
	}
	return writeMeta(ctx, conn, map[string]string{publishKey: text})
}
