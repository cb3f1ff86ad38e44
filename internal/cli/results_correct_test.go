package cli

import (
	"encoding/csv"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"loadstone/block/dataset"
	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/csvfile"
	"loadstone/system/results/resultstest"
)

// correctionFile writes rows of the students of `seed --students 1000` with another
// name, without their codes.
func correctionFile(t *testing.T, path, name string, ids ...int64) {
	t.Helper()
	source := resultstest.Generator(t, 1, 1000)
	var list []results.Student
	for _, id := range ids {
		s := source.Student(min(id, 1000))
		s.ID, s.Name = id, name
		list = append(list, s)
	}
	var text strings.Builder
	meta := dataset.Meta{Count: int64(len(list))}
	if err := csvfile.Write(t.Context(), &text, resultstest.List{Description: meta, Students: list}, nil); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := csv.NewWriter(file)
	for _, row := range rows {
		if err := out.Write(row[:len(row)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if out.Flush(); out.Error() != nil {
		t.Fatal(out.Error())
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// said runs a command and checks how it ended and all that it must have said.
func said(t *testing.T, dir, args string, code int, want ...string) {
	t.Helper()
	got := loadstone(t, dir, append([]string{"results"}, strings.Fields(args)...)...)
	output := got.stdout + got.stderr
	for _, text := range want {
		if !strings.Contains(output, text) {
			t.Errorf("loadstone results %s: want %q in:\n%s", args, text, output)
		}
	}
	if got.code != code || strings.Contains(output, "secret") {
		t.Errorf("loadstone results %s: exit status %d, want %d, and no password:\n%s", args, got.code, code, output)
	}
}

func TestCorrectSQLite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	correctionFile(t, filepath.Join(dir, "two.csv"), "Corrected", 7, 9)
	correctionFile(t, filepath.Join(dir, "unknown.csv"), "Corrected", 7, 5000)
	said(t, dir, "seed --students 1000 --store sqlite:r.db", exitOK)
	said(t, dir, "publish --from sqlite:r.db --to snapshot:r.snapshot", exitOK)
	said(t, dir, "correct unknown.csv --store sqlite:r.db", exitUsage, "unknown.csv:3: id is 5000, which no student has")
	said(t, dir, "publish --from sqlite:r.db --to snapshot:r.snapshot", exitOK, "nothing to do")
	said(t, dir, "correct two.csv --store sqlite:r.db", exitOK, "r.db: 2 of 2 students corrected; it is at revision 1", "within about a second", "results publish")
	said(t, dir, "correct two.csv --store sqlite:r.db", exitOK, "nothing changed; all of 2 students already had these results")
	said(t, dir, "seed --students 1000 --store sqlite:r.db", exitOK, "already holds")
	said(t, dir, "publish --from sqlite:r.db --to snapshot:r.snapshot", exitOK, "holds seed 1, 1000 students, revision 1 (")
	said(t, dir, "publish --from sqlite:r.db --to snapshot:r.snapshot", exitOK, "nothing to do")
	for args, want := range map[string]string{
		"correct two.csv --store snapshot:r.snapshot": "is never changed",
		"correct two.csv":                      "--store",
		"correct --store sqlite:r.db":          "takes 1 argument, and none is given",
		"correct none.csv --store sqlite:r.db": "none.csv",
		"correct - --store sqlite:r.db":        "standard input is empty",
	} {
		said(t, dir, args, exitUsage, want)
	}
}

// TestCorrectReachesServers: a correction reaches a running server that has the old
// page in memory and in Redis, of each kind of database, and whether Redis is there or not.
func TestCorrectReachesServers(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"postgres", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			redis := servertest.Redis(t)
			store := "sqlite:r.db"
			if kind == "postgres" {
				store = strings.Replace(servertest.Postgres(t).Database(t), "postgres@", "postgres:secret@", 1)
			}
			where := "redis://" + redis.Addr()
			correctionFile(t, filepath.Join(dir, "one.csv"), "Corrected Once", 7)
			correctionFile(t, filepath.Join(dir, "again.csv"), "Corrected Twice", 7)
			said(t, dir, "seed --students 1000 --store "+store, exitOK)
			said(t, dir, "preload --store "+store+" --redis "+where, exitOK, "1000 written")
			address := serving(t, dir, "--access", "open", "--cache", "memory+redis", "--store", store, "--redis", where)
			name := func(want string) func() bool {
				return func() bool { return strings.Contains(bodyAt(t, address+"/student/7"), want) }
			}
			source := resultstest.Generator(t, 1, 1000)
			eventually(t, "the old page", name(source.Student(7).Name))
			said(t, dir, "correct one.csv --store "+store, exitOK, "1 of 1 student corrected; it is at revision 1", "within about a second")
			eventually(t, "the first correction", name("Corrected Once"))
			redis.Kill()
			said(t, dir, "correct again.csv --store "+store, exitOK, "it is at revision 2")
			eventually(t, "the second correction", name("Corrected Twice"))
			redis.Start()
			// Redis is empty, and is filled with what was corrected.
			said(t, dir, "preload --store "+store+" --redis "+where, exitOK, "1000 written")
			if !name("Corrected Twice")() {
				t.Error("after a preload the page is an old one")
			}
		})
	}
}

// serving starts a server and returns its address.
func serving(t *testing.T, dir string, args ...string) string {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program,
		append([]string{"results", "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	var address string
	eventually(t, "the server's address", func() bool {
		text, _ := os.ReadFile(log.Name())
		_, rest, ok := strings.Cut(string(text), `"msg":"listening"`)
		if !ok {
			return false
		}
		_, rest, _ = strings.Cut(rest, `"address":"`)
		address, _, ok = strings.Cut(rest, `"`)
		return ok
	})
	return "http://" + address
}

// bodyAt is the body at an address, or nothing.
func bodyAt(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
