package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/servertest"
)

// Seeding, seeding again, seeding something else, importing and publishing, with a
// real PostgreSQL; no output shows the password.
func TestResultsOnPostgres(t *testing.T) {
	t.Parallel()
	server := servertest.Postgres(t)
	withPassword := func(url string) string { return strings.Replace(url, "postgres@", "postgres:secret@", 1) }
	seeded, imported := withPassword(server.Database(t)), withPassword(server.Database(t))
	dir := t.TempDir()
	example := loadstone(t, dir, "results", "import", "--example")
	if err := os.WriteFile(filepath.Join(dir, "four.csv"), []byte(example.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"seed --students 1000 --store " + seeded, exitOK, "holds seed 1, 1000 students ("},
		{"seed --students 1000 --store " + seeded, exitOK, "already holds seed 1, 1000 students; nothing to do"},
		{"seed --students 1001 --store " + seeded, exitFailed, "DROP SCHEMA results CASCADE"},
		{"import four.csv --store " + seeded, exitFailed, "it holds seed 1, 1000 students, not four.csv"},
		{"import four.csv --store " + imported, exitOK, "holds four.csv"},
		{"import four.csv --store " + imported, exitOK, "already holds four.csv"},
		{"publish --to snapshot:a.snapshot --from " + seeded, exitOK, "snapshot:a.snapshot holds seed 1, 1000 students"},
		{"publish --to snapshot:a.snapshot --from " + seeded, exitOK, "nothing to do"},
		{"seed --students 1000 --store snapshot:b.snapshot", exitOK, "holds seed 1"},
		{"publish --to snapshot:c.snapshot --from " + withPassword(server.URL("nothing")), exitFailed, "nothing"},
		{"seed --store postgres://u:secret@h:port/db", exitUsage, "--store"},
	} {
		got := loadstone(t, dir, append([]string{"results"}, strings.Fields(c.args)...)...)
		if output := got.stdout + got.stderr; got.code != c.code || !strings.Contains(output, c.want) || strings.Contains(output, "secret") {
			t.Errorf("loadstone results %s: exit status %d, want %d with %q and no password:\n%s", c.args, got.code, c.code, c.want, output)
		}
	}
	published, err := os.ReadFile(filepath.Join(dir, "a.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	if direct, err := os.ReadFile(filepath.Join(dir, "b.snapshot")); err != nil || string(direct) != string(published) {
		t.Errorf("the snapshot of the database differs from that of the generator: %v", err)
	}
}
