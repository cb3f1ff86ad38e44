package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/system/results"
)

// Source is the data set in a database as a results.Source, for publishing. It
// holds no connection: All makes one, for as long as it is read.
type Source struct {
	address string
	meta    results.Meta
}

// OpenSource reads what the database holds. Its errors are those of Open.
func OpenSource(ctx context.Context, address string) (*Source, error) {
	meta, err := describe(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", Redact(address), classify(ctx, err))
	}
	return &Source{address, meta}, nil
}

// Meta describes the data set.
func (s *Source) Meta() results.Meta { return s.meta }

// All yields the students in ascending order of id, as they were at one moment.
// Rows are read from the connection one by one: memory does not grow with
// their number.
func (s *Source) All(ctx context.Context) iter.Seq2[results.Student, error] {
	return func(yield func(results.Student, error) bool) {
		if err := s.scan(ctx, yield); err != nil {
			yield(results.Student{}, fmt.Errorf("read all students of %s: %w", Redact(s.address), classify(ctx, err)))
		}
	}
}

// scan returns nil when all students are yielded, or the consumer has had enough.
func (s *Source) scan(ctx context.Context, yield func(results.Student, error) bool) (err error) {
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
	if meta, err := readMeta(ctx, tx); err != nil {
		return err
	} else if meta != s.meta {
		return kind{results.ErrVersion, fmt.Errorf(
			"it was filled anew since it was opened and holds %s, not %s: open it again", meta.Origin, s.meta.Origin)}
	}
	rows, err := tx.Query(ctx, selectStudents+"ORDER BY s.id")
	if err != nil {
		return err
	}
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

// describeTimeout bounds three small queries and what comes before them.
const describeTimeout = 10 * time.Second

func describe(ctx context.Context, address string) (meta results.Meta, err error) {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	conn, err := connect(ctx, address)
	if err != nil {
		return results.Meta{}, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if err := checkVersion(ctx, conn); err != nil {
		return results.Meta{}, err
	}
	return readMeta(ctx, conn)
}

// connect makes one connection outside of any pool.
func connect(ctx context.Context, address string) (*pgx.Conn, error) {
	config, err := parse(address)
	if err != nil {
		return nil, err
	}
	config.ConnConfig.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil, kind{results.ErrUnavailable, fmt.Errorf("connect: %w", err)}
	}
	return conn, nil
}

// readMeta reads what complete tables hold.
func readMeta(ctx context.Context, db querier) (results.Meta, error) {
	set, err := readDataSet(ctx, db)
	switch {
	case err != nil:
		return results.Meta{}, err
	case set == nil:
		return results.Meta{}, kind{results.ErrMissing, errors.New("it holds no students: seed or import first")}
	case !set.complete:
		return results.Meta{}, kind{results.ErrMissing, fmt.Errorf(
			"it was not filled whole with %s: seed or import them again, which goes on where it stopped", set.meta.Origin)}
	}
	return set.meta, nil
}
