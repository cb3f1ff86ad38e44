package sqlitestore

import (
	"fmt"
	"strings"

	"loadstone/system/results"
)

// SchemaVersion is the version of the tables, kept as PRAGMA user_version.
const SchemaVersion = 1

// applicationID, as PRAGMA application_id, tells our databases from others: "LSRS".
const applicationID = 0x4c535253

// studentColumns are the columns before the subjects, in table order.
var studentColumns = []string{"id", "name", "sex", "school", "region", "birth_date", "stream"}

// createStudents is the table of students. A subject that the student's stream
// does not have is null. The key is SQLite's own row number: a second tree beside
// the rows, or the rows in a tree for arbitrary keys (WITHOUT ROWID), only cost.
func createStudents() string {
	columns := make([]string, 0, columnCount())
	columns = append(columns,
		"id INTEGER PRIMARY KEY", "name TEXT NOT NULL", "sex TEXT NOT NULL", "school TEXT NOT NULL",
		"region TEXT NOT NULL", "birth_date TEXT NOT NULL", "stream TEXT NOT NULL",
	)
	for _, subject := range results.Subjects() {
		columns = append(columns, subject.String()+" INTEGER")
	}
	columns = append(columns, "pass_mark INTEGER NOT NULL", "code TEXT NOT NULL")
	return "CREATE TABLE students (" + strings.Join(columns, ", ") + ") STRICT"
}

// fingerprintKey is the key of meta for what was filled in.
const fingerprintKey = "fingerprint"

const createMeta = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID"

// Keys of meta that may be missing: the first in a file of a program of before, the
// others if no students have been corrected.
const (
	identityKey = "identity"
	revisionKey = "revision"
	revisedKey  = "revised_fingerprint"
	publishKey  = "publish_at" // RFC 3339, in the zone in which it was announced
)

// columnCount is the number of columns of students.
func columnCount() int { return len(studentColumns) + len(results.Subjects()) + 2 }

// firstSubject is the position of the first subject among the columns.
func firstSubject() int { return len(studentColumns) }

func insertStudent() string {
	return "INSERT INTO students VALUES (" + strings.TrimSuffix(strings.Repeat("?,", columnCount()), ",") + ")"
}

// selectStudents reads students in the order of row.targets. Where the streams
// have different subjects it takes the one that is set, so that the marks come
// in the stream's own order.
func selectStudents(rest string) string {
	columns := append([]string(nil), studentColumns...)
	social := results.Social.Subjects()
	for i, subject := range results.Natural.Subjects() {
		column := subject.String()
		if subject != social[i] {
			column = fmt.Sprintf("coalesce(%s, %s)", subject, social[i])
		}
		columns = append(columns, column)
	}
	return "SELECT " + strings.Join(columns, ", ") + ", pass_mark, code FROM students " + rest
}

// row receives one result row. Texts are parsed after the scan.
type row struct {
	student                results.Student
	sex, birthDate, stream string
}

func (r *row) targets() []any {
	s := &r.student
	return []any{
		&s.ID, &s.Name, &r.sex, &s.School, &s.Region, &r.birthDate, &r.stream,
		&s.Marks[0], &s.Marks[1], &s.Marks[2], &s.Marks[3], &s.Marks[4], &s.Marks[5], &s.Marks[6],
		&s.PassMark, &s.Code,
	}
}

// parse completes the student. It fails for a row that this package did not write.
func (r *row) parse() error {
	var sexOK, dateOK, streamOK bool
	r.student.Sex, sexOK = results.ParseSex(r.sex)
	r.student.BirthDate, dateOK = results.ParseDate(r.birthDate)
	r.student.Stream, streamOK = results.ParseStream(r.stream)
	if !sexOK || !dateOK || !streamOK {
		return fmt.Errorf("%w: student %d has the sex %q, birth date %q and stream %q",
			results.ErrCorrupt, r.student.ID, r.sex, r.birthDate, r.stream)
	}
	return nil
}
