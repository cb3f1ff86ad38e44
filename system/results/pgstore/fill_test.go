package pgstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/system/results"
)

// fillKeyed seeds, into tables that keep their keys while rows come or not.
func fillKeyed(b *testing.B, s seeder, keyed bool) {
	b.Helper()
	if !keyed {
		if _, err := s.seed(b.Context()); err != nil {
			b.Fatal(err)
		}
		return
	}
	conn := dial(b, s.address)
	if err := Migrate(b.Context(), conn); err != nil {
		b.Fatal(err)
	}
	if err := s.load(b.Context(), &progressState{chunk: chunkStudents, school: newSchools()}); err != nil {
		b.Fatal(err)
	}
	if _, err := conn.Exec(b.Context(), "VACUUM (ANALYZE) "+tableList); err != nil {
		b.Fatal(err)
	}
}

// psqlRun is one filling by psql.
type psqlRun struct {
	program string
	scripts []string
	keyed   bool
}

// fillPsql fills the tables with psql, one process for each script, between the
// same steps as a seed.
func fillPsql(b *testing.B, s seeder, run psqlRun) {
	b.Helper()
	conn := dial(b, s.address)
	if err := Migrate(b.Context(), conn); err != nil {
		b.Fatal(err)
	}
	if !run.keyed {
		if _, err := s.begin(b.Context(), conn); err != nil {
			b.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for _, script := range run.scripts {
		group.Go(func() {
			cmd := exec.CommandContext(b.Context(), run.program, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script, s.address)
			if output, err := cmd.CombinedOutput(); err != nil {
				b.Errorf("psql: %v: %s", err, output)
			}
		})
	}
	group.Wait()
	if run.keyed {
		if _, err := conn.Exec(b.Context(), "VACUUM (ANALYZE) "+tableList); err != nil {
			b.Fatal(err)
		}
		return
	}
	if err := s.finish(b.Context(), conn); err != nil {
		b.Fatal(err)
	}
}

// statement is an INSERT of n rows.
func statement(table string, columns []string, n int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "INSERT INTO results.%s (%s) VALUES ", table, strings.Join(columns, ", "))
	for row := range n {
		for i := range columns {
			text.WriteString(map[bool]string{true: "(", false: ", "}[i == 0])
			text.WriteString("$" + strconv.Itoa(row*len(columns)+i+1))
		}
		text.WriteString(map[bool]string{true: ")", false: "), "}[row == n-1])
	}
	return text.String()
}

// inserts calls insert with every row of a chunk: for each table the values.
func inserts(records []record, insert func(table string, columns []string, values []any) error) error {
	for i := range records {
		r := &records[i]
		values := make([]any, len(studentColumns))
		studentValues(values, r)
		if err := insert("students", studentColumns, values); err != nil {
			return err
		}
	}
	for i := range records {
		r := &records[i]
		columns := resultColumns(r.student.Stream)
		values := make([]any, len(columns))
		resultValues(values, r)
		if err := insert(resultTable(r.student.Stream), columns, values); err != nil {
			return err
		}
	}
	return nil
}

// insertChunk writes row by row: one statement, one round trip each, prepared.
func insertChunk(ctx context.Context, tx pgx.Tx, records []record) error {
	return inserts(records, func(table string, columns []string, values []any) error {
		_, err := tx.Exec(ctx, statement(table, columns, 1), values...)
		return err
	})
}

// batchChunk sends statements of one row each, prepared, many in one round trip.
func batchChunk(ctx context.Context, tx pgx.Tx, records []record) error {
	batch := &pgx.Batch{}
	send := func() error {
		err := tx.SendBatch(ctx, batch).Close()
		batch = &pgx.Batch{}
		return err
	}
	err := inserts(records, func(table string, columns []string, values []any) error {
		batch.Queue(statement(table, columns, 1), values...)
		if batch.Len() < batchRows {
			return nil
		}
		return send()
	})
	if err != nil || batch.Len() == 0 {
		return err
	}
	return send()
}

// multirowChunk sends statements of many rows each.
func multirowChunk(ctx context.Context, tx pgx.Tx, records []record) error {
	type pending struct {
		columns []string
		values  []any
	}
	tables := map[string]*pending{}
	flush := func(table string, p *pending) error {
		n := len(p.values) / len(p.columns)
		if n == 0 {
			return nil
		}
		_, err := tx.Exec(ctx, statement(table, p.columns, n), p.values...)
		p.values = p.values[:0]
		return err
	}
	err := inserts(records, func(table string, columns []string, values []any) error {
		p := tables[table]
		if p == nil {
			p = &pending{columns: columns}
			tables[table] = p
		}
		if students := tables["students"]; table != "students" && len(students.values) > 0 {
			if err := flush("students", students); err != nil { // whom results refer to
				return err
			}
		}
		p.values = append(p.values, values...)
		if len(p.values) < batchRows*len(columns) {
			return nil
		}
		return flush(table, p)
	})
	for table, p := range tables {
		if err == nil {
			err = flush(table, p)
		}
	}
	return err
}

// writeFiles writes the students in COPY's text format and a script for each
// psql that copies its share.
func writeFiles(b *testing.B, dir string, source *results.Generator, workers int) (scripts []string) {
	b.Helper()
	all := newSchools()
	var schoolRows strings.Builder
	share := (source.Meta().Count + int64(workers) - 1) / int64(workers)
	for w := range workers {
		var script strings.Builder
		if w == 0 {
			fmt.Fprintf(&script, "\\copy results.schools (id, region, name) from '%s'\n", filepath.Join(dir, "schools"))
		}
		files := map[string]*bufio.Writer{}
		for _, table := range []string{"students", "natural_results", "social_results"} {
			columns := studentColumns
			if stream, ok := results.ParseStream(strings.TrimSuffix(table, "_results")); ok {
				columns = resultColumns(stream)
			}
			path := filepath.Join(dir, table+strconv.Itoa(w))
			file, err := os.Create(path)
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			files[table] = bufio.NewWriter(file)
			defer files[table].Flush()
			fmt.Fprintf(&script, "\\copy results.%s (%s) from '%s'\n", table, strings.Join(columns, ", "), path)
		}
		for id := int64(w)*share + 1; id <= min(int64(w+1)*share, source.Meta().Count); id++ {
			r := record{student: source.Student(id)}
			one := school{r.student.Region, r.student.School}
			if all.numbers[one] == 0 {
				all.numbers[one] = int32(len(all.numbers) + 1)
				fmt.Fprintf(&schoolRows, "%d\t%s\t%s\n", all.numbers[one], one.region, one.name)
			}
			r.school = all.numbers[one]
			err := inserts([]record{r}, func(table string, _ []string, values []any) error {
				for i, value := range values {
					if day, ok := value.(time.Time); ok {
						value = day.Format(time.DateOnly)
					}
					fmt.Fprintf(files[table], map[bool]string{true: "%v", false: "\t%v"}[i == 0], value)
				}
				return files[table].WriteByte('\n')
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		scripts = append(scripts, filepath.Join(dir, "script"+strconv.Itoa(w)))
		if err := os.WriteFile(scripts[w], []byte(script.String()), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "schools"), []byte(schoolRows.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	return scripts
}
