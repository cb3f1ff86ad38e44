package servertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
		Missing(tb, "Redis is not installed: apt-get install redis-server")
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

func (s *RedisServer) ready(ctx context.Context) error {
	answer, err := command(ctx, s.addr, "INFO", "server")
	// The process id tells this server from another on the same port.
	if err == nil && !strings.Contains(answer, fmt.Sprintf("process_id:%d\r", s.process.Pid)) {
		err = errors.New("another server has the port")
	}
	return err
}

// Addr is the server's host and port.
func (s *RedisServer) Addr() string { return s.addr }

// commandTimeout bounds one Command and its connection; FLUSHALL of a full server is the
// longest.
const commandTimeout = 20 * time.Second

// Flush empties the server.
func (s *RedisServer) Flush() { s.Command("FLUSHALL") }

// Command sends one command and returns the answer: a string as it is, an
// integer in digits, an array's elements in lines, nil as "(nil)".
func (s *RedisServer) Command(args ...string) string {
	s.tb.Helper()
	answer, err := command(context.WithoutCancel(s.tb.Context()), s.addr, args...) // also when the test ends
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

// command sends one command over a connection of its own: the server may have been
// killed since the last one.
func command(ctx context.Context, addr string, args ...string) (string, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true, AlwaysRESP2: true,
		Dialer: net.Dialer{Timeout: commandTimeout}, ConnWriteTimeout: commandTimeout,
	})
	if err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	defer client.Close()
	answer, err := client.Do(ctx, client.B().Arbitrary(args...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return "(nil)", nil
	}
	return text(answer), err
}

// text is an answer as Command returns it.
func text(answer any) string {
	switch v := answer.(type) {
	case []any:
		lines := make([]string, len(v))
		for i := range v {
			lines[i] = text(v[i])
		}
		return strings.Join(lines, "\n")
	case nil:
		return "(nil)"
	default:
		return fmt.Sprint(v)
	}
}
