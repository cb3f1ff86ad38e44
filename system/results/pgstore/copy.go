package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/system/results"
)

// studentColumns and resultColumns are the columns that are written, in the order
// of the values below.
var studentColumns = []string{"id", "school_id", "birth_date", "pass_mark", "stream", "sex", "name", "code", "school", "region"}

func resultColumns(stream results.Stream) []string {
	columns := make([]string, 0, 1+results.SubjectsPerStream)
	columns = append(columns, "student_id")
	for _, subject := range stream.Subjects() {
		columns = append(columns, subject.String())
	}
	return columns
}

func resultTable(stream results.Stream) string { return stream.String() + "_results" }

// studentValues sets the values of studentColumns.
func studentValues(values []any, r *record) {
	s := &r.student
	day := time.Date(int(s.BirthDate.Year), time.Month(s.BirthDate.Month), int(s.BirthDate.Day), 0, 0, 0, 0, time.UTC)
	values[0], values[1], values[2], values[3] = s.ID, r.school, day, int16(s.PassMark)
	values[4], values[5], values[6], values[7] = s.Stream.String(), s.Sex.String(), s.Name, s.Code
	values[8], values[9] = s.School, s.Region
}

// resultValues sets the values of resultColumns.
func resultValues(values []any, r *record) {
	values[0] = r.student.ID
	for i, mark := range r.student.Marks {
		values[1+i] = int16(mark)
	}
}

// copyChunk writes records by COPY, one for each table.
func copyChunk(ctx context.Context, tx pgx.Tx, records []record) error {
	if err := (copying{records: records, set: studentValues}).into(ctx, tx, "students", studentColumns); err != nil {
		return err
	}
	return copyResults(ctx, tx, records)
}

// copyResults writes the results alone.
func copyResults(ctx context.Context, tx pgx.Tx, records []record) error {
	for _, stream := range []results.Stream{results.Natural, results.Social} {
		c := copying{records: records, stream: stream, set: resultValues}
		if err := c.into(ctx, tx, resultTable(stream), resultColumns(stream)); err != nil {
			return err
		}
	}
	return nil
}

// copying is the records of a stream, or of both if stream is none, as rows.
type copying struct {
	records []record
	stream  results.Stream
	set     func(values []any, r *record)
}

func (c copying) into(ctx context.Context, tx pgx.Tx, table string, columns []string) error {
	// Used again for each row: pgx has encoded them before it asks for the next.
	values := make([]any, len(columns))
	next := 0
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"results", table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		for next < len(c.records) {
			r := &c.records[next]
			next++
			if c.stream == 0 || c.stream == r.student.Stream {
				c.set(values, r)
				return values, nil
			}
		}
		return nil, nil
	}))
	if err != nil {
		return fmt.Errorf("copy into %s: %w", table, err)
	}
	return nil
}
