package serve_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/pagecache"
	"loadstone/system/results/pgstore"
	"loadstone/system/results/resultstest"
	"loadstone/system/results/serve"
	"loadstone/system/results/stores"
)

// reschedule changes when the results in a store come out.
func reschedule(t *testing.T, store string, choose results.Reschedule) {
	t.Helper()
	name, err := stores.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	if err := name.Reschedule(t.Context(), "the test", choose); err != nil {
		t.Fatal(err)
	}
}

// started is a replica of a store with a configuration of its own, as from another shell.
func started(t *testing.T, store, cache string) *running {
	t.Helper()
	cfg := serve.DefaultConfig()
	cfg.Store, cfg.Cache, cfg.Drain = store, cache, 0
	s := run(t, cfg)
	t.Cleanup(func() { s.end(t) })
	return s
}

// looked is the status of a look-up with the right code.
func looked(t *testing.T, s *running, student *results.Student) int {
	t.Helper()
	status, body := get(t, s.api, fmt.Sprintf("/student/%d", student.ID), "X-Access-Code: "+student.Code)
	if (status == 200) != (body == string(results.NewPage(student).Body)) {
		t.Errorf("got status %d with %q", status, body)
	}
	return status
}

// known is looked, once the service is not too busy to say anything.
func known(t *testing.T, s *running, student *results.Student) (status int) {
	t.Helper()
	until(t, func() bool { status = looked(t, s, student); return status != 503 })
	return status
}

// Replicas have the embargo from their store, wherever they were started.
func TestEmbargoHoldsOnReplicasStartedFromAnywhere(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{stores.SQLite, stores.Snapshot, stores.Postgres} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			source := resultstest.Generator(t, 3, students)
			student := source.Student(77)
			later := time.Now().Add(time.Hour)
			store := stored(t, kind, results.Embargoed(source, later))
			replicas := []*running{started(t, store, pagecache.None), started(t, store, pagecache.Memory)}
			every := func(want int) {
				t.Helper()
				for _, s := range replicas {
					until(t, func() bool { return looked(t, s, &student) == want })
				}
			}
			for _, s := range replicas {
				if got := known(t, s, &student); got != 403 {
					t.Errorf("a fresh replica: got status %d, want 403", got)
				}
				if got, html := enter(t, s, 77, student.Code); got != 403 || strings.Contains(html, student.Name) {
					t.Errorf("the page of a fresh replica: got status %d, want 403", got)
				}
				if got, _ := get(t, s.api, "/readyz"); got != 200 {
					t.Errorf("readiness: got status %d, want 200", got)
				}
			}
			reschedule(t, store, results.Lift)
			every(200)
			reschedule(t, store, results.Until(later))
			every(403)
			for range 5 { // and nobody opens again
				if got := looked(t, replicas[1], &student); got != 403 {
					t.Errorf("taken back: got status %d, want 403", got)
				}
			}
		})
	}
}

// stored fills a store of the kind.
func stored(t *testing.T, kind string, source dataset.Source[results.Student]) string {
	t.Helper()
	switch kind {
	case stores.SQLite:
		return filled(t, source)[0]
	case stores.Snapshot:
		return filled(t, source)[1]
	}
	url := servertest.Postgres(t).Database(t)
	if _, err := pgstore.Seed(t.Context(), url, source, nil); err != nil {
		t.Fatal(err)
	}
	return url
}

// clock is that of a database in a test: an hour behind this machine's, and set by hand.
type clock struct {
	t   *testing.T
	url string
}

func newClock(t *testing.T, url string) clock {
	t.Helper()
	c := clock{t, url}
	c.execute("CREATE SCHEMA test")
	c.execute("CREATE TABLE test.hands AS SELECT pg_catalog.now() - interval '1 hour' AS at")
	c.execute("CREATE FUNCTION test.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT at FROM test.hands'")
	// Sessions look for names in this schema first.
	c.execute("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = test, pg_catalog, public', current_database()); END $$")
	return c
}

func (c clock) execute(statement string, args ...any) {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.url)
	if err != nil {
		c.t.Fatal(err)
	}
	_, err = conn.Exec(c.t.Context(), statement, args...)
	if err := errors.Join(err, conn.Close(c.t.Context())); err != nil {
		c.t.Fatalf("%s: %v", statement, err)
	}
}

func (c clock) set(at time.Time) { c.execute("UPDATE test.hands SET at = $1", at) }

// The database's clock decides, and what it has said last counts while it is silent.
func TestEmbargoFollowsTheDatabasesClock(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	url := server.Database(t)
	clock := newClock(t, url)
	source := resultstest.Generator(t, 3, students)
	student := source.Student(77)
	// Over for half an hour by the clock of the replica.
	at := time.Now().Add(-30 * time.Minute).Truncate(time.Second)
	if _, err := pgstore.Seed(t.Context(), url, results.Embargoed(source, at), nil); err != nil {
		t.Fatal(err)
	}
	s := started(t, url, pagecache.Memory)
	clock.set(at.Add(-time.Minute))
	if got := known(t, s, &student); got != 403 {
		t.Errorf("with a clock that is ahead: got status %d, want 403", got)
	}
	clock.set(at)
	until(t, func() bool { return looked(t, s, &student) == 200 })
	// Postponed: by the clock of the replica it is over all the same.
	at = at.Add(10 * time.Minute)
	reschedule(t, url, results.Until(at))
	until(t, func() bool { return looked(t, s, &student) == 403 })

	gone := func(want int) {
		t.Helper()
		server.Kill()
		fresh := started(t, url, pagecache.Memory)
		for range 5 {
			if got := looked(t, s, &student); got != want {
				t.Errorf("the database is silent: got status %d, want %d", got, want)
			}
			if got := looked(t, fresh, &student); got != 503 {
				t.Errorf("the database has never answered: got status %d, want 503", got)
			}
		}
		server.Start()
		until(t, func() bool { return looked(t, fresh, &student) == want })
	}
	clock.set(at.Add(-time.Second))
	gone(403) // just before
	clock.set(at)
	until(t, func() bool { return looked(t, s, &student) == 200 })
	gone(200) // just after
}

// A Redis that was filled the evening before opens nothing as long as the database has
// not said that results are out.
func TestRedisAloneOpensNothing(t *testing.T) {
	t.Parallel()
	server, redis := servertest.Postgres(t), servertest.Redis(t)
	url := server.Database(t)
	source := resultstest.Generator(t, 3, students)
	student := source.Student(77)
	if _, err := pgstore.Seed(t.Context(), url, results.Embargoed(source, time.Now().Add(time.Hour)), nil); err != nil {
		t.Fatal(err)
	}
	db, err := pgstore.OpenSource(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if written, err := pagecache.Preload(t.Context(), "redis://"+redis.Addr(), db, nil); err != nil || written != students {
		t.Fatalf("got %d pages and %v, want %d", written, err, students)
	}
	server.Kill()
	s := run(t, replica(url, pagecache.MemoryRedis, redis))
	t.Cleanup(func() { s.end(t) })
	for range 5 {
		known, first := get(t, s.api, "/student/77", "X-Access-Code: "+student.Code)
		unknown, second := get(t, s.api, fmt.Sprintf("/student/%d", students+1), "X-Access-Code: "+student.Code)
		if known != 503 || unknown != 503 || first != second {
			t.Errorf("got status %d and %d, want 503 and the same bytes", known, unknown)
		}
	}
	server.Start()
	until(t, func() bool { return looked(t, s, &student) == 403 })
	reschedule(t, url, results.Lift)
	until(t, func() bool { return looked(t, s, &student) == 200 })
}
