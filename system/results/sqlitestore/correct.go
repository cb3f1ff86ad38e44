package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"loadstone/block/atomicfile"
	"loadstone/block/sqlite"
	"loadstone/system/results"
)

// createCorrections is made with the first correction. The page before and after
// is kept for each; codes are secrets, and not in it.
const createCorrections = `CREATE TABLE IF NOT EXISTS corrections (
	revision INTEGER NOT NULL, student_id INTEGER NOT NULL, corrected_at TEXT NOT NULL, corrected_by TEXT NOT NULL,
	source TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL, code_changed INTEGER NOT NULL,
	PRIMARY KEY (student_id, revision)) STRICT, WITHOUT ROWID`

// Correct corrects students: all of them or none. A student who is already as they
// should be is left alone, and if all are, the file is not touched. What has changed
// is kept in the table corrections: who, when, from what, the page before and
// after. If an id is not there the error is a *results.UnknownStudentsError.
//
// A database is never changed under its readers: the corrections are made in a copy
// that then replaces the file, which a Follower notices. The error wraps atomicfile.ErrBusy if another
// Correct or Build of the file is under way.
func Correct(ctx context.Context, path string, c results.Corrections) (results.Corrected, error) {
	done, err := correct(ctx, path, c)
	if err != nil {
		return results.Corrected{}, fmt.Errorf("correct students in %s: %w", path, err)
	}
	return done, nil
}

func correct(ctx context.Context, path string, c results.Corrections) (done results.Corrected, err error) {
	if _, err := inspect(path); err != nil { // before a file is made beside a mistyped name
		return done, err
	}
	// Begun before the file is read: nobody else replaces it from here on.
	pending, err := atomicfile.Create(path)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, pending.Discard()) }()
	plan, store, err := planFor(ctx, path, c)
	if err != nil {
		return done, err
	}
	done = results.Corrected{Revision: store.state.Revision, Changed: len(plan.Changed), Students: plan.Students}
	if done.Changed == 0 {
		return done, nil
	}
	done.Revision++
	if err := copyFile(pending.File(), path); err != nil {
		return done, err
	}
	revision := revisionOf{Corrections: c, number: done.Revision, changed: plan.Changed, meta: map[string]string{
		revisionKey: strconv.FormatInt(done.Revision, 10),
		revisedKey:  results.RevisedFingerprint(store.revised.Fingerprint, plan.Changed),
		// As they were found: a file of before does not have them so.
		identityKey: formatSet(store.state.Set), fingerprintKey: store.meta.Fingerprint,
	}}
	if err := rewrite(ctx, pending.Path(), revision); err != nil {
		return done, err
	}
	return done, pending.Commit()
}

// planFor compares the corrections with the database. The store is closed.
func planFor(ctx context.Context, path string, c results.Corrections) (plan results.Plan, store *Store, err error) {
	store, err = Open(ctx, path)
	if err != nil {
		return plan, nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	have := make(map[int64]results.Student, len(c.List))
	for _, id := range c.IDs() {
		var row row
		err := store.find.QueryRowContext(ctx, id).Scan(row.targets()...)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err == nil {
			err = row.parse()
		}
		if err != nil {
			return plan, store, fmt.Errorf("read student %d: %w", id, explain(err))
		}
		have[id] = row.student
	}
	plan, err = c.Plan(have)
	return plan, store, err
}

func copyFile(to *os.File, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, from.Close()); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
}

// revisionOf is what one Correct writes.
type revisionOf struct {
	results.Corrections
	number  int64
	changed []results.Change
	meta    map[string]string
}

// rewrite makes the changes in a database that nobody else has.
func rewrite(ctx context.Context, path string, r revisionOf) (err error) {
	conn, closeAll, err := sqlite.OpenAlone(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	if err := execute(ctx, conn, createCorrections, "BEGIN"); err != nil {
		return err
	}
	replace := strings.Replace(insertStudent(), "INSERT", "REPLACE", 1)
	now := time.Now().UTC().Format(time.RFC3339)
	for i := range r.changed {
		before, after := &r.changed[i].Before, &r.changed[i].After
		if _, err := conn.ExecContext(ctx, replace, arguments(after)...); err != nil {
			return fmt.Errorf("change student %d: %w", after.ID, explain(err))
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO corrections VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			r.number, after.ID, now, r.By, r.Source,
			string(before.AppendJSON(nil)), string(after.AppendJSON(nil)), before.Code != after.Code); err != nil {
			return fmt.Errorf("keep what changed of student %d: %w", after.ID, err)
		}
	}
	if err := writeMeta(ctx, conn, r.meta); err != nil {
		return err
	}
	return execute(ctx, conn, "COMMIT")
}

// arguments are the student's values for database/sql.
func arguments(s *results.Student) []any {
	v := newValues()
	v.set(s)
	out := make([]any, len(v))
	for i := range v {
		out[i] = v[i].Value
	}
	return out
}
