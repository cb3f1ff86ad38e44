package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL server. Its methods are for one goroutine at a time,
// but for Database and URL.
type Server struct {
	dir       string
	host      string
	port      int
	account   *syscall.Credential // nil to run as ourselves
	databases atomic.Int64

	postmaster *os.Process   // nil while it is stopped
	ended      chan struct{} // closed when the process has been waited for
}

// basePort is PostgreSQL's usual port. The address is our own, see address, so
// nobody else is on it.
const basePort = 5432

// start makes a data directory and starts a server on it. Number tells the
// servers of one process apart.
func start(ctx context.Context, number int) (_ *Server, err error) {
	if _, err := Program("postgres"); err != nil {
		return nil, err
	}
	s := &Server{host: address(), port: basePort + number}
	if s.account, err = account(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("/tmp", "pgtest"); err != nil {
		return nil, fmt.Errorf("make a directory for PostgreSQL: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
	}()
	// /tmp itself is open to all, so the server's account can get here.
	if s.account != nil {
		if err := os.Chown(s.dir, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return nil, fmt.Errorf("give PostgreSQL its directory: %w", err)
		}
	}
	cmd, err := s.command(ctx, "initdb", "-D", s.data(), "-A", "trust", "-U", "postgres",
		"--no-sync", "--encoding=UTF8", "--locale=C.UTF-8")
	if err != nil {
		return nil, err
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, output)
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// address is a loopback address that no other process with a test server has:
// it is made of our process id, which has 22 bits at most. A free port found
// beforehand could be somebody else's a moment later.
func address() string {
	pid := os.Getpid()
	return net.IPv4(127, byte(128+pid>>16), byte(pid>>8), byte(pid)).String()
}

// account is who the server runs as: root is refused by PostgreSQL, which comes
// with an account of its own.
func account() (*syscall.Credential, error) {
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

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// URL is the address of a database on the server.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", net.JoinHostPort(s.host, strconv.Itoa(s.port)), database)
}

func (s *Server) command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	path, err := Program(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}
	// SIGQUIT is PostgreSQL's immediate shutdown: the postmaster ends its
	// children at once. It is sent when the test binary dies.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT, Credential: s.account}
	return cmd, nil
}

// run starts the server and waits until it answers.
func (s *Server) run(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open PostgreSQL's log: %w", err)
	}
	// The server outlives ctx, which is for its start.
	cmd, err := s.command(context.WithoutCancel(ctx), "postgres", "-D", s.data(), "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses="+s.host, "-c", "unix_socket_directories="+s.dir,
		// What is written need not survive the machine.
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
		"-c", "shared_buffers=256MB", "-c", "max_wal_size=4GB")
	if err != nil {
		return errors.Join(err, log.Close())
	}
	cmd.Stdout, cmd.Stderr = log, log
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		// The death signal comes when the thread that started the process
		// ends; a locked thread lives as long as this goroutine.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in the log
		}
	}()
	err = errors.Join(<-started, log.Close())
	if err != nil {
		<-ended
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.postmaster, s.ended = cmd.Process, ended
	if err := s.wait(ctx); err != nil {
		text, _ := os.ReadFile(log.Name())
		return errors.Join(fmt.Errorf("wait for PostgreSQL: %w; its log: %s", err, text), s.signal(syscall.SIGQUIT))
	}
	return nil
}

// wait polls until the server answers a query.
func (s *Server) wait(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case <-s.ended:
			return fmt.Errorf("it ended: %w", err)
		case <-ticker.C:
		}
	}
}

// signal ends the server and waits until it has ended.
func (s *Server) signal(sig syscall.Signal) error {
	if s.postmaster == nil {
		return nil
	}
	err := s.postmaster.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-s.ended
	s.postmaster = nil
	return err
}

// Kill ends the server at once, as a crash would. Start brings it back.
func (s *Server) Kill() error { return s.signal(syscall.SIGQUIT) }

// Start starts the server again after Kill, on the same address with its data.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s.run(ctx)
}

// Pause stops all of the server's processes where they are: connections stay
// open and nothing answers. Resume lets them go on.
func (s *Server) Pause() error { return s.each(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() error { return s.each(syscall.SIGCONT) }

func (s *Server) each(sig syscall.Signal) error {
	children, err := s.children()
	if err != nil {
		return err
	}
	// The postmaster first: it must not notice that its children stop.
	for _, pid := range append([]int{s.postmaster.Pid}, children...) {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("signal PostgreSQL's process %d: %w", pid, err)
		}
	}
	return nil
}

func (s *Server) children() ([]int, error) {
	path := fmt.Sprintf("/proc/%d/task/%d/children", s.postmaster.Pid, s.postmaster.Pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL's processes: %w", err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("PostgreSQL's processes: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// close ends the server and removes its data.
func (s *Server) close() error {
	if err := errors.Join(s.signal(syscall.SIGQUIT), os.RemoveAll(s.dir)); err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	return nil
}
