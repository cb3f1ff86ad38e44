package recipe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	mariadbPort    = 3306
	mariadbData    = "/var/lib/mysql"
	mariadbScripts = "/docker-entrypoint-initdb.d"
)

// mariadb is one start of MariaDB.
type mariadb struct {
	*Instance

	data, socket string
	args         []string
}

// startMariaDB has the official image's contract: MARIADB_ROOT_PASSWORD, MARIADB_DATABASE, MARIADB_USER and
// MARIADB_PASSWORD (or *_FILE, and the same with MYSQL_), MARIADB_ALLOW_EMPTY_ROOT_PASSWORD, the command's
// arguments, and data in /var/lib/mysql. What it prepares, it prepares in an empty data directory only.
//
// It does not run scripts of /docker-entrypoint-initdb.d. It runs as the lab's own user: MariaDB refuses root only
// where nobody says that it is meant.
func startMariaDB(ctx context.Context, in *Instance) (*Process, error) {
	args, err := in.arguments([]string{"mariadbd", "mysqld"})
	if err != nil {
		return nil, err
	}
	m := &mariadb{Instance: in, args: in.pathFlags(args), socket: filepath.Join(in.Dir, "sock")}
	if len(m.socket) > longestSocket {
		return nil, fmt.Errorf("its socket, %s, has a path too long for the kernel; set TMPDIR to a shorter one", m.socket)
	}
	if _, ok := in.mounted(mariadbScripts); ok {
		in.Warnf("%s is not run: the recipe makes the database and the user of the variables alone", mariadbScripts)
	}
	if m.data, err = in.dataDir(mariadbData); err != nil {
		return nil, err
	}
	if err := m.prepare(ctx); err != nil {
		return nil, err
	}
	own := []string{"--bind-address=" + in.Host, "--socket=" + m.socket, "--pid-file=" + filepath.Join(in.Dir, "pid"), "--tmpdir=" + in.Dir}
	command := append(m.server(), "--skip-name-resolve")
	command = append(command, m.args...)
	return &Process{Command: append(command, own...), Env: map[string]string{"PATH": filepath.Dir(in.Files["mariadbd"]) + ":" + in.Path}}, nil
}

// server is how its command line begins; no file of the machine's is read.
func (m *mariadb) server() []string {
	command := []string{m.Files["mariadbd"], "--no-defaults", "--datadir=" + m.data}
	if os.Geteuid() == 0 && m.UID == 0 {
		command = append(command, "--user=root")
	}
	return command
}

// prepare makes the data directory if it is empty. One whose making was cut off is made again.
func (m *mariadb) prepare(ctx context.Context) error {
	marker := m.data + ".initialising"
	_, err := os.Stat(marker)
	cutOff := err == nil
	entries, err := os.ReadDir(m.data)
	if err != nil {
		return err
	}
	if len(entries) > 0 && !cutOff {
		return nil
	}
	statements, err := m.statements()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(m.data, e.Name())); err != nil {
			return err
		}
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return err
	}
	install, err := m.installer()
	if err != nil {
		return err
	}
	command := []string{install, "--no-defaults", "--datadir=" + m.data, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"}
	if os.Geteuid() == 0 && m.UID == 0 {
		command = append(command, "--user=root")
	}
	env := map[string]string{"PATH": filepath.Dir(m.Files["mariadbd"]) + ":" + m.Path, "TMPDIR": m.Dir}
	if err := m.Run(ctx, Step{Command: command, Env: env}); err != nil {
		return fmt.Errorf("make its data directory: %w", err)
	}
	// A server that only reads statements from its standard input, and that nobody can reach.
	bootstrap := append(m.server(), "--bootstrap", "--tmpdir="+m.Dir)
	if err := m.Run(ctx, Step{Command: bootstrap, Stdin: strings.NewReader(statements), Env: env}); err != nil {
		return fmt.Errorf("make its users: %w", err)
	}
	return os.Remove(marker)
}

// installer is the program that makes a data directory, which packages put elsewhere than the server.
func (m *mariadb) installer() (string, error) {
	const name = "mariadb-install-db"
	for dir := range strings.SplitSeq(filepath.Dir(m.Files["mariadbd"])+":/usr/bin:"+m.Path, ":") {
		if file := filepath.Join(dir, name); runnable(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("the program %s, which makes its data directory, is not there: %w", name, exec.ErrNotFound)
}

// variable is that of one of the names that the image takes.
func (m *mariadb) variable(name string) (string, error) {
	own, errOwn := m.setting("MARIADB_" + name)
	other, errOther := m.setting("MYSQL_" + name)
	return cmp.Or(own, other), errors.Join(errOwn, errOther)
}

// statements make the root's password, the database and its user; one on each line, as a server that is being
// made reads them.
func (m *mariadb) statements() (string, error) {
	values := map[string]string{}
	for _, name := range []string{"ROOT_PASSWORD", "ALLOW_EMPTY_ROOT_PASSWORD", "DATABASE", "USER", "PASSWORD"} {
		value, err := m.variable(name)
		if err != nil {
			return "", err
		}
		if strings.ContainsAny(value, "\n\r\x00") {
			return "", fmt.Errorf("MARIADB_%s has more than one line", name)
		}
		values[name] = value
	}
	switch {
	case values["ROOT_PASSWORD"] == "" && values["ALLOW_EMPTY_ROOT_PASSWORD"] == "":
		return "", errors.New("its data directory is empty and MARIADB_ROOT_PASSWORD is not set; set a password, or MARIADB_ALLOW_EMPTY_ROOT_PASSWORD=1 to allow access without one")
	case values["USER"] != "" && values["PASSWORD"] == "":
		return "", errors.New("MARIADB_USER is set and MARIADB_PASSWORD is not; set a password")
	}
	var b strings.Builder
	line := func(format string, texts ...any) { fmt.Fprintf(&b, format+";\n", texts...) }
	// Those that were made with it need no password, as the image has none of them.
	line("DELETE FROM mysql.global_priv WHERE User IN ('root', '')")
	line("FLUSH PRIVILEGES") // else there are no users yet
	root := sqlText(values["ROOT_PASSWORD"])
	line("CREATE USER 'root'@'localhost' IDENTIFIED BY %s", root)
	line("CREATE USER 'root'@'%%' IDENTIFIED BY %s", root)
	line("GRANT ALL ON *.* TO 'root'@'localhost' WITH GRANT OPTION")
	line("GRANT ALL ON *.* TO 'root'@'%%' WITH GRANT OPTION")
	database := "`" + strings.ReplaceAll(values["DATABASE"], "`", "``") + "`"
	if values["DATABASE"] != "" {
		line("CREATE DATABASE IF NOT EXISTS %s", database)
	}
	if user := values["USER"]; user != "" {
		line("CREATE OR REPLACE USER %s@'%%' IDENTIFIED BY %s", sqlText(user), sqlText(values["PASSWORD"]))
		if values["DATABASE"] != "" {
			line("GRANT ALL ON %s.* TO %s@'%%'", strings.ReplaceAll(database, "_", `\_`), sqlText(user))
		}
	}
	return b.String(), nil
}

// sqlText is a text as it is written in a statement.
func sqlText(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(text) + "'"
}
