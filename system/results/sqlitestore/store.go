// Package sqlitestore keeps a data set in a SQLite database and answers every
// look-up with one query: the plain way to serve results, and the baseline that
// the other ways are compared with.
//
// A database is built once, whole, and never changed: Build and Correct replace the
// file. So Open reads it as immutable, without locks. A Store keeps the file that it has
// opened; a Follower moves to the next one. A file that is overwritten in place, instead of
// being replaced, gives wrong answers or a bus error.
//
// A file of a program that did not yet write down which filling it is (results.Set) gets
// the identity of its fingerprint and its first student's code.
//
// SQLite keeps no checksums: damage to the structure is noticed when a query
// meets it, damage inside a value is not. A snapshot notices both.
//
// The database is also a source: publishing is snapshot.Build of an open Store.
package sqlitestore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"loadstone/block/dataset"
	"loadstone/block/sqlite"
	"loadstone/system/results"
)

// Store is a results.Store and a dataset.Source[results.Student] over one database file.
type Store struct {
	db      *sql.DB
	find    *sql.Stmt
	path    string
	meta    dataset.Meta // as it was built
	revised dataset.Meta // with its corrections
	state   results.State
	closed  atomic.Bool
}

// Open opens the database for reading. The error wraps results.ErrMissing,
// ErrVersion or ErrCorrupt. It checks the header, the size and the description,
// but does not read all rows.
func Open(ctx context.Context, path string) (*Store, error) {
	size, err := inspect(path)
	if err != nil {
		return nil, err
	}
	store, err := openChecked(ctx, path, size)
	if err != nil {
		return nil, refusal(path, err)
	}
	return store, nil
}

// Describe reads what the database at path says it holds: what Meta of the store is.
// Its errors are those of Open.
func Describe(ctx context.Context, path string) (dataset.Meta, error) {
	store, err := Open(ctx, path)
	if err != nil {
		return dataset.Meta{}, err
	}
	return store.meta, store.Close()
}

func openChecked(ctx context.Context, path string, size int64) (_ *Store, err error) {
	db, err := sqlite.OpenImmutable(path, size)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if err := connectAll(ctx, db); err != nil {
		return nil, err
	}
	store := &Store{db: db, path: path}
	if err := store.readMeta(ctx); err != nil {
		return nil, err
	}
	if store.find, err = db.PrepareContext(ctx, selectStudents("WHERE id = ?")); err != nil {
		return nil, fmt.Errorf("prepare look-up: %w", err)
	}
	return store, nil
}

// connectAll makes all connections of a pool: one that is made later would open whatever
// file is at the path then.
func connectAll(ctx context.Context, db *sql.DB) (err error) {
	for range db.Stats().MaxOpenConnections {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, conn.Close()) }()
	}
	return nil
}

// readMeta reads what the database holds.
func (s *Store) readMeta(ctx context.Context) error {
	var count, identity, revision, fingerprint, publishAt string
	for _, value := range []struct {
		key     string
		target  *string
		missing bool // it may be
	}{
		{"origin", &s.meta.Origin, false},
		{fingerprintKey, &s.meta.Fingerprint, false},
		{"count", &count, false},
		{identityKey, &identity, true},
		{revisionKey, &revision, true},
		{revisedKey, &fingerprint, true},
		{publishKey, &publishAt, true},
	} {
		err := s.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = ?", value.key).Scan(value.target)
		if errors.Is(err, sql.ErrNoRows) && value.missing {
			*value.target = ""
			continue
		}
		if err != nil {
			return fmt.Errorf("read meta %q: %w", value.key, err)
		}
	}
	var err error
	if s.meta.Count, err = strconv.ParseInt(count, 10, 64); err != nil {
		return fmt.Errorf("%w: meta count is %q", results.ErrCorrupt, count)
	}
	if revision != "" {
		if s.state.Revision, err = strconv.ParseInt(revision, 10, 64); err != nil {
			return fmt.Errorf("%w: meta revision is %q", results.ErrCorrupt, revision)
		}
	}
	if identity == "" {
		err = s.identify(ctx, &fingerprint)
	} else {
		s.state.Set, err = parseSet(identity)
	}
	if err != nil {
		return err
	}
	if publishAt != "" {
		if s.state.PublishAt, err = time.Parse(time.RFC3339, publishAt); err != nil {
			return fmt.Errorf("%w: meta %s is %q", results.ErrCorrupt, publishKey, publishAt)
		}
	}
	if s.state.Revision > 0 {
		if err := s.recall(ctx); err != nil {
			return err
		}
	}
	s.revised = s.meta.Revised(s.state.Revision, fingerprint)
	return nil
}

