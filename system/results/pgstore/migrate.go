package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"loadstone/block/postgres"
	"loadstone/system/results"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations() (postgres.Migrations, error) {
	return postgres.ReadMigrations(migrationFiles, "results", migrateLock)
}

// Keys of the advisory locks, "LSRS" and a number: one to change the tables, one
// to fill them, one to correct students.
const (
	migrateLock = 0x4c535253_00000001
	seedLock    = 0x4c535253_00000002
	correctLock = 0x4c535253_00000003
)

// Migrate brings the database's tables to this program's version, see
// postgres.Migrations. It refuses a database that is newer than the program
// (results.ErrVersion).
//
// Servers go on looking up meanwhile, those of the version before included: no step
// takes away what they read.
func Migrate(ctx context.Context, conn *pgx.Conn) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	if err := steps.Migrate(ctx, conn); err != nil {
		return fmt.Errorf("migrate the database: %w", classify(ctx, newer(err)))
	}
	return nil
}

// Upgrade is Migrate for a database that has tables of ours; one that has none stays as it
// is.
func Upgrade(ctx context.Context, address string) (err error) {
	conn, err := connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	steps, err := migrations()
	if err != nil {
		return err
	}
	switch have, err := steps.Version(ctx, conn); {
	case err != nil:
		return classify(ctx, err)
	case have == 0 || have == steps.Latest():
		return nil
	}
	// Before the tables change: a seed may be filling them.
	if err := lock(ctx, conn); err != nil {
		return err
	}
	return Migrate(ctx, conn)
}

// newer says of postgres.ErrNewer what it is to a store of results.
func newer(err error) error {
	if errors.Is(err, postgres.ErrNewer) {
		return kind{results.ErrVersion, err}
	}
	return err
}

// checkVersion reports whether this program can read the tables.
func checkVersion(ctx context.Context, db postgres.Querier) error {
	steps, err := migrations()
	if err != nil {
		return err
	}
	switch have, err := steps.Version(ctx, db); {
	case err != nil:
		return err
	case have == 0:
		return kind{results.ErrMissing, errors.New("it has no tables of ours: seed or import first")}
	case have > steps.Latest():
		return newer(steps.Newer(have))
	case have < steps.Latest():
		return kind{results.ErrVersion, fmt.Errorf(
			"its tables have version %d, this program needs %d: seed or import again, which brings them up and keeps the students",
			have, steps.Latest())}
	}
	return nil
}
