package servertest

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MariaDBServer is a MariaDB in which root has no password.
type MariaDBServer struct {
	*Process

	addr string
}

// MariaDB starts a MariaDB with further arguments for it, and an empty database named test.
func MariaDB(tb testing.TB, args ...string) *MariaDBServer {
	tb.Helper()
	program := lookUp("mariadbd", "mysqld")
	if program == "" {
		Missing(tb, "MariaDB is not installed: apt-get install mariadb-server")
	}
	dir, host := tb.TempDir(), Host()
	data, socket := filepath.Join(dir, "data"), filepath.Join(dir, "s")
	s := &MariaDBServer{addr: net.JoinHostPort(host, "3306")}
	account := []string{}
	if os.Geteuid() == 0 {
		account = append(account, "--user=root") // it refuses root that does not say so
	}
	install := exec.CommandContext(tb.Context(), "mariadb-install-db", append([]string{
		"--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
	}, account...)...)
	install.Env = []string{"PATH=" + searched, "HOME=" + dir, "TMPDIR=" + dir}
	if err := run(install); err != nil {
		tb.Fatal(err)
	}
	// Root is let in from the machine itself, whatever the address is called.
	start := filepath.Join(dir, "init.sql")
	writef(tb, start, "CREATE USER IF NOT EXISTS root@'%%';\nGRANT ALL ON *.* TO root@'%%';\nCREATE DATABASE IF NOT EXISTS test;\n")
	s.Process = New(tb, Program{
		Command: append(append([]string{
			program, "--no-defaults", "--datadir=" + data, "--socket=" + socket, "--pid-file=" + filepath.Join(dir, "pid"), "--tmpdir=" + dir,
			"--bind-address=" + host, "--port=3306", "--skip-name-resolve", "--init-file=" + start,
			// Small, and what was committed survives a Kill.
			"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=2", "--skip-innodb-doublewrite", "--performance-schema=OFF",
		}, account...), args...),
		Env: []string{"PATH=" + searched, "HOME=" + dir}, Dir: dir, Log: filepath.Join(dir, "log"), Crash: syscall.SIGKILL, Ready: s.ready,
	})
	s.Start()
	return s
}

// searched is a PATH with what packages put where only an administrator looks.
const searched = "/usr/sbin:/usr/bin:/sbin:/bin"

// lookUp is the file of the first of some programs that there is, or empty.
func lookUp(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		for _, dir := range filepath.SplitList(searched) {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
				return filepath.Join(dir, name)
			}
		}
	}
	return ""
}

// Address is the address of the database test, for root.
func (s *MariaDBServer) Address() string { return "mysql://root@" + s.addr + "/test" }

// ready asks it something: it takes connections before it answers.
func (s *MariaDBServer) ready(ctx context.Context) error {
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.DBName = "tcp", s.addr, "root", "test"
	c.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}
