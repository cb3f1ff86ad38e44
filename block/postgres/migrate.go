package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNewer is wrapped when the tables are of a later program.
var ErrNewer = errors.New("the tables are newer than this program")

// Migrations are the numbered steps that make a schema's tables. The steps that were
// done are kept in its table migrations.
type Migrations struct {
	schema string
	lock   int64
	steps  []step
}

// step is one numbered file: NNNN_name.sql.
type step struct {
	name, sql string
}

// ReadMigrations reads the files migrations/NNNN_NAME.sql: 1, 2, 3 and so on without a
// gap. The schema needs no quotes; lock is the key of the advisory lock under which the
// steps are done.
func ReadMigrations(files fs.FS, schema string, lock int64) (Migrations, error) {
	m := Migrations{schema: schema, lock: lock}
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		return m, fmt.Errorf("list migrations: %w", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return m, fmt.Errorf("read migration: %w", err)
		}
		base := strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql")
		number, title, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != m.Latest()+1 || title == "" {
			return m, fmt.Errorf("migration %s: its name must be %04d_NAME.sql", name, m.Latest()+1)
		}
		m.steps = append(m.steps, step{title, string(text)})
	}
	return m, nil
}

// Latest is the version that the steps lead to.
func (m Migrations) Latest() int { return len(m.steps) }

// Querier is a connection, a pool or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Version reads which version the tables have; 0 if there are none.
func (m Migrations) Version(ctx context.Context, db Querier) (int, error) {
	var exists bool
	if err := db.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", m.schema+".migrations").Scan(&exists); err != nil {
		return 0, fmt.Errorf("look for our tables: %w", err)
	}
	if !exists {
		return 0, nil
	}
	var version int
	if err := db.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+m.schema+".migrations").Scan(&version); err != nil {
		return 0, fmt.Errorf("read the tables' version: %w", err)
	}
	return version, nil
}

// Readers wait behind a step that waits for a table. So it waits for much less than a
// reader may take, and leaves them as much time between two attempts.
const (
	ddlWait     = 200 * time.Millisecond
	ddlAttempts = 150 // a minute
)

// Migrate brings the tables to the latest version. It does nothing if they have it,
// waits for another program that is migrating, and refuses tables that are newer
// (ErrNewer).
//
// Each step is a transaction of its own, so that what was done stays done, and a lock
// is held no longer than its step takes. One that needs a table for itself gives up
// after ddlWait and tries again, so that readers go on meanwhile.
func (m Migrations) Migrate(ctx context.Context, conn *pgx.Conn) error {
	for attempt := 1; ; {
		more, err := m.next(ctx, conn)
		switch {
		case KindOf(err) == Locked && attempt < ddlAttempts:
			attempt++
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(ddlWait):
			}
		case KindOf(err) == Locked:
			return fmt.Errorf("a table was in use for a minute, by a publishing perhaps: run this again after it: %w", err)
		case err != nil || !more:
			return err
		}
	}
}

// migrateTimeout bounds making the tables, and waiting for another who makes them.
const migrateTimeout = 2 * time.Minute

// MigrateAt is Migrate over a connection of its own, within two minutes.
func (m Migrations) MigrateAt(ctx context.Context, address string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	conn, err := Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := m.Migrate(ctx, conn); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	return nil
}

// next does the first missing step, and reports false if there is none.
func (m Migrations) next(ctx context.Context, conn *pgx.Conn) (more bool, err error) {
	err = BeginLocked(ctx, conn, m.lock, func(tx pgx.Tx) error {
		// Asked first: who may not create anything can still find that nothing is
		// missing.
		have, err := m.Version(ctx, tx)
		if err != nil {
			return err
		}
		if have > m.Latest() {
			return m.Newer(have)
		}
		if more = have < m.Latest(); !more {
			return nil
		}
		if have == 0 {
			if _, err := tx.Exec(ctx, fmt.Sprintf(createMigrations, m.schema)); err != nil {
				return fmt.Errorf("create the schema: %w", err)
			}
		}
		return m.apply(ctx, tx, have+1)
	})
	return more, err
}

const createMigrations = `
CREATE SCHEMA IF NOT EXISTS %[1]s;
CREATE TABLE IF NOT EXISTS %[1]s.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)`

// Newer is the error of tables of a version after the latest.
func (m Migrations) Newer(have int) error {
	return fmt.Errorf("%w: its tables have version %d, this program knows versions up to %d: use the newer program", ErrNewer, have, m.Latest())
}

func (m Migrations) apply(ctx context.Context, tx pgx.Tx, version int) error {
	step := m.steps[version-1]
	// After the lock on others who migrate, which may take them long.
	if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", ddlWait.Milliseconds())); err != nil {
		return fmt.Errorf("bound waiting: %w", err)
	}
	if _, err := tx.Exec(ctx, step.sql); err != nil {
		return fmt.Errorf("migration %d, %s: %w", version, step.name, err)
	}
	if _, err := tx.Exec(ctx, "INSERT INTO "+m.schema+".migrations (version, name) VALUES ($1, $2)", version, step.name); err != nil {
		return fmt.Errorf("record migration %d: %w", version, err)
	}
	return nil
}

// BeginLocked does a transaction while no other program does one under the same key:
// CREATE IF NOT EXISTS alone fails when two do it at once.
func BeginLocked(ctx context.Context, conn *pgx.Conn, key int64, do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", key); err != nil {
			return fmt.Errorf("wait for others who do this: %w", err)
		}
		return do(tx)
	})
}

// Lock takes the lock of a key for as long as the connection lives. It waits for others
// for so long, and nothing that comes later on this connection waits longer for a lock
// either. Its error is Locked if somebody has it all the while.
func Lock(ctx context.Context, conn *pgx.Conn, key int64, wait time.Duration) error {
	if _, err := conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", wait.Milliseconds())); err != nil {
		return fmt.Errorf("bound waiting: %w", err)
	}
	_, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", key)
	return err
}
