package pgstore

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/system/results"
	"loadstone/system/results/pgstore/pgtest"
	"loadstone/system/results/resultstest"
)

// sizes of the seeding benchmarks: a small data set and the whole one.
var sizes = []int64{50_000, results.DefaultCount}

// BenchmarkSeed compares the ways to get the same students into the same tables,
// from an empty database to one that can be served, keys included. One operation
// is a whole data set; run it with -benchtime 1x. Row by row is measured with the
// small set alone: it takes minutes with the other.
func BenchmarkSeed(b *testing.B) {
	ways := []struct {
		name    string
		workers int
		write   func(context.Context, pgx.Tx, []record) error
	}{
		{"copy", 1, copyChunk},
		{"copy", 2, copyChunk},
		{"copy", 4, copyChunk},
		{"batch", 1, batchChunk},
		{"batch", 2, batchChunk},
		{"multirow", 1, multirowChunk},
		{"multirow", 2, multirowChunk},
		{"rows", 1, insertChunk},
		{"rows", 2, insertChunk},
	}
	for _, count := range sizes {
		for _, way := range ways {
			if way.name == "rows" && count > sizes[0] {
				continue
			}
			b.Run(fmt.Sprintf("way=%s/workers=%d/students=%d", way.name, way.workers, count), func(b *testing.B) {
				s := seeder{source: resultstest.Generator(b, 1, count), workers: way.workers, write: way.write}
				seeding(b, count, func(url string) {
					s.address = url
					if _, err := s.seed(b.Context()); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
		b.Run(fmt.Sprintf("way=psql/workers=1/students=%d", count), func(b *testing.B) { benchmarkPsql(b, count, 1) })
		b.Run(fmt.Sprintf("way=psql/workers=2/students=%d", count), func(b *testing.B) { benchmarkPsql(b, count, 2) })
	}
}

// BenchmarkSeedKeys fills tables that keep their keys while rows come, for
// comparison with making them at the end, as BenchmarkSeed does.
func BenchmarkSeedKeys(b *testing.B) {
	for _, way := range []struct {
		name    string
		workers int
		write   func(context.Context, pgx.Tx, []record) error
	}{{"copy", 2, copyChunk}, {"multirow", 1, multirowChunk}, {"multirow", 2, multirowChunk}} {
		for _, count := range sizes {
			b.Run(fmt.Sprintf("way=%s/workers=%d/students=%d", way.name, way.workers, count), func(b *testing.B) {
				source := resultstest.Generator(b, 1, count)
				seeding(b, count, func(url string) {
					fillKeyed(b, seeder{address: url, source: source, workers: way.workers, write: way.write}, true)
				})
			})
		}
	}
}

// seedStudents is small for a look whether the benchmark still works.
var seedStudents = flag.Int64("seed-students", 20_000, "students of BenchmarkSeedRatios")

// BenchmarkSeedRatios fills databases in every way in turn, in one run, and reports
// how long each took in relation to Seed. All have the same tables, constraints and
// students, end with VACUUM (ANALYZE), and are timed from an empty database to one
// that can be served. There are 20,000 students, or as many as -seed-students says:
// small sets flatter the ways with keys, so figures are taken with 674823. Run it
// with -benchtime 1x, or 3x for three rounds:
//
//	copy             Seed as it is: the source is generated, COPY over a connection
//	                 per core, keys made at the end
//	psql             \copy by one process, of files written beforehand; keys made
//	                 at the end, as for copy
//	psql-keyed       the same into tables that have their keys, as anybody would
//	batch            pgx.Batch of 1000 single-row INSERTs, a connection per core, into
//	                 tables that have their keys: what people mean by batch inserts
//	batch-deferred   the same with keys made at the end, as for copy
//	multirow         INSERTs of 1000 rows each, a connection per core, keyed
//	multirow-deferred
//	rows             one INSERT and one round trip a row, a connection per core, keyed,
//	                 with rowStudents students: its rate is what is compared
func BenchmarkSeedRatios(b *testing.B) {
	count := *seedStudents
	rowStudents := min(count, 20_000)
	cores := runtime.GOMAXPROCS(0)
	type way struct {
		name     string
		students int64
		fill     func(b *testing.B, url string, source *results.Generator)
	}
	inserted := func(write func(context.Context, pgx.Tx, []record) error, keyed bool) func(*testing.B, string, *results.Generator) {
		return func(b *testing.B, url string, source *results.Generator) {
			b.Helper()
			fillKeyed(b, seeder{address: url, source: source, workers: cores, write: write}, keyed)
		}
	}
	ways := []way{
		{"copy", count, inserted(copyChunk, false)},
		{"psql", count, nil},
		{"psql-keyed", count, nil},
		{"batch", count, inserted(batchChunk, true)},
		{"batch-deferred", count, inserted(batchChunk, false)},
		{"multirow", count, inserted(multirowChunk, true)},
		{"multirow-deferred", count, inserted(multirowChunk, false)},
		{"rows", rowStudents, inserted(insertChunk, true)},
	}
	psql, err := pgtest.Program("psql")
	if err != nil {
		b.Skip(err)
	}
	script := writeFiles(b, b.TempDir(), resultstest.Generator(b, 1, count), 1)
	for i, keyed := range []bool{false, true} {
		ways[1+i].fill = func(b *testing.B, url string, source *results.Generator) {
			b.Helper()
			fillPsql(b, seeder{address: url, source: source}, psqlRun{psql, script, keyed})
		}
	}
	server := pgtest.Shared(b)
	took := make([]time.Duration, len(ways))
	for range b.N {
		for i, w := range ways {
			source, url := resultstest.Generator(b, 1, w.students), server.Database(b)
			began := time.Now()
			w.fill(b, url, source)
			took[i] += time.Since(began)
		}
	}
	perStudent := func(i int) float64 { return took[i].Seconds() / float64(ways[i].students) / float64(b.N) }
	for i, w := range ways {
		b.ReportMetric(perStudent(i)*float64(w.students), w.name+"-s")
		b.ReportMetric(perStudent(i)/perStudent(0), w.name+"/copy")
		b.Logf("%-18s %7d students %8.2f s  %6.2f x copy", w.name, w.students, perStudent(i)*float64(w.students), perStudent(i)/perStudent(0))
	}
}

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

// seeding times a way of filling a new database, and counts the processor time of
// client and server.
func seeding(b *testing.B, count int64, fill func(url string)) {
	b.Helper()
	server := pgtest.Shared(b)
	var used time.Duration
	b.StopTimer()
	for range b.N {
		url := server.Database(b)
		before := cpu(b, server)
		b.StartTimer()
		fill(url)
		b.StopTimer()
		used += cpu(b, server) - before
	}
	b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "students/s")
	b.ReportMetric(float64(used.Microseconds())/float64(count)/float64(b.N), "cpu-us/student")
}

// cpu is the processor time that this program, its ended children and the server
// have used so far.
func cpu(b *testing.B, server *pgtest.Server) time.Duration {
	b.Helper()
	total, err := server.CPU()
	if err != nil {
		b.Fatal(err)
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			b.Fatal(err)
		}
		total += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return total
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

// batchRows is how many rows go in one batch, and in one statement of many rows.
const batchRows = 1000

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

// benchmarkPsql fills the tables with psql's \copy from files that were written
// beforehand, between the same steps as a seed.
func benchmarkPsql(b *testing.B, count int64, workers int) {
	psql, err := pgtest.Program("psql")
	if err != nil {
		b.Skip(err)
	}
	dir := b.TempDir()
	scripts := writeFiles(b, dir, resultstest.Generator(b, 1, count), workers)
	seeding(b, count, func(url string) {
		fillPsql(b, seeder{address: url, source: resultstest.Generator(b, 1, count)}, psqlRun{psql, scripts, false})
	})
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

// BenchmarkLookup looks up students in a scattered order, with pools of different
// sizes, for 32 callers at a time. CPU is that of client and server.
func BenchmarkLookup(b *testing.B) {
	const count, callers = 100_000, 32
	url := filled(b, resultstest.Generator(b, 1, count))
	server := pgtest.Shared(b)
	for _, connections := range []int{1, 2, 3, 4, 6, 8, 16} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			cfg := config(url)
			cfg.Connections = connections
			store := open(b, cfg)
			var next, failed atomic.Int64
			var group sync.WaitGroup
			b.ReportAllocs()
			before := cpu(b, server)
			b.ResetTimer()
			for range callers {
				group.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if _, err := store.Lookup(context.Background(), n*61_803%count+1); err != nil {
							failed.Add(1)
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lookups/s")
			b.ReportMetric(float64((cpu(b, server)-before).Microseconds())/float64(b.N), "cpu-us/lookup")
			if failed.Load() > 0 {
				b.Errorf("%d look-ups failed", failed.Load())
			}
		})
	}
}

// BenchmarkStatement compares the look-up with that of the program before, which
// joined the schools: processor time of the server alone for each, measured in turns
// by one connection on databases of the versions that the statements are of.
func BenchmarkStatement(b *testing.B) {
	const count, turn = 100_000, 4000
	server := pgtest.Shared(b)
	source := resultstest.Generator(b, 1, count)
	ways := []struct {
		name, query, before string
	}{
		{"joined", firstLookup, firstVersion + "; VACUUM FULL ANALYZE results.students"},
		{"denormalised", lookupStatement, "VACUUM FULL ANALYZE results.students"},
	}
	used, conns := make([]time.Duration, len(ways)), make([]*pgx.Conn, len(ways))
	for i, way := range ways {
		url := filled(b, source)
		for statement := range strings.SplitSeq(way.before, ";") { // VACUUM stands alone
			execute(b, url, statement)
		}
		conns[i] = dial(b, url)
		if _, err := conns[i].Exec(b.Context(), "SET plan_cache_mode = force_generic_plan; SET jit = off"); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	queries := 0
	for range b.N {
		for i, way := range ways {
			before, err := server.CPU()
			if err != nil {
				b.Fatal(err)
			}
			for n := range int64(turn) {
				var row row
				if err := conns[i].QueryRow(b.Context(), way.query, (int64(queries)+n)*61_803%count+1).Scan(row.targets()...); err != nil {
					b.Fatal(err)
				}
			}
			after, err := server.CPU()
			if err != nil {
				b.Fatal(err)
			}
			used[i] += after - before
		}
		queries += turn
	}
	for i, way := range ways {
		b.ReportMetric(float64(used[i].Microseconds())/float64(queries), way.name+"-us/query")
	}
	b.ReportMetric(float64(used[1])/float64(used[0]), "ratio")
}

// BenchmarkScan measures one student on the way out, as publishing reads them.
func BenchmarkScan(b *testing.B) {
	store := openSource(b, filled(b, resultstest.Generator(b, 1, int64(b.N))))
	b.ReportAllocs()
	b.ResetTimer()
	for _, err := range store.All(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
	}
}
