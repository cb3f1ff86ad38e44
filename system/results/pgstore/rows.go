package pgstore

import (
	"fmt"
	"time"

	"loadstone/system/results"
)

// selectStudents reads students in the order of row.targets. Exactly one of the
// two tables of results has a student; the marks come in the order of the
// student's own stream.
//
// The school stands in the student's own row, and a key holds it to that of the
// table of schools: a join would cost the server 6 of 41 us a look-up
// (BenchmarkStatement).
//
// Marks may be null only if the student has no result at all, which the loader
// never leaves behind; then the scan fails.
const selectStudents = `
SELECT s.id, s.name, s.sex, s.school, s.region, s.birth_date, s.stream,
       coalesce(n.english, o.english), coalesce(n.mathematics, o.mathematics),
       coalesce(n.physics, o.geography), coalesce(n.chemistry, o.history), coalesce(n.biology, o.economics),
       coalesce(n.aptitude, o.aptitude), coalesce(n.civics, o.civics),
       s.pass_mark, s.code
FROM results.students s
LEFT JOIN results.natural_results n ON n.student_id = s.id
LEFT JOIN results.social_results o ON o.student_id = s.id `

// The one statement of a look-up, prepared when a connection is made.
const (
	lookupName      = "results_lookup"
	lookupStatement = selectStudents + "WHERE s.id = $1"
)

// row receives one result row. Texts are parsed after the scan.
type row struct {
	student     results.Student
	sex, stream string
	birth       time.Time
}

func (r *row) targets() []any {
	s := &r.student
	return []any{
		&s.ID, &s.Name, &r.sex, &s.School, &s.Region, &r.birth, &r.stream,
		&s.Marks[0], &s.Marks[1], &s.Marks[2], &s.Marks[3], &s.Marks[4], &s.Marks[5], &s.Marks[6],
		&s.PassMark, &s.Code,
	}
}

// parse completes the student. It fails for what the tables do not allow.
func (r *row) parse() error {
	var sexOK, streamOK bool
	r.student.Sex, sexOK = results.ParseSex(r.sex)
	r.student.Stream, streamOK = results.ParseStream(r.stream)
	year, month, day := r.birth.Date()
	r.student.BirthDate = results.Date{Year: uint16(year), Month: uint8(month), Day: uint8(day)}
	if !sexOK || !streamOK || !r.student.BirthDate.Valid() {
		return fmt.Errorf("%w: student %d has the sex %q, birth date %v and stream %q",
			results.ErrCorrupt, r.student.ID, r.sex, r.birth, r.stream)
	}
	return nil
}
