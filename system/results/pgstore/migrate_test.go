package pgstore

import (
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"loadstone/system/results"
	"loadstone/system/results/pgstore/pgtest"
)

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	var group sync.WaitGroup
	for range 6 {
		conn := dial(t, url)
		group.Go(func() {
			for range 3 {
				if err := Migrate(t.Context(), conn); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	steps, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	if got := one[int](t, url, "SELECT count(*) FROM results.migrations"); got != len(steps) {
		t.Errorf("got %d recorded steps, want %d", got, len(steps))
	}
}

func TestMigrateStepByStep(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	conn := dial(t, url)
	steps := []migration{
		{1, "one", "CREATE TABLE results.one (n int)"},
		{2, "two", "INSERT INTO results.one VALUES (2)"},
		{3, "broken", "INSERT INTO results.one VALUES (3); SELECT 1/0"},
	}
	if err := migrate(t.Context(), conn, steps[:1]); err != nil {
		t.Fatal(err)
	}
	if err := migrate(t.Context(), conn, steps); err == nil || !strings.Contains(err.Error(), "migration 3, broken") {
		t.Errorf("got %v, want that step 3 failed", err)
	}
	if got := one[int](t, url, "SELECT count(*) FROM results.one"); got != 0 {
		t.Errorf("a failed migration left %d rows", got)
	}
	for range 2 {
		if err := migrate(t.Context(), conn, steps[:2]); err != nil {
			t.Fatal(err)
		}
	}
	if got := one[string](t, url, "SELECT string_agg(version || name, ' ' ORDER BY version) FROM results.migrations"); got != "1one 2two" {
		t.Errorf("got the steps %q, want 1one 2two", got)
	}
	checkError(t, migrate(t.Context(), conn, steps[:1]), results.ErrVersion, "version 2")
}

func TestMigrationFileNames(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"0002_x.sql"}, {"0001_x.sql", "0003_y.sql"}, {"one.sql"}, {"0001_.sql"}, {"0001_a.sql", "0001_b.sql"}} {
		files := fstest.MapFS{}
		for _, name := range names {
			files["migrations/"+name] = &fstest.MapFile{}
		}
		if _, err := readMigrations(files); err == nil || !strings.Contains(err.Error(), "its name must be") {
			t.Errorf("%v: got %v, want an error about the name", names, err)
		}
	}
}
