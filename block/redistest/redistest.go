// Package redistest starts a real redis-server for a test, in a temporary
// directory, on 127.0.0.1, and does to it what happens to servers: it is killed,
// restarted, stopped in the middle and emptied.
//
// It is not a client: Command is for tests to look and to meddle. The test owns
// the server; both end together, also when the test's process dies.
package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Binary is the server's name, and Package that of Debian's package with it.
const (
	Binary  = "redis-server"
	Package = "redis-server"
)

// startTimeout bounds a start: 0.1 s on an idle machine, more beside builds.
const startTimeout = 20 * time.Second

// commandTimeout bounds one Command; FLUSHALL of a full server is the longest.
const commandTimeout = 20 * time.Second

// Server is a redis-server that belongs to one test. Its methods end the test
// when they fail. They are for one goroutine at a time.
type Server struct {
	tb   testing.TB
	dir  string
	addr string
	args []string

	process *os.Process
	ended   chan struct{}
}

// Start starts a server without persistence, with further arguments for it as on
// its command line. Without the program the test is skipped, or fails if the
// environment has CI=true. The server ends with the test.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	if _, err := exec.LookPath(Binary); err != nil {
		if os.Getenv("CI") == "true" { //nolint:forbidigo // only tests call this
			tb.Fatalf("CI must have %s: install Debian's package %s: %v", Binary, Package, err)
		}
		tb.Skipf("needs %s, Debian's package %s: %v", Binary, Package, err)
	}
	s := &Server{tb: tb, dir: tb.TempDir(), args: args}
	tb.Cleanup(s.end)
	// Another process may take the port between its choice and its use.
	var err error
	for range 5 {
		if s.addr, err = freeAddr(); err != nil {
			continue
		}
		if err = s.start(); err == nil {
			return s
		}
	}
	tb.Fatalf("start %s: %v", Binary, err)
	return nil
}

// Addr is the server's host and port.
func (s *Server) Addr() string { return s.addr }

// Kill ends the server at once, with SIGKILL. What it had in memory is gone.
func (s *Server) Kill() {
	s.tb.Helper()
	s.end()
}

// Restart starts the server again, empty, on its old address. It must have been
// killed.
func (s *Server) Restart() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("restart %s: %v", Binary, err)
	}
}

// Pause stops the server in the middle of what it does: connections stay, the
// kernel accepts more, nobody answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Flush empties the server.
func (s *Server) Flush() { s.Command("FLUSHALL") }

// Command sends one command and returns the answer: a string as it is, an
// integer in digits, an array's elements in lines, nil as "(nil)".
func (s *Server) Command(args ...string) string {
	s.tb.Helper()
	answer, err := command(s.addr, args...)
	if err != nil {
		s.tb.Fatalf("redis %s: %v", strings.Join(args[:1], " "), err)
	}
	return answer
}

// Memory is how many bytes the server uses for its data.
func (s *Server) Memory() int64 {
	s.tb.Helper()
	for line := range strings.Lines(s.Command("INFO", "memory")) {
		if text, ok := strings.CutPrefix(line, "used_memory_dataset:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				s.tb.Fatalf("used_memory_dataset: %v", err)
			}
			return n
		}
	}
	s.tb.Fatal("INFO memory has no used_memory_dataset")
	return 0
}

// CPU is the processor time that the server has used.
func (s *Server) CPU() time.Duration {
	s.tb.Helper()
	var sum float64
	for line := range strings.Lines(s.Command("INFO", "cpu")) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.tb.Fatalf("%s: %v", name, err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second))
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// start starts the program and waits until it answers.
func (s *Server) start() error {
	_, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return fmt.Errorf("the server's address: %w", err)
	}
	log := filepath.Join(s.dir, "redis.log")
	args := append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--logfile", log,
	}, s.args...)
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		// The kernel kills the server when the thread that started it ends: this
		// one, which stays until the server has ended.
		runtime.LockOSThread()
		cmd := exec.Command(Binary, args...) //nolint:noctx // Kill ends it
		cmd.SysProcAttr = dieWithParent()
		err := cmd.Start()
		if err == nil {
			s.process = cmd.Process
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed: that is no news
		}
	}()
	if err := <-started; err != nil {
		<-ended
		return fmt.Errorf("start the program: %w", err)
	}
	s.ended = ended
	if err := s.awaitReady(); err != nil {
		s.end()
		text, _ := os.ReadFile(log) // without it there is less to say
		return fmt.Errorf("%w; its log: %s", err, text)
	}
	return nil
}

func (s *Server) awaitReady() error {
	var err error
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		var answer string
		// The process id tells this server from another on the same port.
		if answer, err = command(s.addr, "INFO", "server"); err == nil {
			if strings.Contains(answer, fmt.Sprintf("process_id:%d\r", s.process.Pid)) {
				return nil
			}
			return errors.New("another server has the port")
		}
		select {
		case <-s.ended:
			return errors.New("the server ended")
		default:
		}
	}
	return fmt.Errorf("not ready within %v: %w", startTimeout, err)
}

// end kills the server if it runs and waits for its end.
func (s *Server) end() {
	if s.ended == nil {
		return
	}
	_ = s.process.Kill() // it may have ended by itself
	<-s.ended
	s.ended = nil
}

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	if s.ended == nil {
		s.tb.Fatalf("%v: the server does not run", sig)
	}
	if err := s.process.Signal(sig); err != nil {
		s.tb.Fatalf("send %v: %v", sig, err)
	}
}

// command speaks just enough of Redis's protocol.
func command(addr string, args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", addr, time.Second) //nolint:noctx // bounded
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }() // the answer is there or not
	if err := conn.SetDeadline(time.Now().Add(commandTimeout)); err != nil {
		return "", fmt.Errorf("set the deadline: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(conn, b.String()); err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	return answer(bufio.NewReader(conn))
}

func answer(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	kind, text := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", errors.New(text)
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || kind != '$' && kind != '*':
		return "", fmt.Errorf("an answer of an unknown kind: %q", line)
	case n < 0:
		return "(nil)", nil
	case kind == '$':
		data := make([]byte, n+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return "", fmt.Errorf("read the answer: %w", err)
		}
		return string(data[:n]), nil
	}
	parts := make([]string, n)
	for i := range parts {
		if parts[i], err = answer(r); err != nil {
			return "", err
		}
	}
	return strings.Join(parts, "\n"), nil
}
