package pgstore

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"loadstone/block/postgres"
	"loadstone/block/servertest"
	"loadstone/system/menu"
	"loadstone/system/menu/menutest"
)

// connected is a connection beside the store.
func connected(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	conn, err := postgres.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func replace(t *testing.T, s *Store, id int64, times int) {
	t.Helper()
	for range times {
		m := menutest.Example(id, 1)
		if _, _, err := s.Replace(t.Context(), &m, menu.Condition{}); err != nil {
			t.Fatal(err)
		}
	}
}

func wantLog(t *testing.T, s *Store, after menu.Cursor, count int) []menu.Change {
	t.Helper()
	got, err := s.Changes(t.Context(), after, menu.MaxListed)
	if err != nil || len(got) != count {
		t.Fatalf("got %+v and %v, want %d changes", got, err, count)
	}
	return got
}

// A write that began first and is committed last comes last in the log.
func TestAReaderPassesNoWriteThatIsUnderWay(t *testing.T) {
	t.Parallel()
	address := servertest.Database(t)
	s, conn := open(t, config(address)), connected(t, address)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), write, 1, 5, "{}", false, false, 0, false, false, "late", menu.KeptRevisions); err != nil {
		t.Fatal(err)
	}
	replace(t, s, 2, 1)
	first := wantLog(t, s, "", 1)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if second := wantLog(t, s, first[0].Cursor, 1); second[0].ID != 1 || second[0].Editor != "late" {
		t.Errorf("got %+v, want the change of menu 1", second)
	}
}

// The log loses what is too old while others come, and goes on with cursors above those that
// it had; where nobody reads it, those who write see to it.
func TestTheLogLosesWhatIsOld(t *testing.T) {
	t.Parallel()
	address := servertest.Database(t)
	s, conn := open(t, config(address)), connected(t, address)
	replace(t, s, 1, 10)
	last := wantLog(t, s, "", 10)[9].Cursor
	if _, err := conn.Exec(t.Context(), "UPDATE menu.changes SET changed_at = changed_at - $1::interval WHERE version < 10", menu.KeptChanges); err != nil {
		t.Fatal(err)
	}
	wantLog(t, s, "", 10)
	replace(t, s, 1, 2)
	wantLog(t, s, last, 2)
	wantLog(t, s, "", 8)
	replace(t, s, 1, numberEvery)
	var waiting, old int
	if err := conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM menu.outbox), count(*) FROM menu.changes WHERE version < 10").Scan(&waiting, &old); err != nil {
		t.Fatal(err)
	}
	if waiting >= numberEvery || old > 0 {
		t.Errorf("%d changes wait for a reader, and %d are too old", waiting, old)
	}
	wantLog(t, s, "", numberEvery+3)
	var revisions int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM menu.revisions").Scan(&revisions); err != nil || revisions != menu.KeptRevisions-1 {
		t.Errorf("there are %d versions beside the newest and %v, want %d", revisions, err, menu.KeptRevisions-1)
	}
}

// Tables of the version before have menus, and a filling that was begun goes on.
func TestTheTablesBeforeAreBroughtUp(t *testing.T) {
	t.Parallel()
	first, err := migrationFiles.ReadFile("migrations/0001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := postgres.ReadMigrations(fstest.MapFS{"migrations/0001_tables.sql": {Data: first}}, "menu", migrateLock)
	if err != nil {
		t.Fatal(err)
	}
	whole := menutest.Generator(t, 1, 10)
	for _, c := range []struct{ name, before string }{
		{"menus", "INSERT INTO menu.menus VALUES (1, 3, 5, true, '{}')"},
		{"a filling", "INSERT INTO menu.data_set (origin, fingerprint, menus, chunk_menus) VALUES ('" + whole.Meta().Origin + "', '" +
			whole.Meta().Fingerprint + "', 10, 4); CREATE TABLE menu.filling (LIKE menu.menus INCLUDING CONSTRAINTS)"},
	} {
		address := servertest.Database(t)
		conn := connected(t, address)
		if err := steps.Migrate(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), c.before); err != nil {
			t.Fatal(err)
		}
		s := open(t, config(address))
		if c.name == "menus" {
			page, err := s.Lookup(t.Context(), 1)
			if err != nil || page.Version != 3 {
				t.Errorf("%s: got %+v and %v, want version 3", c.name, page, err)
			}
		} else if _, err := s.Fill(t.Context(), whole, nil); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		replace(t, s, 1, 1)
		got, err := s.Revisions(t.Context(), 1, 0, 9)
		if err != nil || len(got) != 2 || got[1].Editor != "" || !got[1].At.IsZero() || got[0].Editor != menu.EditorAPI {
			t.Errorf("%s: got %+v and %v, want two versions, one of nobody", c.name, got, err)
		}
		wantLog(t, s, "", 1)
	}
}
