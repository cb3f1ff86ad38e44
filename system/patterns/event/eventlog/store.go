package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/commit"
	"loadstone/block/sqlite"
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

// Store keeps events, each once by its id. It owns the database and its writer. What
// put has returned nil for is on disk.
type Store struct {
	db           *sqlite.DB
	insert, same *sql.Stmt
	writer       *commit.Writer[*call]

	stored, duplicates, conflicts atomic.Int64
	busy                          atomic.Int64 // nanoseconds in transactions
}

// call is the events of one put, which are stored in one transaction.
type call struct {
	events   []event.Event
	conflict error // the writer's, until it has answered
}

const schema = `CREATE TABLE IF NOT EXISTS events (
	place INTEGER PRIMARY KEY AUTOINCREMENT,
	id TEXT NOT NULL UNIQUE,
	key TEXT NOT NULL,
	accepted INTEGER NOT NULL, -- nanoseconds since 1970
	body BLOB NOT NULL
) STRICT`

// OpenStore opens or makes the database in a file.
func OpenStore(ctx context.Context, file string, how Commit) (*Store, error) {
	db, err := sqlite.Open(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("open the events in %s: %w", file, err)
	}
	s := &Store{db: db}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the events in %s: %w", file, err), db.Close())
	}
	batch := map[Commit]int{CommitEach: 1, CommitGroup: maxGroup}[how]
	s.writer = commit.New(commit.Config[*call]{
		Commit: s.commit, Queue: maxWaiting, WhenFull: commit.Wait, Batch: batch,
		Registerer: prometheus.NewRegistry(), // read by nobody: the service has metrics of its own
	})
	return s, nil
}

func (s *Store) prepare(ctx context.Context) error {
	if _, err := s.db.Write.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("make the table: %w", err)
	}
	var n int64
	if err := s.db.Write.QueryRowContext(ctx, "SELECT count(*) FROM events").Scan(&n); err != nil {
		return fmt.Errorf("count: %w", err)
	}
	s.stored.Store(n)
	var err error
	if s.insert, err = s.db.Write.PrepareContext(ctx, "INSERT INTO events (id, key, accepted, body) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	if s.same, err = s.db.Write.PrepareContext(ctx, "SELECT key = ? AND body = ? FROM events WHERE id = ?"); err != nil {
		return fmt.Errorf("prepare: %w", err)
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
	c := &call{events: events}
	// The writer uses the events until it answers, and Put stays until then.
	if err := s.writer.Put(ctx, c); err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	return c.conflict // one call's is not its neighbours'
}

// writeTimeout bounds a transaction: a hundred times what a slow disk takes.
const writeTimeout = 5 * time.Second

func (s *Store) commit(group []*call) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	return s.write(ctx, group)
}

// write is one transaction. Conflicts are left in the calls that have them.
func (s *Store) write(ctx context.Context, group []*call) error {
	begin := time.Now()
	defer func() { s.busy.Add(int64(time.Since(begin))) }()
	tx, err := s.db.Write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
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
	if err := s.db.Commit(ctx, tx); err != nil {
		return err
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
	there, err := s.db.Read.PrepareContext(ctx, "SELECT 1 FROM events WHERE id = ?")
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

// Close stores what waits and closes the database.
func (s *Store) Close() error {
	s.writer.Close()
	if err := s.db.Close(); err != nil { // its statements end with it
		return fmt.Errorf("close the store of events: %w", err)
	}
	return nil
}
