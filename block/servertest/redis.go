package servertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RedisServer is a redis-server without persistence.
type RedisServer struct {
	*Process

	addr string
}

// Redis starts a Redis, with further arguments for it as on its command line.
func Redis(tb testing.TB, args ...string) *RedisServer {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		missing(tb, "Redis is not installed: apt-get install redis-server")
	}
	dir, host := tb.TempDir(), Host()
	s := &RedisServer{addr: net.JoinHostPort(host, "6379")}
	s.Process = New(tb, Program{
		Command: append([]string{
			path, "--port", "6379", "--bind", host, "--dir", dir,
			"--save", "", "--appendonly", "no", "--daemonize", "no",
		}, args...),
		Dir: dir, Log: filepath.Join(dir, "redis.log"), Ready: s.ready,
	})
	s.Start()
	return s
}

func (s *RedisServer) ready(context.Context) error {
	answer, err := command(s.addr, "INFO", "server")
	// The process id tells this server from another on the same port.
	if err == nil && !strings.Contains(answer, fmt.Sprintf("process_id:%d\r", s.process.Pid)) {
		err = errors.New("another server has the port")
	}
	return err
}

// Addr is the server's host and port.
func (s *RedisServer) Addr() string { return s.addr }

// commandTimeout bounds one Command; FLUSHALL of a full server is the longest.
const commandTimeout = 20 * time.Second

// Flush empties the server.
func (s *RedisServer) Flush() { s.Command("FLUSHALL") }

// Command sends one command and returns the answer: a string as it is, an
// integer in digits, an array's elements in lines, nil as "(nil)".
func (s *RedisServer) Command(args ...string) string {
	s.tb.Helper()
	answer, err := command(s.addr, args...)
	if err != nil {
		s.tb.Fatalf("redis %s: %v", strings.Join(args[:1], " "), err)
	}
	return answer
}

// Memory is how many bytes the server uses for its data.
func (s *RedisServer) Memory() int64 {
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
func (s *RedisServer) CPU() time.Duration {
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
