package postgres

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"loadstone/block/servertest"
)

func TestMigrateStepByStep(t *testing.T) {
	t.Parallel()
	url := servertest.Database(t)
	conn := dial(t, url)
	to := func(n int) Migrations {
		return Migrations{schema: "things", lock: 5, steps: []step{
			{"one", "CREATE TABLE things.one (n int)"},
			{"two", "INSERT INTO things.one VALUES (2)"},
			{"broken", "INSERT INTO things.one VALUES (3); SELECT 1/0"},
		}[:n]}
	}
	if err := to(1).Migrate(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	if err := to(3).Migrate(t.Context(), conn); err == nil || !strings.Contains(err.Error(), "migration 3, broken") {
		t.Errorf("got %v, want that step 3 failed", err)
	}
	if got := one[int](t, conn, "SELECT sum(n) FROM things.one"); got != 2 {
		t.Errorf("a step failed after one that did not: got the sum %d, want 2 of the latter alone", got)
	}
	for range 2 {
		if err := to(2).Migrate(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
	}
	if got := one[string](t, conn, "SELECT string_agg(version || name, ' ' ORDER BY version) FROM things.migrations"); got != "1one 2two" {
		t.Errorf("got the steps %q, want 1one 2two", got)
	}
	if err := to(1).Migrate(t.Context(), conn); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v, want ErrNewer of version 2", err)
	}
}

func TestMigrationFileNames(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"0002_x.sql"}, {"0001_x.sql", "0003_y.sql"}, {"one.sql"}, {"0001_.sql"}, {"0001_a.sql", "0001_b.sql"}} {
		files := fstest.MapFS{}
		for _, name := range names {
			files["migrations/"+name] = &fstest.MapFile{}
		}
		if _, err := ReadMigrations(files, "things", 5); err == nil || !strings.Contains(err.Error(), "its name must be") {
			t.Errorf("%v: got %v, want an error about the name", names, err)
		}
	}
}