// recall reads who was corrected.
func (s *Store) recall(ctx context.Context) (err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT student_id, revision FROM corrections ORDER BY revision DESC LIMIT ?", results.MaxCorrections+1)
	if err != nil {
		return fmt.Errorf("read who was corrected: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var last []results.Mark
	for rows.Next() {
		var mark results.Mark
		if err := rows.Scan(&mark.ID, &mark.Revision); err != nil {
			return fmt.Errorf("read who was corrected: %w", err)
		}
		last = append(last, mark)
	}
	s.state = s.state.Recalling(last)
	return rows.Err()
}

func formatSet(set results.Set) string { return strconv.FormatUint(uint64(set), 16) }

func parseSet(text string) (results.Set, error) {
	set, err := strconv.ParseUint(text, 16, 64)
	if err != nil || set == 0 {
		return 0, fmt.Errorf("%w: meta identity is %q", results.ErrCorrupt, text)
	}
	return results.Set(set), nil
}

// identify identifies a database that does not know its Set. An import may have drawn
// codes, of which its fingerprints know nothing.
func (s *Store) identify(ctx context.Context, revised *string) error {
	var code string
	if err := s.db.QueryRowContext(ctx, "SELECT code FROM students ORDER BY id LIMIT 1").Scan(&code); err != nil {
		return fmt.Errorf("read a code: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", s.meta.Fingerprint, code))
	s.state.Set = results.Set(binary.BigEndian.Uint64(sum[:]) | 1)
	if !results.MadeUp(s.meta) {
		s.meta.Fingerprint = results.DrawnFingerprint(s.meta.Fingerprint, s.state.Set)
		*revised = results.DrawnFingerprint(*revised, s.state.Set)
	}
	return nil
}

// Lookup finds a student with one query and encodes the page: about 9
// microseconds of processor time, and 14 if ctx can end, because database/sql and
// the driver then each watch it with a goroutine. It waits for a free connection
// as long as ctx lets it.
func (s *Store) Lookup(ctx context.Context, id int64) (results.Page, error) {
	var row row
	err := s.find.QueryRowContext(ctx, id).Scan(row.targets()...)
	if errors.Is(err, sql.ErrNoRows) {
		return results.Page{}, results.ErrNotFound
	}
	if err == nil {
		err = row.parse()
	}
	if err != nil {
		return results.Page{}, s.failed(fmt.Errorf("look up student %d in %s: %w", id, s.path, explain(err)))
	}
	return results.NewPage(&row.student), nil
}

// failed turns an error that comes from Close into ErrUnavailable.
func (s *Store) failed(err error) error {
	if s.closed.Load() {
		return results.ErrUnavailable
	}
	return err
}

// Meta describes the data set as it was built, whatever was corrected since.
func (s *Store) Meta() dataset.Meta { return s.meta }

// State implements results.Database. Whether results are out is for this machine's clock
// to say.
func (s *Store) State() results.State { return s.state.Scheduled(s.state.PublishAt) }

// Revised describes the data set with its corrections, see results.Current.
func (s *Store) Revised() dataset.Meta { return s.revised }

// All yields the students in ascending order of id.
func (s *Store) All(ctx context.Context) iter.Seq2[results.Student, error] {
	return func(yield func(results.Student, error) bool) {
		if err := s.scan(ctx, yield); err != nil {
			yield(results.Student{}, s.failed(fmt.Errorf("read all students of %s: %w", s.path, explain(err))))
		}
	}
}

// scan returns nil when all students are yielded, or the consumer has had enough.
func (s *Store) scan(ctx context.Context, yield func(results.Student, error) bool) (err error) {
	rows, err := s.db.QueryContext(ctx, selectStudents("ORDER BY id"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var row row
	targets := row.targets()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := row.parse(); err != nil {
			return err
		}
		if !yield(row.student, nil) {
			return nil
		}
	}
	return rows.Err()
}

// Close closes the database after the queries under way. Look-ups then return
// results.ErrUnavailable.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := errors.Join(s.find.Close(), s.db.Close()); err != nil {
		return fmt.Errorf("close database %s: %w", s.path, err)
	}
	return nil
}
