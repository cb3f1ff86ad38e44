package activitytest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a process of a database that a test started and may kill. It is gone
// when the test ends, and by the kernel's doing when the test's process is.
type Server struct {
	// Host is a loopback address that only this test process uses.
	Host string

	t       testing.TB
	address string // host:port
	// ready returns nil when it answers questions.
	ready func(ctx context.Context) error
	// crash ends it and all its processes without a chance to save anything.
	crash   syscall.Signal
	command func(ctx context.Context) *exec.Cmd
	cmd     *exec.Cmd
	log     string
}

// startWithin bounds the start of a database: 20 s for Cassandra on an idle
// machine, and more while other tests run.
const startWithin = 3 * time.Minute

// host is a loopback address made of our process id, which has 22 bits at most: a
// free port found beforehand could be somebody else's a moment later.
func host() string {
	pid := os.Getpid()
	return net.IPv4(127, byte(192+pid>>16), byte(pid>>8), byte(pid)).String()
}

// missing skips the test, or fails it where everything has to be there.
func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("CI") == "true" { //nolint:forbidigo // only tests call this
		tb.Fatal(what)
	}
	tb.Skip(what)
}

// newest is the last of what matches, as text; "" if nothing does.
func newest(pattern string) string {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

// Start starts the server, the first time or after Kill, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	s.cmd = s.command(context.Background())
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), startWithin)
	defer cancel()
	for {
		err := s.ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			text, _ := os.ReadFile(s.log)
			s.t.Fatalf("nothing answers at %s: %v\n%s", s.address, err, text[max(0, len(text)-4000):])
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kill ends the server at once and waits until it is gone.
func (s *Server) Kill() {
	s.t.Helper()
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Signal(s.crash); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	_ = s.cmd.Wait() // it was killed
	s.cmd = nil
}

// account is who the server runs as: PostgreSQL refuses root, and comes with an
// account of its own.
func account(tb testing.TB) *syscall.Credential {
	tb.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		missing(tb, "PostgreSQL does not run as root, and there is no account postgres")
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		tb.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// Postgres starts a PostgreSQL with the settings given, such as "fsync=off", and
// returns it with the address of a database.
func Postgres(tb testing.TB, settings ...string) (*Server, string) {
	tb.Helper()
	program := newest("/usr/lib/postgresql/*/bin/postgres")
	if program == "" {
		missing(tb, "PostgreSQL is not installed: no /usr/lib/postgresql/*/bin; apt-get install postgresql")
	}
	dir, err := os.MkdirTemp("/tmp", "activitytest") //nolint:usetesting // open to all, so that the server's account gets there
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	credential := account(tb)
	if credential != nil {
		if err := os.Chown(dir, int(credential.Uid), int(credential.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	run := func(ctx context.Context, name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Credential: credential}
		return cmd
	}
	data := filepath.Join(dir, "data")
	initdb := run(tb.Context(), filepath.Join(filepath.Dir(program), "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
	if out, err := initdb.CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v\n%s", err, out)
	}
	// Its own immediate shutdown: SIGKILL would leave its children for a moment,
	// and it does not start beside them. It recovers from either in the same way.
	s := &Server{Host: host(), t: tb, log: filepath.Join(dir, "log"), crash: syscall.SIGQUIT}
	s.address = net.JoinHostPort(s.Host, "5432")
	url := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", s.address)
	s.ready = func(ctx context.Context) error { // it takes connections before it answers
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
	args := []string{"-D", data, "-c", "listen_addresses=" + s.Host, "-c", "unix_socket_directories=" + dir}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.command = func(ctx context.Context) *exec.Cmd { return run(ctx, program, args...) }
	tb.Cleanup(s.Kill)
	s.Start()
	return s, url
}

// cassandraSettings are what differs from the program's own defaults. Sync is the
// setting of the commit log.
const cassandraSettings = `
cluster_name: test
num_tokens: 4
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: %[1]s
rpc_address: %[1]s
%[3]s
commitlog_directory: %[2]s/commitlog
saved_caches_directory: %[2]s/saved_caches
hints_directory: %[2]s/hints
cdc_raw_directory: %[2]s/cdc_raw
data_file_directories: [%[2]s/data]
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters: [{seeds: %[1]s}]
`

// Cassandra starts a node of its own cluster and returns it. Sync is the lines of
// its configuration about the commit log, such as "commitlog_sync: batch".
func Cassandra(tb testing.TB, sync string) *Server {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	program := newest(filepath.Join(cache, "loadstone", "cassandra-*", "bin", "cassandra-node"))
	if program == "" {
		missing(tb, "Cassandra is not there; get it with `make deps`")
	}
	dir := tb.TempDir()
	s := &Server{Host: host(), t: tb, log: filepath.Join(dir, "log"), crash: syscall.SIGKILL}
	s.address = net.JoinHostPort(s.Host, "9042")
	s.ready = func(ctx context.Context) error { // it takes connections when it has joined
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", s.address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	if err := os.WriteFile(filepath.Join(dir, "cassandra.yaml"), fmt.Appendf(nil, cassandraSettings, s.Host, dir, sync), 0o644); err != nil {
		tb.Fatal(err)
	}
	s.command = func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program, "-Xms384m", "-Xmx384m", "-Djava.io.tmpdir="+dir, "-Djna.tmpdir="+dir,
			"-Dcassandra.config=file://"+filepath.Join(dir, "cassandra.yaml"), "-Dcassandra.storagedir="+dir, "-Dcassandra.logdir="+filepath.Join(dir, "logs"),
			// No other node is waited for, and nobody manages this one.
			"-Dcassandra.skip_wait_for_gossip_to_settle=0", "-Dcassandra.ring_delay_ms=1000")
		cmd.Dir, cmd.Env = dir, []string{"PATH=/usr/bin:/bin", "CASSANDRA_CONF=" + dir, "HOME=" + dir, "XDG_CACHE_HOME=" + dir}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	tb.Cleanup(s.Kill)
	s.Start()
	return s
}
