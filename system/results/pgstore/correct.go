package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/results"
)

// Correct corrects students: all of them in one transaction, or none. A student
// who is already as they should be is left alone, and if all are, nothing is
// changed, so that it can be repeated. What has changed is kept in
// results.corrections: who, when, from what, the page before and after. If an id is
// not there the error is a *results.UnknownStudentsError.
//
// Look-ups see the corrections from the commit on, all at once, and never wait. Whoever
// keeps pages asks for the revision, see Store.State.
func Correct(ctx context.Context, address string, c results.Corrections) (results.Corrected, error) {
	done, err := correct(ctx, address, c)
	if err != nil {
		return results.Corrected{}, fmt.Errorf("correct students in %s: %w", redact.Address(address), classify(ctx, err))
	}
	return done, nil
}

func correct(ctx context.Context, address string, c results.Corrections) (done results.Corrected, err error) {
	conn, err := connect(ctx, address)
	if err != nil {
		return done, err
	}
	// The end of the session frees the lock. Not under ctx, which may have ended;
	// what was committed does not depend on how the connection ends.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := lockCorrections(ctx, conn); err != nil {
		return done, err
	}
	if err := checkVersion(ctx, conn); err != nil {
		return done, err
	}
	bounded, cancel := context.WithTimeout(ctx, correctTimeout)
	defer cancel()
	err = pgx.BeginFunc(bounded, conn, func(tx pgx.Tx) error {
		done, err = correctIn(bounded, tx, c)
		return err
	})
	return done, err
}

// correctTimeout bounds a correction: ten times what as many students as a file may
// have take, at 0.5 ms each.
const correctTimeout = 10 * time.Minute

func lockCorrections(ctx context.Context, conn *pgx.Conn) error {
	err := postgres.Lock(ctx, conn, correctLock, lockTimeout)
	if postgres.KindOf(err) == postgres.Locked {
		return fmt.Errorf("another correction has been under way for %v: let it finish, then run this again: %w", lockTimeout, err)
	}
	if err != nil {
		return fmt.Errorf("wait for other corrections: %w", err)
	}
	return nil
}

func correctIn(ctx context.Context, tx pgx.Tx, c results.Corrections) (results.Corrected, error) {
	set, err := completeDataSet(ctx, tx)
	if err != nil {
		return results.Corrected{}, err
	}
	have, err := students(ctx, tx, c.IDs())
	if err != nil {
		return results.Corrected{}, err
	}
	plan, err := c.Plan(have)
	if err != nil {
		return results.Corrected{}, err
	}
	done := results.Corrected{Revision: set.state.Revision, Changed: len(plan.Changed), Students: plan.Students}
	if done.Changed == 0 {
		return done, nil
	}
	done.Revision++
	if err := rewrite(ctx, tx, plan.Changed); err != nil {
		return results.Corrected{}, err
	}
	if err := audit(ctx, tx, c, done.Revision, plan.Changed); err != nil {
		return results.Corrected{}, err
	}
	_, err = tx.Exec(ctx, "UPDATE results.data_set SET revision = $1, revised_fingerprint = $2",
		done.Revision, results.RevisedFingerprint(set.revised.Fingerprint, plan.Changed))
	if err != nil {
		return results.Corrected{}, fmt.Errorf("record the revision: %w", err)
	}
	return done, nil
}

// students reads those of the ids that are there.
func students(ctx context.Context, tx pgx.Tx, ids []int64) (map[int64]results.Student, error) {
	have := make(map[int64]results.Student, len(ids))
	rows, err := tx.Query(ctx, selectStudents+"WHERE s.id = ANY($1)", ids)
	if err != nil {
		return nil, fmt.Errorf("read the students: %w", err)
	}
	var row row
	_, err = pgx.ForEachRow(rows, row.targets(), func() error {
		if err := row.parse(); err != nil {
			return err
		}
		have[row.student.ID] = row.student
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the students: %w", err)
	}
	return have, nil
}

// rewrite brings the students' rows to what they should be. Results are taken
// away first and put in again last: a student may have changed streams.
func rewrite(ctx context.Context, tx pgx.Tx, changed []results.Change) error {
	ids, records := make([]int64, len(changed)), make([]record, len(changed))
	batch := &pgx.Batch{}
	for i := range changed {
		ids[i], records[i].student = changed[i].After.ID, changed[i].After
	}
	batch.Queue("DELETE FROM results.natural_results WHERE student_id = ANY($1)", ids)
	batch.Queue("DELETE FROM results.social_results WHERE student_id = ANY($1)", ids)
	places := map[school]bool{}
	for i := range records {
		s := &records[i].student
		place := school{s.Region, s.School}
		if !places[place] {
			places[place] = true
			// Nobody else adds schools: seeds are over, corrections have a lock.
			batch.Queue(`INSERT INTO results.schools (id, region, name)
				SELECT coalesce(max(id), 0) + 1, $1, $2 FROM results.schools
				ON CONFLICT (region, name) DO NOTHING`, s.Region, s.School)
		}
		values := make([]any, len(studentColumns))
		studentValues(values, &records[i])
		batch.Queue(`UPDATE results.students SET birth_date = $2, pass_mark = $3, stream = $4, sex = $5, name = $6, code = $7,
				school = $8, region = $9, school_id = (SELECT id FROM results.schools WHERE name = $8 AND region = $9)
			WHERE id = $1`, append(values[:1:1], values[2:]...)...)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("change the students: %w", err)
	}
	return copyResults(ctx, tx, records)
}

// audit keeps what changed.
func audit(ctx context.Context, tx pgx.Tx, c results.Corrections, revision int64, changed []results.Change) error {
	columns := []string{"revision", "student_id", "corrected_by", "source", "before", "after", "code_changed"}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"results", "corrections"}, columns,
		pgx.CopyFromSlice(len(changed), func(i int) ([]any, error) {
			before, after := &changed[i].Before, &changed[i].After
			return []any{
				revision, after.ID, c.By, c.Source,
				before.AppendJSON(nil), after.AppendJSON(nil), before.Code != after.Code,
			}, nil
		}))
	if err != nil {
		return fmt.Errorf("keep what changed: %w", err)
	}
	return nil
}

// completeDataSet reads what the tables hold, if they hold it whole.
func completeDataSet(ctx context.Context, db postgres.Querier) (*dataSet, error) {
	set, err := readDataSet(ctx, db)
	switch {
	case err != nil:
		return nil, err
	case set == nil:
		return nil, kind{results.ErrMissing, errors.New("it holds no students: seed or import first")}
	case !set.complete:
		return nil, kind{results.ErrMissing, fmt.Errorf(
			"it was not filled whole with %s: seed or import them again, which goes on where it stopped", set.meta.Origin)}
	}
	return set, nil
}
