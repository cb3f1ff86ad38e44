// Package sqlitestore keeps activities in a SQLite database: the embedded
// relational store.
//
// Writes are committed in groups by one connection, each group one transaction in
// write-ahead mode with synchronous=FULL, so that the log is synced before
// anybody is answered. Reads have connections of their own and wait for no
// writer. The tables are made when the database is opened for the first time.
//
// While the disk is full nothing is stored, and what is there can be read; it goes on
// by itself when there is room.
//
// The store owns the database file and the two files beside it. Another process may read it;
// one that writes makes this one wait.
package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"modernc.org/sqlite" // registers the driver "sqlite" as well
	sqlite3 "modernc.org/sqlite/lib"

	"loadstone/block/commit"
	"loadstone/system/patterns/activity"
)

const (
	// applicationID tells our databases from others: "LSAC".
	applicationID = 0x4c534143
	// version is that of the tables, kept as PRAGMA user_version.
	version = 1

	// The rows are in the tree of their key: one tree to write instead of two.
	schema = `CREATE TABLE activities (
		id TEXT PRIMARY KEY, user TEXT NOT NULL, kind TEXT NOT NULL,
		at INTEGER NOT NULL, -- milliseconds since 1970
		details TEXT NOT NULL
	) STRICT, WITHOUT ROWID`

	put = `INSERT INTO activities (id, user, kind, at, details) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET user = excluded.user, kind = excluded.kind, at = excluded.at, details = excluded.details`
	get = `SELECT user, kind, at, details FROM activities WHERE id = ?`
)

// maxWaiting bounds the reads that are under way or wait for a connection.
const maxWaiting = 1024

// Store is an activity.Store over one database file.
type Store struct {
	path       string
	writes     *sql.DB // one connection
	reads      *sql.DB
	insert     *sql.Stmt
	find       *sql.Stmt
	durability activity.Durability
	writer     *commit.Writer[activity.Activity]
	gate       activity.Gate
	closed     atomic.Bool
	close      sync.Once
	closeErr   error
}

