package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"loadstone/block/servertest"
	"loadstone/system/results"
	"loadstone/system/results/stores"
)

// Codes that an import has drawn are revoked when the same file is imported anew: nobody
// serves the old pages, from whatever cache, and copies are made again.
func TestImportedAnew(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{stores.Postgres, stores.SQLite} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			redis := "redis://" + servertest.Redis(t).Addr()
			store, drop := "sqlite:"+filepath.Join(dir, "r.db"), func() error { return os.Remove(filepath.Join(dir, "r.db")) }
			if kind == stores.Postgres {
				store = servertest.Postgres(t).Database(t)
				drop = func() error {
					conn, err := pgx.Connect(t.Context(), store)
					if err != nil {
						return err
					}
					defer conn.Close(t.Context())
					_, err = conn.Exec(t.Context(), "DROP SCHEMA results CASCADE")
					return err
				}
			}
			correctionFile(t, filepath.Join(dir, "students.csv"), "Somebody", 7, 8, 9)
			fill := func() string {
				said(t, dir, "import students.csv --store "+store, exitOK, "holds students.csv")
				said(t, dir, "import students.csv --store "+store, exitOK, "already holds students.csv")
				said(t, dir, "preload --store "+store+" --redis "+redis, exitOK, "3 written")
				said(t, dir, "preload --store "+store+" --redis "+redis, exitOK, "nothing to do")
				said(t, dir, "publish --from "+store+" --to snapshot:r.snapshot", exitOK, "snapshot:r.snapshot holds students.csv")
				said(t, dir, "publish --from "+store+" --to snapshot:r.snapshot", exitOK, "nothing to do")
				said(t, dir, "export --from "+store+" --to tree --key-file key --iterations 10", exitOK, "3 students in tree: 6 files written")
				said(t, dir, "export --from "+store+" --to tree --key-file key --iterations 10", exitOK, "nothing to do")
				return codeOf(t, store, 7)
			}
			serves := func(address, code string) bool {
				status := statusOf(t, address+"/student/7?code="+code)
				if status != http.StatusOK && status != http.StatusNotFound && status != http.StatusServiceUnavailable {
					t.Errorf("status %d", status)
				}
				return status == http.StatusOK
			}
			start := func(name string) string {
				own := filepath.Join(dir, name)
				if err := os.Mkdir(own, 0o700); err != nil {
					t.Fatal(err)
				}
				return serving(t, own, "--limits", "off", "--cache", "memory+redis", "--store", store, "--redis", redis)
			}
			old := fill()
			running := start("running")
			eventually(t, "the first code", func() bool { return serves(running, old) })
			if err := drop(); err != nil {
				t.Fatal(err)
			}
			if kind == stores.Postgres { // which says that it holds nothing
				eventually(t, "nothing of what is gone", func() bool { return !serves(running, old) })
			}
			code := fill()
			fresh := start("fresh")
			eventually(t, "the new code, from a server that runs", func() bool { return serves(running, code) })
			eventually(t, "the new code, from a new server", func() bool { return serves(fresh, code) })
			for _, address := range []string{running, fresh} {
				if serves(address, old) || old == code {
					t.Errorf("%s: the code of the import before, %s, opens the result; now it is %s", address, old, code)
				}
			}
		})
	}
}

// codeOf is a student's access code in a database.
func codeOf(t *testing.T, store string, id int64) (code string) {
	t.Helper()
	name, err := stores.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	err = name.Read(t.Context(), func(db results.Database) error {
		for student, err := range db.All(t.Context()) {
			if err != nil {
				return err
			}
			if student.ID == id {
				code = student.Code
			}
		}
		return nil
	})
	if err != nil || code == "" {
		t.Fatal(fmt.Errorf("student %d has no code: %w", id, err))
	}
	return strings.TrimSpace(code)
}
