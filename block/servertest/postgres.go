package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// binaries is where Debian and Ubuntu put PostgreSQL's programs of each version. 9.6
// sorts after 15 as text, but has been out of support for years.
const binaries = "/usr/lib/postgresql/*/bin"

// errNotInstalled is why a test is skipped.
var errNotInstalled = errors.New("PostgreSQL is not installed: no " + binaries + "; apt-get install postgresql")

// PostgresProgram is the path of one of PostgreSQL's programs, such as psql, of the
// newest version installed.
func PostgresProgram(name string) (string, error) {
	if path := newest(filepath.Join(binaries, name)); path != "" {
		return path, nil
	}
	return "", errNotInstalled
}

// PostgresServer is a PostgreSQL that trusts everybody.
type PostgresServer struct {
	*Process

	dir       string
	address   string
	account   *syscall.Credential
	databases atomic.Int64
}

// Postgres starts a PostgreSQL for one test, which may kill it, with further settings
// such as "fsync=on". Without one it syncs nothing.
func Postgres(tb testing.TB, settings ...string) *PostgresServer {
	tb.Helper()
	s, err := newPostgres(tb.Context(), settings)
	needPostgres(tb, err)
	s.tb = tb
	tb.Cleanup(func() {
		if err := s.remove(); err != nil {
			tb.Error(err)
		}
	})
	s.Start()
	return s
}

// shared is the server of this test's program. It is a global because the tests of
// a package have nothing else in common; Main owns it.
var shared struct { //nolint:gochecknoglobals // see above
	sync.Mutex
	server *PostgresServer
	err    error
}

// Main runs the tests and then stops the shared server, whatever came out. Call it
// from TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(servertest.Main(m.Run)) }
func Main(run func() int) (code int) {
	defer func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.server == nil {
			return
		}
		if err := shared.server.remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return run()
}

// SharedPostgres returns the server that the tests of a package share, and starts it
// if it does not run yet. The package's TestMain calls Main. Nobody may kill it.
func SharedPostgres(tb testing.TB) *PostgresServer {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = startShared()
	}
	needPostgres(tb, shared.err)
	return shared.server
}

func startShared() (*PostgresServer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s, err := newPostgres(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), s.remove())
	}
	return s, nil
}

// Database makes an empty database on the shared server and returns its address.
func Database(tb testing.TB) string {
	tb.Helper()
	return SharedPostgres(tb).Database(tb)
}

func needPostgres(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errNotInstalled) {
		Missing(tb, err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// newPostgres makes a data directory and returns its server, which does not run yet.
func newPostgres(ctx context.Context, settings []string) (_ *PostgresServer, err error) {
	program, err := PostgresProgram("postgres")
	if err != nil {
		return nil, err
	}
	host := Host()
	s := &PostgresServer{address: net.JoinHostPort(host, "5432")}
	if s.account, err = postgresAccount(); err != nil {
		return nil, err
	}
	// The directory itself is open to all, so the server's account gets there.
	if s.dir, err = os.MkdirTemp("", "servertest"); err != nil {
		return nil, fmt.Errorf("make a directory for PostgreSQL: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
	}()
	if s.account != nil {
		if err := os.Chown(s.dir, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return nil, fmt.Errorf("give PostgreSQL its directory: %w", err)
		}
	}
	if err := s.fill(ctx, filepath.Dir(program)); err != nil {
		return nil, fmt.Errorf("make PostgreSQL's data directory: %w", err)
	}
	command := []string{program, "-D", filepath.Join(s.dir, dataName)}
	for _, setting := range append([]string{
		"listen_addresses=" + host, "unix_socket_directories=" + s.dir,
		// What is written need not survive the machine, but what was committed survives a Kill.
		"fsync=off", "full_page_writes=off",
		"shared_buffers=256MB", "max_wal_size=4GB",
	}, settings...) {
		command = append(command, "-c", setting)
	}
	s.Process = newProcess(Program{
		Command: command, Env: postgresEnv, Dir: s.dir, Log: filepath.Join(s.dir, "log"), Account: s.account,
		// Its own immediate shutdown: SIGKILL would leave its children for a moment,
		// and it does not start beside them. It recovers from either in the same way.
		Crash: syscall.SIGQUIT, Ready: s.ready,
	})
	return s, nil
}

var postgresEnv = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}

// postgresAccount is who the server runs as: root is refused by PostgreSQL, which
// comes with an account of its own.
func postgresAccount() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("account postgres: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

const dataName = "data"

// fill makes the data directory. Initdb takes a second of processor time, and what it
// makes is the same each time: so an archive of it is kept in the user's cache, where
// `make deps` puts its programs, for all later servers.
func (s *PostgresServer) fill(ctx context.Context, bin string) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	archives := filepath.Join(cache, "loadstone", "servertest")
	if err := os.MkdirAll(archives, 0o700); err != nil {
		return err
	}
	// Data directories of one major version are alike.
	archive := filepath.Join(archives, "postgresql-"+filepath.Base(filepath.Dir(bin))+".tar")
	if _, err := os.Stat(archive); err == nil {
		return run(exec.CommandContext(ctx, "tar", "-C", s.dir, "-xpf", archive))
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", filepath.Join(s.dir, dataName), "-A", "trust",
		"-U", "postgres", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
	initdb.Dir, initdb.Env = s.dir, postgresEnv
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	if err := run(initdb); err != nil {
		return err
	}
	// Renamed when it is whole: others may do the same meanwhile.
	part := archive + "." + filepath.Base(s.dir)
	if err = run(exec.CommandContext(ctx, "tar", "-C", s.dir, "-cf", part, dataName)); err == nil {
		err = os.Rename(part, archive)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part)) // of which there may be nothing
	}
	return nil
}

func run(cmd *exec.Cmd) error {
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, output)
	}
	return nil
}

// ready connects: the server takes connections before it answers.
func (s *PostgresServer) ready(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// URL is the address of a database on the server.
func (s *PostgresServer) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable&connect_timeout=60", s.address, database)
}

// Database makes an empty database on the server and returns its address. It is
// dropped when the test ends, if the server still answers.
func (s *PostgresServer) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	if err := s.execute("CREATE DATABASE " + name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// A server that the test has stopped keeps it; the directory goes anyway.
		var unreachable *pgconn.ConnectError
		if err := s.execute("DROP DATABASE " + name + " WITH (FORCE)"); err != nil && !errors.As(err, &unreachable) {
			tb.Error(err)
		}
	})
	return s.URL(name)
}

func (s *PostgresServer) execute(statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// remove ends the server and removes its data.
func (s *PostgresServer) remove() error {
	if err := errors.Join(s.end(s.program.Crash), os.RemoveAll(s.dir)); err != nil {
		return fmt.Errorf("remove PostgreSQL: %w", err)
	}
	return nil
}