// Open opens the database at path, or makes it. The metrics are package commit's.
func Open(ctx context.Context, path string, r prometheus.Registerer) (*Store, error) {
	s := &Store{path: path, gate: activity.NewGate(maxWaiting)}
	if err := s.open(ctx, r); err != nil {
		return nil, errors.Join(fmt.Errorf("open the activities in %s: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, r prometheus.Registerer) error {
	var err error
	if s.writes, err = connect(s.path, url.Values{
		"_pragma": {
			"busy_timeout(5000)", // ms: somebody else's write, or what a killed process left to be recovered
			"journal_mode(WAL)",
			"synchronous(FULL)",        // the log is synced by each commit
			"wal_autocheckpoint(4000)", // pages: 16 MB between syncs of the database itself
		},
		// A transaction that writes is one from the start, and waits instead of failing.
		"_txlock": {"immediate"},
	}, 1); err != nil {
		return err
	}
	if err := prepareFile(ctx, s.writes); err != nil {
		return err
	}
	if s.durability, err = durability(ctx, s.writes); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	// A read is processor work: more of them than processors only interrupt
	// each other.
	if s.reads, err = connect(s.path, url.Values{"_pragma": {"busy_timeout(5000)", "query_only(1)"}}, runtime.GOMAXPROCS(0)); err != nil {
		return err
	}
	if s.insert, err = s.writes.PrepareContext(ctx, put); err != nil {
		return fmt.Errorf("prepare to store: %w", err)
	}
	if s.find, err = s.reads.PrepareContext(ctx, get); err != nil {
		return fmt.Errorf("prepare to read: %w", err)
	}
	cfg := commit.DefaultConfig[activity.Activity]()
	cfg.Commit, cfg.Registerer = s.commit, r
	s.writer, err = commit.New(cfg)
	return err
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

// prepareFile makes the tables, in one transaction, or refuses a database that is
// not ours.
func prepareFile(ctx context.Context, db *sql.DB) (err error) {
	tx, err := db.BeginTx(ctx, nil)
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
	switch {
	case id == applicationID && found == version:
	case id == 0 && tables == 0:
		for _, statement := range []string{
			schema, fmt.Sprintf("PRAGMA application_id = %d", applicationID), fmt.Sprintf("PRAGMA user_version = %d", version),
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("make the table: %w", err)
			}
		}
	case id == applicationID:
		return fmt.Errorf("its tables are of version %d and this program's of %d; name another file", found, version)
	default:
		return errors.New("this database holds something else; name another file")
	}
	return tx.Commit()
}

// syncDir makes the names of new files in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// commit stores a group in one transaction. It has no deadline: a sync of a local
// disk cannot be called off, and those who wait have theirs.
func (s *Store) commit(group []activity.Activity) (err error) {
	ctx := context.Background()
	defer func() { err = unavailable(err) }()
	tx, err := s.writes.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	insert := tx.StmtContext(ctx, s.insert) //nolint:sqlclosecheck // the end of the transaction closes it
	for i := range group {
		a := &group[i]
		if _, err := insert.ExecContext(ctx, a.ID, a.User, a.Kind, a.Millis(), a.Details); err != nil {
			// SQLite has rolled back by itself after some errors, and then says
			// that there is nothing to roll back.
			_ = tx.Rollback()
			return fmt.Errorf("insert: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		// database/sql holds the transaction for ended; SQLite may not, and
		// would refuse to begin another.
		_, _ = s.writes.ExecContext(ctx, "ROLLBACK")
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// unavailable says of an error of the disk that it may pass: that it is full, that it
// failed, or that somebody else's write took too long.
func unavailable(err error) error {
	failed, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return err
	}
	const primary = 0xff // the rest of a code says more about it
	switch failed.Code() & primary {
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: the disk is full; nothing is stored until there is room again: %w", activity.ErrUnavailable, err)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN:
		return fmt.Errorf("%w: %w", activity.ErrUnavailable, err)
	default:
		return err
	}
}

// durability reads what the connection that writes really does: a file system may not
// have what write-ahead mode needs, and SQLite then stays in the mode that it was in.
func durability(ctx context.Context, db *sql.DB) (activity.Durability, error) {
	var mode string
	var level int
	for statement, target := range map[string]any{"PRAGMA journal_mode": &mode, "PRAGMA synchronous": &level} {
		if err := db.QueryRowContext(ctx, statement).Scan(target); err != nil {
			return activity.Durability{}, fmt.Errorf("%s: %w", statement, err)
		}
	}
	const full = 2
	levels := [...]string{"OFF", "NORMAL", "FULL", "EXTRA"}
	return activity.Durability{
		// Without a log, or with one in memory, what a crash leaves is not even whole.
		Synced: level >= full && mode != "off" && mode != "memory",
		How:    fmt.Sprintf("SQLite: %s, synchronous=%s, group commit", strings.ToUpper(mode), levels[min(max(level, 0), len(levels)-1)]),
	}, nil
}

// Put implements activity.Store.
func (s *Store) Put(ctx context.Context, a *activity.Activity) error {
	if err := s.writer.Put(ctx, *a); err != nil {
		return fmt.Errorf("store activity %s: %w", a.ID, activity.OfCommit(err))
	}
	return nil
}

// Get implements activity.Store.
func (s *Store) Get(ctx context.Context, id string) (activity.Activity, error) {
	if s.closed.Load() {
		return activity.Activity{}, activity.ErrClosed
	}
	if !s.gate.Enter() {
		return activity.Activity{}, activity.ErrBusy
	}
	defer s.gate.Leave()
	a, at := activity.Activity{ID: id}, int64(0)
	err := s.find.QueryRowContext(ctx, id).Scan(&a.User, &a.Kind, &at, &a.Details)
	switch {
	case err == nil:
		a.At = activity.Time(at)
		return a, nil
	case errors.Is(err, sql.ErrNoRows):
		return a, activity.ErrNotFound
	case s.closed.Load():
		return a, activity.ErrClosed
	default:
		return a, fmt.Errorf("read activity %s: %w", id, unavailable(err))
	}
}

// Durability implements activity.Store.
func (s *Store) Durability() activity.Durability {
	return s.durability
}

// Close implements activity.Store.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.closed.Store(true)
		if s.writer != nil {
			s.writer.Close()
		}
		for _, statement := range []*sql.Stmt{s.insert, s.find} {
			if statement != nil {
				s.closeErr = errors.Join(s.closeErr, statement.Close())
			}
		}
		for _, db := range []*sql.DB{s.reads, s.writes} { // the last connection moves the log into the database
			if db != nil {
				s.closeErr = errors.Join(s.closeErr, db.Close())
			}
		}
	})
	return s.closeErr
}
