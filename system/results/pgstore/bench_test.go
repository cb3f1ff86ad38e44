package pgstore

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
)

// smallSeed is for a look whether the benchmarks still work.
const smallSeed = 2_000

// sizes of the seeding benchmarks: a small data set, and the one that -seed-students
// asks for.
func sizes() []int64 {
	if *seedStudents > smallSeed {
		return []int64{smallSeed, *seedStudents}
	}
	return []int64{smallSeed}
}

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
	for _, count := range sizes() {
		for _, way := range ways {
			if way.name == "rows" && count > smallSeed {
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
		for _, count := range sizes() {
			b.Run(fmt.Sprintf("way=%s/workers=%d/students=%d", way.name, way.workers, count), func(b *testing.B) {
				source := resultstest.Generator(b, 1, count)
				seeding(b, count, func(url string) {
					fillKeyed(b, seeder{address: url, source: source, workers: way.workers, write: way.write}, true)
				})
			})
		}
	}
}

var seedStudents = flag.Int64("seed-students", smallSeed, "students of the benchmarks")

// BenchmarkSeedRatios fills databases in every way in turn, in one run, and reports
// how long each took in relation to Seed. All have the same tables, constraints and
// students, end with VACUUM (ANALYZE), and are timed from an empty database to one
// that can be served. There are 2,000 students, or as many as -seed-students says:
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
	psql, err := servertest.PostgresProgram("psql")
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
	server := servertest.SharedPostgres(b)
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

// seeding times a way of filling a new database, and counts the processor time of
// client and server.
func seeding(b *testing.B, count int64, fill func(url string)) {
	b.Helper()
	server := servertest.SharedPostgres(b)
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
func cpu(b *testing.B, server *servertest.PostgresServer) time.Duration {
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

// batchRows is how many rows go in one batch, and in one statement of many rows.
const batchRows = 1000

// benchmarkPsql fills the tables with psql's \copy from files that were written
// beforehand, between the same steps as a seed.
func benchmarkPsql(b *testing.B, count int64, workers int) {
	psql, err := servertest.PostgresProgram("psql")
	if err != nil {
		b.Skip(err)
	}
	dir := b.TempDir()
	scripts := writeFiles(b, dir, resultstest.Generator(b, 1, count), workers)
	seeding(b, count, func(url string) {
		fillPsql(b, seeder{address: url, source: resultstest.Generator(b, 1, count)}, psqlRun{psql, scripts, false})
	})
}

// BenchmarkLookup looks up students in a scattered order, with pools of different
// sizes, for 32 callers at a time. CPU is that of client and server. The figures that are
// quoted are of 100,000 students, as are those of BenchmarkStatement.
func BenchmarkLookup(b *testing.B) {
	const callers = 32
	count := *seedStudents
	url := filled(b, resultstest.Generator(b, 1, count))
	server := servertest.SharedPostgres(b)
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
	const turn = 4000
	count := *seedStudents
	server := servertest.SharedPostgres(b)
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
