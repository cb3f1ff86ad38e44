package cli

import (
	"encoding/csv"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBundleAndExport(t *testing.T) {
	dir := t.TempDir()
	if got := loadstone(t, dir, "results", "seed", "--store", "sqlite:r.db", "--students", "500"); got.code != exitOK {
		t.Fatal(got.stderr)
	}
	exported := loadstone(t, dir, "results", "export", "--from", "sqlite:r.db", "--to", "tree", "--key-file", "tree.key", "--iterations", "10")
	if exported.code != exitOK || !strings.Contains(exported.stdout, "500 students in tree: 1000 files written") {
		t.Fatalf("exit status %d: %s%s", exported.code, exported.stdout, exported.stderr)
	}
	if again := loadstone(t, dir, "results", "export", "--from", "sqlite:r.db", "--to", "tree", "--key-file", "tree.key", "--iterations", "10"); again.code != exitOK || !strings.Contains(again.stdout, "nothing to do") {
		t.Errorf("a second export: %d, %s%s", again.code, again.stdout, again.stderr)
	}
	if info, err := os.Stat(filepath.Join(dir, "tree.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v; want it to be its owner's alone", info, err)
	}

	// A school that is there is named in what is said about one that is not.
	wrong := loadstone(t, dir, "results", "bundle", "--from", "sqlite:r.db", "--school", "Nowhere School", "--out", "b", "--address", "https://r.example.org")
	if wrong.code != exitUsage || !strings.Contains(wrong.stderr, "Nowhere School") {
		t.Fatalf("exit status %d: %s", wrong.code, wrong.stderr)
	}
	school := someSchool(t, dir)
	got := loadstone(t, dir, "results", "bundle", "--from", "sqlite:r.db", "--school", school[0], "--region", school[1], "--out", "b",
		"--address", "https://r.example.org", "--link-base", "https://cdn.example.org/r/", "--key-file", "tree.key", "--iterations", "10")
	if got.code != exitOK {
		t.Fatalf("exit status %d: %s", got.code, got.stderr)
	}
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	file, err := os.Open(filepath.Join(dir, lines[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	last := rows[1][len(rows[1])-1]
	path, ok := strings.CutPrefix(last, "https://cdn.example.org/r/")
	if !ok {
		t.Fatalf("a student's link is %q", last)
	}
	if _, err := os.Stat(filepath.Join(dir, "tree", path)); err != nil {
		t.Errorf("the link leads nowhere in the tree: %v", err)
	}
}

// TestDump has what it wrote imported again: the same students with the same codes.
func TestDump(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"seed", "--store", "sqlite:a.db", "--students", "300"},
		{"dump", "--from", "sqlite:a.db", "--to", "a.csv"},
		{"import", "a.csv", "--store", "sqlite:b.db"},
		{"dump", "--from", "sqlite:b.db", "--to", "b.csv"},
	} {
		if got := loadstone(t, dir, append([]string{"results"}, args...)...); got.code != exitOK {
			t.Fatalf("%v: exit status %d: %s", args, got.code, got.stderr)
		}
	}
	a, err := os.ReadFile(filepath.Join(dir, "a.csv"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "b.csv"))
	if err != nil || string(a) != string(b) || strings.Count(string(a), "\n") != 301 {
		t.Errorf("%d and %d bytes, %v; want 301 lines, the same", len(a), len(b), err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a.csv")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v; want it to be its owner's alone", info, err)
	}
	if got := loadstone(t, dir, "results", "dump", "--from", "sqlite:a.db", "--to", "-"); got.code != exitOK || got.stdout != string(a) {
		t.Errorf("to the standard output: status %d, %s, and %d bytes, want %d", got.code, got.stderr, len(got.stdout), len(a))
	}
	if got := loadstone(t, dir, "results", "dump", "--from", "sqlite:a.db"); got.code != exitUsage {
		t.Errorf("without --to: exit status %d, want %d", got.code, exitUsage)
	}
}

// someSchool returns a school of the database and its region.
func someSchool(t *testing.T, dir string) [2]string {
	t.Helper()
	var found [2]string
	err := filepath.WalkDir(filepath.Join(dir, "tree"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || found[0] != "" || !strings.HasSuffix(path, ".json") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		field := func(name string) string {
			_, rest, _ := strings.Cut(string(data), `"`+name+`":"`)
			value, _, _ := strings.Cut(rest, `"`)
			return value
		}
		found = [2]string{field("school"), field("region")}
		return nil
	})
	if err != nil || found[0] == "" {
		t.Fatalf("no school found: %v", err)
	}
	return found
}

// A system that is started again must not replace the students that somebody has
// imported, whatever it is told to begin with.
func TestSeedKeepsImportedStudents(t *testing.T) {
	dir := t.TempDir()
	example := loadstone(t, dir, "results", "import", "--example")
	if err := os.WriteFile(filepath.Join(dir, "students.csv"), []byte(example.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	seed := func(want string, args ...string) {
		t.Helper()
		got := loadstone(t, dir, append([]string{"results", "seed", "--store", "sqlite:r.db", "--students", "50"}, args...)...)
		if got.code != exitOK || !strings.Contains(got.stdout, want) {
			t.Fatalf("seed %v: exit status %d, %s%s; want %q", args, got.code, got.stdout, got.stderr, want)
		}
	}
	seed("holds seed 1, 50 students", "--keep-imported", "--csv", "")
	seed("holds seed 2, 50 students", "--keep-imported", "--seed", "2") // made up, so it may go
	seed("holds students.csv", "--keep-imported", "--csv", "students.csv")
	seed("they are kept", "--keep-imported")
	seed("they are kept", "--keep-imported", "--csv", "students.csv")
	seed("holds seed 1, 50 students") // as asked

	// What cannot be read may be somebody's students.
	whole, err := os.ReadFile(filepath.Join(dir, "r.db"))
	if err != nil {
		t.Fatal(err)
	}
	const version = 63 // the last byte of SQLite's user_version
	newer := append([]byte(nil), whole...)
	newer[version]++
	for what, data := range map[string][]byte{"of a newer version": newer, "damaged": whole[:len(whole)/2]} {
		if err := os.WriteFile(filepath.Join(dir, "r.db"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		got := loadstone(t, dir, "results", "seed", "--store", "sqlite:r.db", "--students", "50", "--keep-imported")
		if after, err := os.ReadFile(filepath.Join(dir, "r.db")); err != nil || string(after) != string(data) || got.code != exitFailed || !strings.Contains(got.stderr, "nothing was changed") {
			t.Errorf("a file %s: exit status %d, %s%s, changed: %t, %v", what, got.code, got.stdout, got.stderr, string(after) != string(data), err)
		}
	}
}

func TestUnknownResultsCommand(t *testing.T) {
	got := loadstone(t, t.TempDir(), "results", "sede")
	if got.code != exitUsage || !strings.Contains(got.stderr, "write seed") {
		t.Errorf("exit status %d, %s; want 2 and what to write", got.code, got.stderr)
	}
	if got := loadstone(t, t.TempDir(), "results", "health", "--url", "ftp://x"); got.code != exitUsage {
		t.Errorf("health of ftp://x: exit status %d, want 2", got.code)
	}
}

func TestServeGuards(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"--limits maybe", "on or off"},
		{"--publish-at tomorrow", "--publish-at"},
		{"--proxy nonsense", "--proxy"},
	} {
		got := loadstone(t, dir, append([]string{"results", "serve", "--store", "snapshot:r.snapshot"}, strings.Fields(c.args)...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("serve %s: exit status %d, %s; want 2 and %q", c.args, got.code, got.stderr, c.want)
		}
	}

	_, guarded := startServe(t, "--access", "code")
	var last int
	for range 7 {
		last = statusOf(t, "http://"+guarded+"/student/1?code=WRONGWRONGWRONG")
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after seven wrong codes: status %d, want 429", last)
	}
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
