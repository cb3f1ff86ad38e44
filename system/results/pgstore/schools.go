package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// school is one, as students name it.
type school struct{ region, name string }

// schools gives each school a number: 1, 2, 3 in the order in which they come.
// Memory holds one entry for each. A school is in the database before any
// student of it, in a transaction of its own, so that writers do not wait for
// each other; an interrupted seed may leave some without students for a while.
type schools struct{ numbers map[school]int32 }

func newSchools() schools { return schools{numbers: map[school]int32{}} }

func readSchools(ctx context.Context, tx pgx.Tx) (schools, error) {
	s := newSchools()
	rows, err := tx.Query(ctx, "SELECT id, region, name FROM results.schools")
	if err != nil {
		return s, fmt.Errorf("read schools: %w", err)
	}
	var id int32
	var one school
	_, err = pgx.ForEachRow(rows, []any{&id, &one.region, &one.name}, func() error {
		s.numbers[one] = id
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("read schools: %w", err)
	}
	return s, nil
}

// number sets the records' schools, and adds those that are new.
func (s *schools) number(ctx context.Context, conn *pgx.Conn, records []record) error {
	var added []school
	first := int32(len(s.numbers) + 1)
	for i := range records {
		r := &records[i]
		one := school{r.student.Region, r.student.School}
		id, ok := s.numbers[one]
		if !ok {
			id = int32(len(s.numbers) + 1)
			s.numbers[one] = id
			added = append(added, one)
		}
		r.school = id
	}
	if len(added) == 0 {
		return nil
	}
	_, err := conn.CopyFrom(ctx, pgx.Identifier{"results", "schools"}, []string{"id", "region", "name"},
		pgx.CopyFromSlice(len(added), func(i int) ([]any, error) {
			return []any{first + int32(i), added[i].region, added[i].name}, nil
		}))
	if err != nil {
		return fmt.Errorf("add %d schools: %w", len(added), classify(ctx, err))
	}
	return nil
}
