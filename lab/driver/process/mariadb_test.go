package process

import (
	"os"
	"strings"
	"testing"
)

const mariadbCompose = `
services:
  db:
    image: mariadb:10.11
    environment:
      MARIADB_ROOT_PASSWORD_FILE: /run/root
      MARIADB_DATABASE: sh_op
      MARIADB_USER: owner
      MARIADB_PASSWORD: "s3cret '\\"
    command: [mariadbd, --max-connections=17, --innodb-buffer-pool-size=16M, --innodb-log-file-size=8M]
    volumes: [data:/var/lib/mysql, ./root:/run/root:ro]
    healthcheck: {test: [CMD, mariadb-admin, ping, -h, "${BIND_HOST:-127.0.0.1}"], interval: 1s, retries: 300}
volumes: {data: {}}
`

func TestMariaDBIsAsItsImage(t *testing.T) {
	installed(t, "mariadb")
	c := config(t, mariadbCompose)
	file(t, c, "root", "of all\n")
	c = open(t, c)
	query := func(host, user, password, sql string) (string, error) {
		return client(t, []string{"MYSQL_PWD=" + password}, "mariadb", "--no-defaults", "--connect-timeout=60", "-h", host, "-u", user, "-N", "-B", "-e", sql)
	}
	r := up(t, c)
	db := r.Instances()[0]
	if db.Port != 3306 {
		t.Errorf("got %+v", db)
	}
	if got, err := query(db.Host, "owner", `s3cret '\`, "USE sh_op; CREATE TABLE dish (name TEXT); INSERT INTO dish VALUES ('soup'); SELECT name FROM dish; SELECT @@max_connections"); got != "soup\n17" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := query(db.Host, "root", "of all", "SELECT COUNT(*) FROM sh_op.dish"); got != "1" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, who := range [][2]string{{"owner", "wrong"}, {"owner", ""}, {"root", ""}} {
		if got, err := query(db.Host, who[0], who[1], "SELECT 1"); err == nil || !strings.Contains(got, "denied") {
			t.Errorf("%s with %q: got %q, want it refused", who[0], who[1], got)
		}
	}
	// The user has its database alone, whose name has a character that stands for any other.
	if got, err := query(db.Host, "owner", `s3cret '\`, "CREATE DATABASE shXop"); err == nil {
		t.Errorf("the user made another database: %q", got)
	}
	down(t, r)
	wantNoDirs(t, os.Getpid())
	r = up(t, c)
	if got, err := query(r.Instances()[0].Host, "owner", `s3cret '\`, "SELECT name FROM sh_op.dish"); got != "soup" {
		t.Errorf("after a restart: got %q, %v", got, err)
	}
}

func TestMariaDBNeedsAPassword(t *testing.T) {
	installed(t, "mariadb")
	for environment, want := range map[string]string{
		"{}": "its data directory is empty and MARIADB_ROOT_PASSWORD is not set",
		"{MARIADB_ALLOW_EMPTY_ROOT_PASSWORD: 1, MYSQL_USER: owner}": "MARIADB_USER is set and MARIADB_PASSWORD is not",
	} {
		c := open(t, config(t, "services: {db: {image: mariadb, environment: "+environment+"}}\n"))
		if _, err := bringUp(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", environment, err)
		}
		wantNoDirs(t, os.Getpid())
	}
}
