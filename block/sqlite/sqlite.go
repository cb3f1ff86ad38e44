// Package sqlite opens SQLite databases: one that is written and read while it is
// served, one that nobody changes any more, and one that is just being filled. It
// says which kind an error of the database is of.
//
// It owns what it opens, and no table: statements are the caller's, as database/sql
// has them. A file's name may be anything; it is not taken for a URL.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"loadstone/block/atomicfile"
)

// DB is a database with one writer and many readers, in write-ahead mode: readers
// wait for no writer, and a transaction is on disk when it has returned. Another
// process may read the file; one that writes makes this one wait.
type DB struct {
	// Write has one connection. Its transactions write from the start.
	Write *sql.DB
	// Read has as many connections as there are processors, and cannot write.
	Read *sql.DB

	watch  *sql.DB // for Version
	asking sync.Mutex
	seen   *sql.Conn // its only connection: the numbers of two have nothing to do with each other
	ask    *sql.Stmt // guarded by asking: the driver has one statement for all who ask it at a time
}

// Open opens the database at path, or makes the file.
func Open(ctx context.Context, path string) (_ *DB, err error) {
	db := &DB{}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	const busy = "busy_timeout(5000)" // ms: somebody else's write, or what a killed process left to be recovered
	db.Write, err = connect(path, url.Values{
		"_pragma": {
			busy,
			"journal_mode(WAL)",
			"synchronous(FULL)",        // the log is synced by each commit
			"wal_autocheckpoint(4000)", // pages: 16 MB between syncs of the database itself
		},
		// A transaction that writes is one from the start, and waits instead of failing.
		"_txlock": {"immediate"},
	}, 1)
	if err != nil {
		return nil, err
	}
	if err := db.Write.PingContext(ctx); err != nil { // makes the file
		return nil, err
	}
	if err := atomicfile.SyncDirectory(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if db.Read, err = connect(path, url.Values{"_pragma": {busy, "query_only(1)"}}, readers()); err != nil {
		return db, err
	}
	if db.watch, err = connect(path, url.Values{"_pragma": {busy, "query_only(1)"}}, 1); err != nil {
		return db, err
	}
	if db.seen, err = db.watch.Conn(ctx); err != nil {
		return db, err
	}
	db.ask, err = db.seen.PrepareContext(ctx, "PRAGMA data_version")
	return db, err
}

// Version is another number after each commit, of this process or of another one, than it was
// before. Numbers of two DBs have nothing to do with each other.
func (db *DB) Version(ctx context.Context) (n int64, err error) {
	db.asking.Lock()
	defer db.asking.Unlock()
	err = db.ask.QueryRowContext(ctx).Scan(&n)
	return n, err
}

// readers is how many queries run at a time. A query is processor work: more of them
// than processors only interrupt each other; who finds none free waits.
func readers() int { return runtime.GOMAXPROCS(0) }

// OpenImmutable opens a file of so many bytes that nobody changes, for reading. It is
// mapped whole: reads become memory accesses without a system call or a copy.
func OpenImmutable(path string, size int64) (*sql.DB, error) {
	return connect(path, url.Values{
		"mode":      {"ro"},
		"immutable": {"1"},
		"_pragma":   {"mmap_size(" + strconv.FormatInt(size, 10) + ")", "query_only(1)"},
	}, readers())
}

// OpenAlone opens a file that nobody else has, to fill it. It gives up everything that
// protects a database in use: if filling fails the file is to be thrown away, and who
// publishes it syncs it once. Close closes the connection.
func OpenAlone(ctx context.Context, path string) (conn *sql.Conn, closeAll func() error, err error) {
	db, err := connect(path, url.Values{"_pragma": {
		"journal_mode(OFF)", "synchronous(OFF)", "locking_mode(EXCLUSIVE)",
		"cache_size(-2048)", // KiB; rows come in the order of their keys, so few pages are in use at a time
	}}, 1)
	if err != nil {
		return nil, nil, err
	}
	conn, err = db.Conn(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return conn, func() error { return errors.Join(conn.Close(), db.Close()) }, nil
}

func connect(path string, query url.Values, connections int) (*sql.DB, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	source := url.URL{Scheme: "file", Path: absolute, RawQuery: query.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// Schema is the tables of a program's database, and the marks by which it is known.
type Schema struct {
	// ApplicationID tells the program's databases from others, as PRAGMA application_id.
	ApplicationID int
	// Version is that of the tables, kept as PRAGMA user_version.
	Version int
	// Statements make the tables.
	Statements []string
	// Upgrades are, by version, the statements that make the tables of the next one.
	Upgrades map[int][]string
}

// Make makes the tables and marks in an empty database, in one transaction, brings those of an
// earlier version to the current one, or refuses a database that is not the program's.
func (db *DB) Make(ctx context.Context, schema Schema) (err error) {
	tx, err := db.Write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	var id, found, tables int
	for statement, target := range map[string]*int{
		"PRAGMA application_id": &id, "PRAGMA user_version": &found, "SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := tx.QueryRowContext(ctx, statement).Scan(target); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	statements := schema.Statements
	switch {
	case id == schema.ApplicationID && found == schema.Version:
		return tx.Commit()
	case id == 0 && tables == 0:
	case id == schema.ApplicationID && schema.reaches(found):
		statements = nil
		for ; found < schema.Version; found++ {
			statements = append(statements, schema.Upgrades[found]...)
		}
	case id == schema.ApplicationID:
		return fmt.Errorf("its tables are of version %d and this program's of %d; name another file", found, schema.Version)
	default:
		return errors.New("this database holds something else; name another file")
	}
	for _, statement := range append(slices.Clip(statements),
		fmt.Sprintf("PRAGMA application_id = %d", schema.ApplicationID),
		fmt.Sprintf("PRAGMA user_version = %d", schema.Version)) {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
	}
	return tx.Commit()
}

// reaches reports whether upgrades lead from a version to the current one.
func (s Schema) reaches(version int) bool {
	for version < s.Version && s.Upgrades[version] != nil {
		version++
	}
	return version == s.Version
}

// Commit ends a transaction of Write. If it fails, SQLite may not hold it for ended,
// as database/sql does, and would refuse to begin another: so it is told.
func (db *DB) Commit(ctx context.Context, tx *sql.Tx) error {
	err := tx.Commit()
	if err != nil {
		_, _ = db.Write.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}

// Durability is what a commit does.
type Durability struct {
	// Synced: the log is synced before a commit returns.
	Synced bool
	// Journal and Synchronous are the settings, in capitals.
	Journal, Synchronous string
}

// Durability reads what the connection that writes really does: a file system may not
// have what write-ahead mode needs, and SQLite then stays in the mode that it was in.
func (db *DB) Durability(ctx context.Context) (Durability, error) {
	var mode string
	var level int
	for statement, target := range map[string]any{"PRAGMA journal_mode": &mode, "PRAGMA synchronous": &level} {
		if err := db.Write.QueryRowContext(ctx, statement).Scan(target); err != nil {
			return Durability{}, fmt.Errorf("%s: %w", statement, err)
		}
	}
	const full = 2
	levels := [...]string{"OFF", "NORMAL", "FULL", "EXTRA"}
	return Durability{
		// Without a log, or with one in memory, what a crash leaves is not even whole.
		Synced:  level >= full && mode != "off" && mode != "memory",
		Journal: strings.ToUpper(mode), Synchronous: levels[min(max(level, 0), len(levels)-1)],
	}, nil
}

// Close closes the database after the queries under way; once more, it does nothing. The last connection moves
// the log into the database.
func (db *DB) Close() error {
	var err error
	if db.ask != nil {
		err = db.ask.Close()
	}
	if db.seen != nil {
		if closed := db.seen.Close(); !errors.Is(closed, sql.ErrConnDone) {
			err = errors.Join(err, closed)
		}
	}
	for _, pool := range []*sql.DB{db.watch, db.Read, db.Write} {
		if pool != nil {
			err = errors.Join(err, pool.Close())
		}
	}
	return err
}
