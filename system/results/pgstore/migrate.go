package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/system/results"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered file: NNNN_name.sql.
type migration struct {
	version int
	name    string
	sql     string
}

// migrations returns all steps in order: 1, 2, 3 and so on without a gap.
func migrations() ([]migration, error) { return readMigrations(migrationFiles) }

func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	steps := make([]migration, 0, len(names))
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		base := strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql")
		number, title, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(steps)+1 || title == "" {
			return nil, fmt.Errorf("migration %s: its name must be %04d_NAME.sql", name, len(steps)+1)
		}
		steps = append(steps, migration{version, title, string(text)})
	}
	return steps, nil
}

// Keys of the advisory locks, "LSRS" and a number: one to change the tables, one
// to fill them, one to correct students.
const (
	migrateLock = 0x4c535253_00000001
	seedLock    = 0x4c535253_00000002
	correctLock = 0x4c535253_00000003
)

const createMigrations = `
CREATE SCHEMA IF NOT EXISTS results;
CREATE TABLE IF NOT EXISTS results.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)`

// Migrate brings the database's tables to this program's version. It does nothing
// if they have it, waits for another program that is migrating, and refuses a
// database that is newer than the program (results.ErrVersion).
//
// Each step is a transaction of its own, so that what was done stays done, and a
// lock is held no longer than its step takes. Servers go on looking up meanwhile,
// those of the version before included: no step takes away what they read, and
// one that needs a table for itself gives up after ddlWait and tries again.
func Migrate(ctx context.Context, conn *pgx.Conn) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	return migrate(ctx, conn, steps)
}

// Look-ups wait behind a step that waits for a table. So it waits for much less
// than a look-up may take (Config.StatementTimeout), and leaves them as much time
// between two tries.
const (
	ddlWait  = 200 * time.Millisecond
	ddlTries = 150 // a minute
)

func migrate(ctx context.Context, conn *pgx.Conn, steps []migration) error {
	for tries := 1; ; {
		more, err := migrateNext(ctx, conn, steps)
		switch {
		case hasCode(err, codeLockNotFree) && tries < ddlTries:
			tries++
			if err := pause(ctx, ddlWait); err != nil {
				return fmt.Errorf("migrate the database: %w", err)
			}
		case hasCode(err, codeLockNotFree):
			return fmt.Errorf("migrate the database: a table was in use for a minute, by a publishing perhaps: run this again after it: %w", err)
		case err != nil:
			return fmt.Errorf("migrate the database: %w", classify(ctx, err))
		case !more:
			return nil
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// migrateNext does the first missing step, and reports false if there is none.
func migrateNext(ctx context.Context, conn *pgx.Conn, steps []migration) (more bool, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Until the end of the transaction. CREATE IF NOT EXISTS alone fails
		// when two do it at once.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", migrateLock); err != nil {
			return fmt.Errorf("wait for others who migrate: %w", err)
		}
		// Asked first: who may not create anything can still find that nothing
		// is missing.
		have, err := version(ctx, tx)
		if err != nil {
			return err
		}
		if have > len(steps) {
			return newer(have, len(steps))
		}
		if more = have < len(steps); !more {
			return nil
		}
		if have == 0 {
			if _, err := tx.Exec(ctx, createMigrations); err != nil {
				return fmt.Errorf("create the schema: %w", err)
			}
		}
		return apply(ctx, tx, steps[have])
	})
	return more, err
}

func apply(ctx context.Context, tx pgx.Tx, step migration) error {
	// After the lock on others who migrate, which may take them long.
	if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", ddlWait.Milliseconds())); err != nil {
		return fmt.Errorf("bound waiting: %w", err)
	}
	if _, err := tx.Exec(ctx, step.sql); err != nil {
		return fmt.Errorf("migration %d, %s: %w", step.version, step.name, err)
	}
	const record = "INSERT INTO results.migrations (version, name) VALUES ($1, $2)"
	if _, err := tx.Exec(ctx, record, step.version, step.name); err != nil {
		return fmt.Errorf("record migration %d: %w", step.version, err)
	}
	return nil
}

func newer(have, want int) error {
	return kind{results.ErrVersion, fmt.Errorf(
		"its tables have version %d, this program knows versions up to %d: use the newer program", have, want)}
}

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version reads which version the tables have; 0 if there are none.
func version(ctx context.Context, db querier) (int, error) {
	var exists bool
	if err := db.QueryRow(ctx, "SELECT to_regclass('results.migrations') IS NOT NULL").Scan(&exists); err != nil {
		return 0, fmt.Errorf("look for our tables: %w", err)
	}
	if !exists {
		return 0, nil
	}
	var version int
	if err := db.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM results.migrations").Scan(&version); err != nil {
		return 0, fmt.Errorf("read the tables' version: %w", err)
	}
	return version, nil
}

// checkVersion reports whether this program can read the tables.
func checkVersion(ctx context.Context, db querier) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	switch have, err := version(ctx, db); {
	case err != nil:
		return err
	case have == 0:
		return kind{results.ErrMissing, errors.New("it has no tables of ours: seed or import first")}
	case have > len(steps):
		return newer(have, len(steps))
	case have < len(steps):
		return kind{results.ErrVersion, fmt.Errorf(
			"its tables have version %d, this program needs %d: seed or import again, which brings them up and keeps the students",
			have, len(steps))}
	}
	return nil
}
