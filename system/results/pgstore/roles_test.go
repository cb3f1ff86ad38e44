package pgstore

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"loadstone/block/servertest"
	"loadstone/system/results"
)

// as is the address with another user.
func as(t *testing.T, address, user, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

// asksForPasswords is the address of a database on a server that, but for postgres,
// lets nobody in without one, with the owner's as shipped before.
func asksForPasswords(t *testing.T) (address string) {
	t.Helper()
	hba := filepath.Join(t.TempDir(), "hba")
	if err := os.WriteFile(hba, []byte("local all all trust\nhost all postgres all trust\nhost all all all scram-sha-256\n"), 0o644); err != nil { //nolint:dupword // all databases, users and addresses
		t.Fatal(err)
	}
	for dir := filepath.Dir(hba); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) { // the server has a user of its own
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	address = servertest.Postgres(t, "hba_file="+hba).Database(t)
	run(t, address, "CREATE ROLE owner SUPERUSER LOGIN PASSWORD 'results'")
	return as(t, address, "owner", "none")
}

// try runs statements and returns the first error.
func try(t *testing.T, address, sql string) error {
	t.Helper()
	conn, err := connect(t.Context(), address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(t.Context()) }()
	_, err = conn.Exec(t.Context(), sql)
	return err
}

func run(t *testing.T, address, sql string) {
	t.Helper()
	if err := try(t, address, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Servers and exporters have roles of their own, with no right but the one they need,
// and the password that was shipped ends with the first start.
func TestRoles(t *testing.T) {
	t.Parallel()
	owner := asksForPasswords(t)
	roles := Roles{Owner: "new", Reader: "r", Monitor: "m", Before: "wrong"}
	if _, err := roles.Set(t.Context(), owner); !errors.Is(err, ErrPassword) {
		t.Fatalf("got %v, want %v", err, ErrPassword)
	}
	roles.Before = "results"
	if renewed, err := roles.Set(t.Context(), owner); err != nil || !renewed {
		t.Fatalf("got %t and %v, want the old password to be renewed", renewed, err)
	}
	if err := try(t, as(t, owner, "owner", "results"), "SELECT"); !wrongPassword(err) {
		t.Errorf("got %v for the password that was shipped", err)
	}
	g, err := results.NewGenerator(1, 300)
	if err != nil {
		t.Fatal(err)
	}
	owner = as(t, owner, "owner", "new")
	if _, err := Seed(t.Context(), owner, g, nil); err != nil {
		t.Fatal(err)
	}
	if renewed, err := roles.Set(t.Context(), owner); err != nil || renewed { // over tables that are there
		t.Fatalf("got %t and %v", renewed, err)
	}
	reader, monitor := as(t, owner, Reader, "r"), as(t, owner, Monitor, "m")
	store, err := Open(t.Context(), config(reader))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Lookup(t.Context(), 7); err != nil {
		t.Errorf("a look-up by the reader: %v", err)
	}
	run(t, reader, "SELECT FROM results.corrections; SELECT origin FROM results.data_set")
	run(t, monitor, "SELECT pid, query FROM pg_stat_activity; SELECT pg_database_size(current_database()); SHOW data_directory")
	for _, sql := range []string{
		"UPDATE results.students SET code = 'changed1'", "DELETE FROM results.corrections", "CREATE TABLE results.mine ()", "CREATE SCHEMA mine",
		"CREATE TEMPORARY TABLE mine ()", "SELECT * FROM pg_authid", "SELECT pg_read_file('PG_VERSION')", "COPY (SELECT) TO PROGRAM 'true'",
		"CREATE ROLE mine", "ALTER ROLE owner PASSWORD 'x'",
	} {
		for _, role := range []string{reader, monitor} {
			if try(t, role, sql) == nil {
				t.Errorf("%s may %s", role, sql)
			}
		}
	}
	for _, table := range []string{"students", "natural_results", "corrections", "data_set"} {
		if try(t, monitor, "SELECT FROM results."+table) == nil {
			t.Errorf("the monitoring role may read %s", table)
		}
	}
}
