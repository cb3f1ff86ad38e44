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
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/commit"
	"loadstone/block/sqlite"
	"loadstone/system/patterns/activity"
)

// schema: the rows are in the tree of their key: one tree to write instead of two.
var schema = sqlite.Schema{
	ApplicationID: 0x4c534143, // "LSAC"
	Version:       1,
	Statements: []string{`CREATE TABLE activities (
		id TEXT PRIMARY KEY, user TEXT NOT NULL, kind TEXT NOT NULL,
		at INTEGER NOT NULL, -- milliseconds since 1970
		details TEXT NOT NULL
	) STRICT, WITHOUT ROWID`},
}

const (
	put = `INSERT INTO activities (id, user, kind, at, details) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET user = excluded.user, kind = excluded.kind, at = excluded.at, details = excluded.details`
	get = `SELECT user, kind, at, details FROM activities WHERE id = ?`
)

// maxWaiting bounds the reads that are under way or wait for a connection.
const maxWaiting = 1024

// Store is an activity.Store over one database file.
type Store struct {
	db         *sqlite.DB
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
	s := &Store{gate: activity.NewGate(maxWaiting)}
	if err := s.open(ctx, path, r); err != nil {
		return nil, errors.Join(fmt.Errorf("open the activities in %s: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, path string, r prometheus.Registerer) error {
	var err error
	if s.db, err = sqlite.Open(ctx, path); err != nil {
		return err
	}
	if err := s.db.Make(ctx, schema); err != nil {
		return err
	}
	if s.durability, err = durability(ctx, s.db); err != nil {
		return err
	}
	if s.insert, err = s.db.Write.PrepareContext(ctx, put); err != nil {
		return fmt.Errorf("prepare to store: %w", err)
	}
	if s.find, err = s.db.Read.PrepareContext(ctx, get); err != nil {
		return fmt.Errorf("prepare to read: %w", err)
	}
	cfg := commit.DefaultConfig[activity.Activity]()
	cfg.Commit, cfg.Registerer = s.commit, r
	s.writer = commit.New(cfg)
	return nil
}

// commit stores a group in one transaction. It has no deadline: a sync of a local
// disk cannot be called off, and those who wait have theirs.
func (s *Store) commit(group []activity.Activity) (err error) {
	ctx := context.Background()
	defer func() { err = unavailable(err) }()
	tx, err := s.db.Write.BeginTx(ctx, nil)
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
	if err := s.db.Commit(ctx, tx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// unavailable says of an error of the disk that it may pass: that it is full, that it
// failed, or that somebody else's write took too long.
func unavailable(err error) error {
	switch sqlite.KindOf(err) {
	case sqlite.Full:
		return fmt.Errorf("%w: the disk is full; nothing is stored until there is room again: %w", activity.ErrUnavailable, err)
	case sqlite.Unavailable:
		return fmt.Errorf("%w: %w", activity.ErrUnavailable, err)
	default:
		return err
	}
}

func durability(ctx context.Context, db *sqlite.DB) (activity.Durability, error) {
	d, err := db.Durability(ctx)
	if err != nil {
		return activity.Durability{}, err
	}
	return activity.Durability{
		Synced: d.Synced,
		How:    fmt.Sprintf("SQLite: %s, synchronous=%s, group commit", d.Journal, d.Synchronous),
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
		if s.db != nil {
			s.closeErr = s.db.Close() // its statements end with it
		}
	})
	return s.closeErr
}
