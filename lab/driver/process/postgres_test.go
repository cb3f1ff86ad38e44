package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func query(t *testing.T, host, password, sql string) (string, error) {
	t.Helper()
	return client(t, []string{"PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=60"}, "psql", "-h", host, "-U", "owner", "-d", "shop", "-Atc", sql)
}

// databaseConfig has its files and is loaded after they are there.
func databaseConfig(t *testing.T) setup {
	t.Helper()
	c := open(t, config(t, database))
	file(t, c, "password", "s3cret '\"\n")
	file(t, c, "init/1-tables.sql", "create table dish (name text); insert into dish values ('soup');")
	file(t, c, "init/2-more.sh", "psql -v ON_ERROR_STOP=1 -U \"$POSTGRES_USER\" -d \"$POSTGRES_DB\" <<-END\n\tinsert into dish values ('bread');\n\tEND\n")
	file(t, c, "init/README", "not run")
	return c
}

func TestPostgresIsAsItsImage(t *testing.T) {
	installed(t, "postgres")
	c := databaseConfig(t)
	r := up(t, c)
	db := r.Instances()[0]
	if db.Port != 5432 || db.LimitCPUs != 1.5 {
		t.Errorf("got %+v", db)
	}
	warnings := strings.Join(r.Warnings(), "|")
	if !strings.Contains(warnings, "the image is docker.io/library/postgres:11-alpine, but the installed version, postgres ") || !strings.Contains(warnings, "README is not run") {
		t.Errorf("got warnings %q", warnings)
	}
	if got, err := query(t, db.Host, `s3cret '"`, "select name from dish; show shared_buffers; show server_encoding"); got != "soup\nbread\n16MB\nUTF8" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, password := range []string{"wrong", ""} {
		if got, err := query(t, db.Host, password, "select 1"); err == nil || !strings.Contains(got, "password") {
			t.Errorf("password %q: got %q, want it refused", password, got)
		}
	}
	if got, err := query(t, db.Host, `s3cret '"`, "insert into dish values ('cake')"); err != nil {
		t.Errorf("insert: %q, %v", got, err)
	}
	if group := r.Group("db-1"); group != nil {
		// The postmaster and its helpers, each in a session of its own; they
		// come and go.
		eventually(t, "all of its processes are in its group", func() bool {
			pids, err := os.ReadFile(filepath.Join(group.Paths().CPU, "cgroup.procs"))
			n := len(strings.Fields(string(pids)))
			return err == nil && n >= 5 && n == len(cwdBelow(c.VolumeDir))
		})
	}
	down(t, r)
	log, err := os.ReadFile(filepath.Join(c.LogDir, "db-1.log"))
	if err != nil || !strings.Contains(string(log), "received fast shutdown request") || !strings.Contains(string(log), "database system is shut down") {
		t.Errorf("it was not stopped as its image is: %v\n%s", err, log)
	}
	wantNoDirs(t, os.Getpid())

	r = up(t, c)
	if got, err := query(t, r.Instances()[0].Host, `s3cret '"`, "select string_agg(name, ' ') from dish"); got != "soup bread cake" {
		t.Errorf("after a restart: got %q, %v", got, err)
	}
}

func TestPostgresBeginsAgainWhatWasCutOff(t *testing.T) {
	installed(t, "postgres")
	c := databaseConfig(t)
	file(t, c, "init/3-broken.sql", "insert into nothing values (1);")
	_, err := bringUp(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), "start db-1: run /docker-entrypoint-initdb.d/3-broken.sql: psql failed: exit status 3") || !strings.Contains(err.Error(), `relation "nothing" does not exist`) {
		t.Errorf("got %v", err)
	}
	wantNothingLeft(t, os.Getpid(), "")
	eventually(t, "no process is left in its directory", func() bool { return len(cwdBelow(c.VolumeDir)) == 0 })
	wantNoDirs(t, os.Getpid())
	if err := os.Remove(filepath.Join(c.System.Dir, "init/3-broken.sql")); err != nil {
		t.Fatal(err)
	}
	r := up(t, c)
	if got, err := query(t, r.Instances()[0].Host, `s3cret '"`, "select count(*) from dish"); got != "2" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestTwoDatabasesSideBySide(t *testing.T) {
	installed(t, "postgres")
	c := open(t, config(t, `
services:
  a: &db
    image: postgres
    environment: {POSTGRES_HOST_AUTH_METHOD: trust, POSTGRES_USER: owner, POSTGRES_DB: shop, POSTGRES_INITDB_ARGS: --no-sync}
    healthcheck: {test: [CMD-SHELL, pg_isready -U owner -d shop], interval: 1s, retries: 300}
    deploy: {replicas: 2}
`))
	r := up(t, c)
	for i, in := range r.Instances() {
		if got, err := query(t, in.Host, "", fmt.Sprintf("create table t as select %d as i; select i from t", i)); err != nil {
			t.Errorf("%s: got %q, %v", in.Name, got, err)
		}
	}
}

func TestPostgresNeedsAPassword(t *testing.T) {
	installed(t, "postgres")
	c := open(t, config(t, "services: {db: {image: postgres}}\n"))
	if _, err := bringUp(t.Context(), c); err == nil || !strings.Contains(err.Error(), "start db-1: its data directory is empty and POSTGRES_PASSWORD is not set") {
		t.Errorf("got %v", err)
	}
	wantNoDirs(t, os.Getpid())
}
