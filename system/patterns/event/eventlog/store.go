package eventlog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"loadstone/system/patterns/event"
)

// Commit is how calls that come at the same time are written.
type Commit string

// The ways to commit.
const (
	// CommitEach makes each call a transaction with its own flush of the disk: the plain way.
	CommitEach Commit = "each"
	// CommitGroup puts calls that are waiting into one transaction.
	CommitGroup Commit = "group"
)

const (
	// maxWaiting bounds the calls that wait for the writer. A further one waits for a
	// place until its deadline.
	maxWaiting = 1024
	// maxGroup bounds a transaction, in calls.
	maxGroup = 256
)

// Store keeps events, each once by its id. It owns one writer goroutine, started by
// run, and the database. What put has returned nil for is on disk.
type Store struct {
	db           *sql.DB
	insert, same *sql.Stmt
	commit       Commit
	waiting      chan *call
	done         chan struct{} // closed when the writer is gone

	stored, duplicates, conflicts atomic.Int64
	busy                          atomic.Int64 // nanoseconds in transactions
}

type call struct {
	events   []event.Event
	conflict error      // the writer's, until it answers
	result   chan error // has room for the answer
}

const schema = `CREATE TABLE IF NOT EXISTS events (
	place INTEGER PRIMARY KEY AUTOINCREMENT,
	id TEXT NOT NULL UNIQUE,
	key TEXT NOT NULL,
	accepted INTEGER NOT NULL, -- nanoseconds since 1970
	body BLOB NOT NULL
) STRICT`

// OpenStore opens or makes the database in a file.
func OpenStore(ctx context.Context, file string, commit Commit) (*Store, error) {
	if commit != CommitEach && commit != CommitGroup {
		return nil, fmt.Errorf("commit %q: write %s or %s", commit, CommitEach, CommitGroup)
	}
	// FULL: a transaction has reached the disk when it returns.
	query := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open the events in %s: %w", file, err)
	}
	s := &Store{db: db, commit: commit, waiting: make(chan *call, maxWaiting), done: make(chan struct{})}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the events in %s: %w", file, err), db.Close())
	}
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("make the table: %w", err)
	}
	var n int64
	if err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM events").Scan(&n); err != nil {
		return fmt.Errorf("count: %w", err)
	}
	s.stored.Store(n)
	var err error
	if s.insert, err = s.db.PrepareContext(ctx, "INSERT INTO events (id, key, accepted, body) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if s.same, err = s.db.PrepareContext(ctx, "SELECT key = ? AND body = ? FROM events WHERE id = ?"); err != nil {
		return errors.Join(fmt.Errorf("prepare: %w", err), s.insert.Close())
	}
	return nil
}

// errConflict is returned by put for an event whose id is that of another one. It is
// refused for good: who made the id used it twice.
var errConflict = errors.New("its id is that of an event with another key or body")

// put stores events, in their order, and returns when they are on disk. Those that are
// there already stay as they are; one that has the id of another is errConflict, and
// those behind it are not stored. After any other error, a deadline included, they may
// be stored or not.
func (s *Store) put(ctx context.Context, events []event.Event) error {
	c := &call{events: events, result: make(chan error, 1)}
	select {
	case s.waiting <- c:
	case <-s.done:
		return errClosed
	case <-ctx.Done():
		return fmt.Errorf("wait for the writer: %w", ctx.Err())
	}
	// The writer uses the events until it answers, so put stays until then: a
	// transaction bounds itself.
	select {
	case err := <-c.result:
		return err
	case <-s.done:
		select {
		case err := <-c.result:
			return err
		default:
			return errClosed
		}
	}
}

var errClosed = errors.New("the store of events is closed")

// writeTimeout bounds a transaction: a hundred times what a slow disk takes.
const writeTimeout = 5 * time.Second

// run is the writer: it writes until ctx ends.
func (s *Store) run(ctx context.Context) error {
	defer close(s.done)
	group := make([]*call, 0, maxGroup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case c := <-s.waiting:
			group = append(group[:0], c)
		}
		for s.commit == CommitGroup && len(group) < maxGroup && len(s.waiting) > 0 {
			group = append(group, <-s.waiting) // the only receiver
		}
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		err := s.write(own, group)
		cancel()
		for _, c := range group {
			// One call's conflict is not its neighbours'.
			c.result <- cmp.Or(err, c.conflict)
		}
	}
}

// write is one transaction. Conflicts are left in the calls that have them.
func (s *Store) write(ctx context.Context, group []*call) error {
	begin := time.Now()
	defer func() { s.busy.Add(int64(time.Since(begin))) }()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin to store events: %w", err)
	}
	w := writer{insert: tx.StmtContext(ctx, s.insert), same: tx.StmtContext(ctx, s.same)}
	for _, c := range group {
		err := w.all(ctx, c.events)
		if errors.Is(err, errConflict) {
			c.conflict = err
			w.conflicts++
		} else if err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	s.stored.Add(w.added)
	s.duplicates.Add(w.known)
	s.conflicts.Add(w.conflicts)
	return nil
}

// writer is a transaction's statements, and what they have come to.
type writer struct {
	insert, same            *sql.Stmt
	added, known, conflicts int64
}

// all stores the events of one call.
func (w *writer) all(ctx context.Context, events []event.Event) error {
	for i := range events {
		if err := w.add(ctx, &events[i]); err != nil {
			return fmt.Errorf("store the event %s: %w", events[i].ID, err)
		}
	}
	return nil
}

// add stores one event, if it is not there.
func (w *writer) add(ctx context.Context, e *event.Event) error {
	result, err := w.insert.ExecContext(ctx, e.ID, e.Key, e.Accepted.UnixNano(), e.Body)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return err
	}
	if n > 0 {
		w.added++
		return nil
	}
	var same bool
	if err := w.same.QueryRowContext(ctx, e.Key, e.Body, e.ID).Scan(&same); err != nil {
		return err
	}
	if !same {
		return errConflict
	}
	w.known++
	return nil
}

// missing returns those ids that are not stored.
func (s *Store) missing(ctx context.Context, ids []string) ([]string, error) {
	there, err := s.db.PrepareContext(ctx, "SELECT 1 FROM events WHERE id = ?")
	if err != nil {
		return nil, fmt.Errorf("ask for events: %w", err)
	}
	defer func() { _ = there.Close() }() // only read
	var missing []string
	for _, id := range ids {
		var one int
		err := there.QueryRowContext(ctx, id).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			missing = append(missing, id)
		} else if err != nil {
			return nil, fmt.Errorf("ask for the event %s: %w", id, err)
		}
	}
	return missing, nil
}

// Close closes the database, after the writer has ended.
func (s *Store) Close() error {
	if err := errors.Join(s.insert.Close(), s.same.Close(), s.db.Close()); err != nil {
		return fmt.Errorf("close the store of events: %w", err)
	}
	return nil
}
