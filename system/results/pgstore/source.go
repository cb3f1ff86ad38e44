package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/block/postgres"
	"loadstone/block/redact"
	"loadstone/system/results"
)

// Source is the data set in a database as a dataset.Source[results.Student], for publishing. It
// holds no connection: All makes one, for as long as it is read.
type Source struct {
	address string
	set     dataSet
}

// OpenSource reads what the database holds. Its errors are those of Open.
func OpenSource(ctx context.Context, address string) (*Source, error) {
	set, err := describe(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", redact.Address(address), classify(ctx, err))
	}
	return &Source{address, *set}, nil
}

// Meta describes the data set as it was filled, whatever was corrected since.
func (s *Source) Meta() dataset.Meta { return s.set.meta }

// Revised describes the data set with its corrections, see results.Current.
func (s *Source) Revised() dataset.Meta { return s.set.revised }

// State implements results.Database.
func (s *Source) State() results.State { return s.set.state }

// All yields the students in ascending order of id, as they were at one moment.
// Rows are read from the connection one by one: memory does not grow with
// their number.
func (s *Source) All(ctx context.Context) iter.Seq2[results.Student, error] {
	return func(yield func(results.Student, error) bool) {
		if err := s.scan(ctx, yield, ""); err != nil {
			yield(results.Student{}, fmt.Errorf("read all students of %s: %w", redact.Address(s.address), classify(ctx, err)))
		}
	}
}

// scan yields the students of whom the condition holds. It returns nil when all are
// yielded, or the consumer has had enough.
func (s *Source) scan(ctx context.Context, yield func(results.Student, error) bool, which string, args ...any) (err error) {
	// A connection for this, without the deadlines of look-ups: reading everything
	// takes as long as the consumer does.
	conn, err := connect(ctx, s.address)
	if err != nil {
		return err
	}
	// Not rolled back first: the end of the connection ends the transaction, and
	// rows that nobody wants are not read to the last.
	defer func() { _ = conn.PgConn().Conn().Close() }()
	// Description and students are read in one state of the database.
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	if set, err := completeDataSet(ctx, tx); err != nil {
		return err
	} else if set.revised != s.set.revised || set.state.Set != s.set.state.Set {
		return kind{results.ErrVersion, fmt.Errorf(
			"it has changed since it was opened and holds %s, not %s: open it again", set.revised.Origin, s.set.revised.Origin)}
	}
	// A database that hangs would keep us for ever: there is no time in which all
	// students must have come, but one in which the next must.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silence := time.AfterFunc(silenceTimeout, func() { stop(errSilent) })
	defer silence.Stop()
	rows, err := tx.Query(ctx, selectStudents+which+" ORDER BY s.id", args...)
	if err != nil {
		return err
	}
	var row row
	targets := row.targets()
	for rows.Next() {
		silence.Stop() // what is done with a student is not the database's time
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := row.parse(); err != nil {
			return err
		}
		if !yield(row.student, nil) {
			return nil
		}
		silence.Reset(silenceTimeout)
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		return kind{results.ErrUnavailable, errSilent}
	}
	return rows.Err()
}

// silenceTimeout is how long the database may take for the next row: a thousand
// times what a busy one takes.
const silenceTimeout = 30 * time.Second

var errSilent = fmt.Errorf("it has sent nothing for %v", silenceTimeout)

// describeTimeout bounds a few small queries and what comes before them.
const describeTimeout = 10 * time.Second

func describe(ctx context.Context, address string) (set *dataSet, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	conn, err := connect(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if err := checkVersion(ctx, conn); err != nil {
		return nil, err
	}
	return watchedDataSet(ctx, conn, nil)
}

// watchedDataSet is completeDataSet with the corrections. Those of known are good for as
// long as the revision is the same.
func watchedDataSet(ctx context.Context, conn *pgx.Conn, known *dataSet) (*dataSet, error) {
	set, err := completeDataSet(ctx, conn)
	switch {
	case err != nil:
		return nil, err
	case set.state.Revision == 0:
		return set, nil
	case known != nil && set.state.Set == known.state.Set && set.state.Revision == known.state.Revision:
		set.state.Corrected, set.state.Since = known.state.Corrected, known.state.Since
		return set, nil
	}
	// Read after the revision: what was corrected since then is there early, and does no harm.
	rows, err := conn.Query(ctx, "SELECT student_id, revision FROM results.corrections ORDER BY revision DESC LIMIT $1", results.MaxCorrections+1)
	if err != nil {
		return nil, fmt.Errorf("read who was corrected: %w", err)
	}
	last, err := pgx.CollectRows(rows, pgx.RowToStructByPos[results.Mark])
	if err != nil {
		return nil, fmt.Errorf("read who was corrected: %w", err)
	}
	set.state = set.state.Recalling(last)
	return set, nil
}

// connect makes one connection outside of any pool.
func connect(ctx context.Context, address string) (*pgx.Conn, error) {
	conn, err := postgres.Connect(ctx, address)
	if failed, ok := errors.AsType[*postgres.ConnectError](err); ok {
		return nil, kind{results.ErrUnavailable, failed}
	}
	return conn, err
}

// Schools calls yield with each school that has students, and with how many, in
// the order of region and name, until it returns false.
func (s *Source) Schools(ctx context.Context, yield func(region, name string, students int64) bool) error {
	if err := s.listSchools(ctx, yield); err != nil {
		return fmt.Errorf("read the schools of %s: %w", redact.Address(s.address), classify(ctx, err))
	}
	return nil
}

func (s *Source) listSchools(ctx context.Context, yield func(region, name string, students int64) bool) error {
	conn, err := connect(ctx, s.address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.PgConn().Conn().Close() }()
	rows, err := conn.Query(ctx, `SELECT c.region, c.name, count(*) FROM results.schools c
		JOIN results.students s ON s.school_id = c.id GROUP BY c.id ORDER BY c.region, c.name`)
	if err != nil {
		return err
	}
	var region, name string
	var students int64
	for rows.Next() {
		if err := rows.Scan(&region, &name, &students); err != nil {
			return err
		}
		if !yield(region, name, students) {
			return nil
		}
	}
	return rows.Err()
}

// OfSchool is All for the students of one school: through an index, without reading
// the others.
func (s *Source) OfSchool(ctx context.Context, region, name string) iter.Seq2[results.Student, error] {
	const condition = "WHERE s.school_id = (SELECT id FROM results.schools WHERE region = $1 AND name = $2)"
	return func(yield func(results.Student, error) bool) {
		if err := s.scan(ctx, yield, condition, region, name); err != nil {
			yield(results.Student{}, fmt.Errorf("read the students of %s, %s, in %s: %w", name, region, redact.Address(s.address), classify(ctx, err)))
		}
	}
}
