package csvfile

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"loadstone/block/dataset"
	"loadstone/system/results"
)

// Write writes the source as CSV with all columns, the access codes included:
// what it writes is as secret as they are. Progress may be nil.
func Write(ctx context.Context, w io.Writer, source dataset.Source[results.Student], progress dataset.Progress) error {
	out := csv.NewWriter(w)
	columns := Columns()
	record := make([]string, len(columns))
	for i, column := range columns {
		record[i] = column.Name
	}
	if err := out.Write(record); err != nil {
		return fmt.Errorf("write CSV header: %w", err)
	}
	err := results.Each(ctx, source, progress, func(s *results.Student) error {
		encode(record, s)
		return out.Write(record)
	})
	if err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

// encode fills a row in the order of Columns.
func encode(record []string, s *results.Student) {
	first := copy(record, []string{
		strconv.FormatInt(s.ID, 10), s.Name, s.Sex.String(), s.School, s.Region, s.BirthDate.String(), s.Stream.String(),
	})
	subjects := record[first : first+subjectCount]
	clear(subjects)
	for i, subject := range s.Stream.Subjects() {
		subjects[subject-results.English] = strconv.Itoa(s.Marks[i])
	}
	record[first+subjectCount] = strconv.Itoa(s.PassMark)
	record[first+subjectCount+1] = s.Code
}

// Example writes a file of six invented students to start from.
func Example(ctx context.Context, w io.Writer) error {
	source, err := results.NewGenerator(1, 6)
	if err != nil {
		return err
	}
	return Write(ctx, w, source, nil)
}
