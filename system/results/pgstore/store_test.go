package pgstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/snapshot"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(victimAddress); address != "" {
		os.Exit(beVictim(address))
	}
	code := servertest.Main(m.Run)
	if err := goleak.Find(); code == 0 && err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// config is for a server that many tests share, on a machine that may be busy.
func config(url string) Config {
	cfg := DefaultConfig()
	cfg.URL, cfg.Registerer = url, prometheus.NewRegistry()
	cfg.AcquireTimeout, cfg.StatementTimeout, cfg.QueryTimeout = time.Minute, time.Minute, 2*time.Minute
	return cfg
}

// filled returns a new database with the students of the source.
func filled(tb testing.TB, source dataset.Source[results.Student]) string {
	tb.Helper()
	url := servertest.Database(tb)
	fill(tb, url, source)
	return url
}

func fill(tb testing.TB, url string, source dataset.Source[results.Student]) {
	tb.Helper()
	if _, err := Seed(tb.Context(), url, source, nil); err != nil {
		tb.Fatal(err)
	}
}

func open(tb testing.TB, cfg Config) *Store {
	tb.Helper()
	store, err := Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			tb.Error(err)
		}
	})
	return store
}

func openSource(tb testing.TB, url string) *Source {
	tb.Helper()
	source, err := OpenSource(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	return source
}

// dial makes a connection for what no method does.
func dial(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execute(tb testing.TB, url, statement string) {
	tb.Helper()
	conn := dial(tb, url)
	_, err := conn.Exec(tb.Context(), statement)
	if err := errors.Join(err, conn.Close(tb.Context())); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// one asks for one value.
func one[T any](tb testing.TB, url, query string) (value T) {
	tb.Helper()
	conn := dial(tb, url)
	if err := errors.Join(conn.QueryRow(tb.Context(), query).Scan(&value), conn.Close(tb.Context())); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return value
}

func TestStore(t *testing.T) {
	t.Parallel()
	resultstest.Store(t, func(t *testing.T, source dataset.Source[results.Student]) results.Store {
		t.Helper()
		return open(t, config(filled(t, source)))
	})
}

func TestSource(t *testing.T) {
	t.Parallel()
	const count = 3000
	generator := resultstest.Generator(t, 4, count)
	want := map[int64]results.Student{}
	for id := int64(1); id <= count; id++ {
		want[id] = generator.Student(id)
	}
	store := openSource(t, filled(t, generator))
	if got, want := store.Meta(), generator.Meta(); got != want {
		t.Errorf("meta: got %+v, want %+v", got, want)
	}
	resultstest.Source(t, store, want)
}

// TestOddStudents: what a generator never makes comes back as it went in.
func TestOddStudents(t *testing.T) {
	t.Parallel()
	student := resultstest.Generator(t, 1, 1).Student(1)
	var list []results.Student
	add := func(change func(*results.Student)) {
		s := student
		s.ID = int64(len(list) + 1)
		change(&s)
		list = append(list, s)
	}
	add(func(s *results.Student) { s.ID = results.MaxID })
	add(func(s *results.Student) { s.Name = `<"Ünal" & 'Ö'\t{}` })
	add(func(s *results.Student) { s.Name = "አበበ በቀለ" })
	add(func(s *results.Student) { s.Name = "NULL" })
	add(func(s *results.Student) { s.School, s.Region = `\N`, `\.` })
	add(func(s *results.Student) { s.BirthDate = results.Date{Year: 1900, Month: 1, Day: 1} })
	add(func(s *results.Student) { s.BirthDate = results.Date{Year: 2100, Month: 12, Day: 31} })
	add(func(s *results.Student) { s.Marks = [results.SubjectsPerStream]int{}; s.PassMark = 1 })
	add(func(s *results.Student) {
		s.Marks = [results.SubjectsPerStream]int{100, 100, 100, 100, 100, 100, 100}
		s.PassMark = 700
	})
	add(func(s *results.Student) { s.School = student.Region; s.Region = student.School })
	source := resultstest.List{
		Description: dataset.Meta{Origin: "odd", Fingerprint: "odd", Count: int64(len(list))}, Students: list,
	}
	store := open(t, config(filled(t, source)))
	for i := range list {
		page, err := store.Lookup(t.Context(), list[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		resultstest.CheckPage(t, page, &list[i])
	}
}

// TestPublishing: a snapshot made from a database is, byte for byte, the one made
// from the database's own source.
func TestPublishing(t *testing.T) {
	t.Parallel()
	source := resultstest.Generator(t, 6, 5000)
	store := openSource(t, filled(t, source))
	paths := map[string]dataset.Source[results.Student]{"published": store, "direct": source}
	files := map[string]string{}
	for name, from := range paths {
		path := filepath.Join(t.TempDir(), "snapshot")
		if err := snapshot.Build(t.Context(), path, from, nil); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	if files["published"] != files["direct"] {
		t.Error("the published snapshot differs from the direct one")
	}
}

// TestOneConsistentRead: what changes while all students are read is not seen.
func TestOneConsistentRead(t *testing.T) {
	t.Parallel()
	const count = 20_000
	source := resultstest.Generator(t, 6, count)
	url := filled(t, source)
	store := openSource(t, url)
	read := int64(0)
	for student, err := range store.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if read == 0 {
			execute(t, url, "UPDATE results.students SET name = 'changed'")
		}
		read++
		if want := source.Student(read); student != want {
			t.Fatalf("got %+v, want %+v", student, want)
		}
	}
	if read != count {
		t.Errorf("got %d students, want %d", read, count)
	}
}

func TestFilledAnewWhileOpen(t *testing.T) {
	t.Parallel()
	url := filled(t, resultstest.Generator(t, 6, 10))
	source := openSource(t, url)
	execute(t, url, "DROP SCHEMA results CASCADE")
	fill(t, url, resultstest.Generator(t, 7, 10))
	for student, err := range source.All(t.Context()) {
		if !errors.Is(err, results.ErrVersion) {
			t.Errorf("got %+v and %v, want ErrVersion", student, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	full := func(t *testing.T) string { t.Helper(); return filled(t, resultstest.Generator(t, 1, 10)) }
	for name, c := range map[string]struct {
		url  func(t *testing.T) string
		want error
		text string
	}{
		"an empty database": {func(t *testing.T) string { t.Helper(); return servertest.Database(t) }, results.ErrMissing, "seed or import first"},
		"tables without students": {func(t *testing.T) string {
			t.Helper()
			url := servertest.Database(t)
			if err := Migrate(t.Context(), dial(t, url)); err != nil {
				t.Fatal(err)
			}
			return url
		}, results.ErrMissing, "holds no students"},
		"an unfinished seed": {func(t *testing.T) string {
			t.Helper()
			url := full(t)
			execute(t, url, "UPDATE results.data_set SET completed_at = NULL")
			return url
		}, results.ErrMissing, "seed or import them again"},
		"a newer database": {func(t *testing.T) string {
			t.Helper()
			url := full(t)
			execute(t, url, "INSERT INTO results.migrations VALUES (99, 'future')")
			return url
		}, results.ErrVersion, "version 99"},
		"tables of no version": {func(t *testing.T) string {
			t.Helper()
			url := full(t)
			execute(t, url, "DELETE FROM results.migrations")
			return url
		}, results.ErrMissing, "no tables of ours"},
		"no server": {func(*testing.T) string { return "postgres://me:secret@127.0.0.1:1/none" }, results.ErrUnavailable, "connect"},
		"no database": {func(t *testing.T) string {
			t.Helper()
			return servertest.SharedPostgres(t).URL("nothing_here")
		}, results.ErrUnavailable, "nothing_here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := c.url(t)
			store, err := Open(t.Context(), config(url))
			if err == nil {
				t.Fatal(errors.Join(errors.New("it was opened"), store.Close()))
			}
			checkError(t, err, c.want, c.text)
			_, err = OpenSource(t.Context(), url)
			checkError(t, err, c.want, c.text)
		})
	}
}
