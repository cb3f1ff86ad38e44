package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// record is a student on the way into the tables.
type record struct {
	student results.Student
	school  int32
}

// load writes all chunks that are not written yet.
func (s *seeder) load(ctx context.Context, state *progressState) error {
	conn, err := connect(ctx, s.address)
	if err != nil {
		return err
	}
	// For schools alone, which are few.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	err = dataset.Load[record]{
		Read: func(ctx context.Context, put func(*record) error) error {
			return results.Each(ctx, s.source, nil, func(student *results.Student) error {
				return put(&record{student: *student})
			})
		},
		Key:          func(r *record) int64 { return r.student.ID },
		ChunkRecords: state.chunk, Writers: s.workers, Written: state.chunks,
		Prepare: func(ctx context.Context, records []record) error {
			return state.school.number(ctx, conn, records)
		},
		Open: func(ctx context.Context) (dataset.Writer[record], error) {
			conn, err := connect(ctx, s.address)
			return &chunkWriter{s, conn}, err
		},
		Total: s.source.Meta().Count, Progress: s.progress,
	}.Run(ctx)
	if errors.Is(err, dataset.ErrOrder) {
		return fmt.Errorf("%w; empty the database with psql: DROP SCHEMA results CASCADE", err)
	}
	return err
}

// chunkWriter writes chunks over a connection of its own.
type chunkWriter struct {
	seeder *seeder
	conn   *pgx.Conn
}

// Write implements dataset.Writer: a transaction.
func (w *chunkWriter) Write(ctx context.Context, c *dataset.Chunk[record]) error {
	return classify(ctx, pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		if err := w.seeder.write(ctx, tx, c.Records); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO results.seed_chunks (number, students, first_id, last_id) VALUES ($1, $2, $3, $4)",
			c.Number, c.Mark.Records, c.Mark.First, c.Mark.Last)
		return err
	}))
}

// Close implements dataset.Writer.
func (w *chunkWriter) Close() error {
	_ = w.conn.Close(context.Background()) // what was committed does not depend on how it ends
	return nil
}
