package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

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
// to fill them.
const (
	migrateLock = 0x4c535253_00000001
	seedLock    = 0x4c535253_00000002
)

const createMigrations = `
CREATE SCHEMA IF NOT EXISTS results;
CREATE TABLE IF NOT EXISTS results.migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)`

// Migrate brings the database's tables to this program's version: all missing
// steps in one transaction, or none. It does nothing if there are none, waits for
// another program that is migrating, and refuses a database that is newer than
// the program (results.ErrVersion).
func Migrate(ctx context.Context, conn *pgx.Conn) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	return migrate(ctx, conn, steps)
}

func migrate(ctx context.Context, conn *pgx.Conn, steps []migration) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
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
		if have == 0 {
			if _, err := tx.Exec(ctx, createMigrations); err != nil {
				return fmt.Errorf("create the schema: %w", err)
			}
		}
		if have > len(steps) {
			return newer(have, len(steps))
		}
		for _, step := range steps[have:] {
			if _, err := tx.Exec(ctx, step.sql); err != nil {
				return fmt.Errorf("migration %d, %s: %w", step.version, step.name, err)
			}
			const record = "INSERT INTO results.migrations (version, name) VALUES ($1, $2)"
			if _, err := tx.Exec(ctx, record, step.version, step.name); err != nil {
				return fmt.Errorf("record migration %d: %w", step.version, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("migrate the database: %w", classify(ctx, err))
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
