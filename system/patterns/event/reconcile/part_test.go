package reconcile

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/queue"
	"loadstone/block/servertest"
	"loadstone/system/patterns/event"
	"loadstone/system/patterns/event/eventlog"
	"loadstone/system/patterns/serve"
)

// TestMain makes the test's own program the processes that are killed.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 || os.Args[1] != "part" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := runPart(ctx, os.Args[2], os.Args[3:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const anyAdmin = "127.0.0.1:0"

// runPart is one of the processes. Those of the system are what the commands start.
func runPart(ctx context.Context, name string, args []string) error {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	switch name {
	case "app": // its address and the events
		cfg := serve.DefaultConfig()
		cfg.AdminListen, cfg.Listen, cfg.Events = anyAdmin, args[0], args[1]
		return serve.Run(ctx, cfg, logger)
	case "log": // its address, the file of its store, and the events
		cfg := eventlog.DefaultConfig()
		target, err := event.ParseTarget(args[2])
		if err != nil {
			return err
		}
		cfg.AdminListen, cfg.Listen, cfg.Store, cfg.Queue = anyAdmin, args[0], args[1], &target
		return eventlog.Run(ctx, cfg, logger)
	default:
		return takeAndForget(ctx, args[0])
	}
}

// takeAndForget is a log service that acknowledges what it has taken from the queue
// before it is stored: it is in memory, and was to be written a little later. It
// prints how many it has acknowledged so far, which it knows when it gets the next.
func takeAndForget(ctx context.Context, events string) error {
	target, err := event.ParseTarget(events)
	if err != nil {
		return err
	}
	q, err := target.OpenQueue(ctx)
	if err != nil {
		return err
	}
	m := queue.NewMetrics(prometheus.NewRegistry())
	var held []queue.Message
	return q.Consume(ctx, func(_ context.Context, batch []queue.Message) error {
		fmt.Printf("acknowledged %d\n", len(held))
		held = append(held, batch...)
		return nil
	}, m)
}

// part is a process of the system's, at an address, that is not started yet.
func part(t *testing.T, address string, args ...string) *servertest.Process {
	t.Helper()
	program := program(t, args...)
	program.Ready = servertest.Dials(address)
	return servertest.New(t, program)
}

func program(t *testing.T, args ...string) servertest.Program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return servertest.Program{Command: append([]string{self, "part"}, args...), Log: filepath.Join(t.TempDir(), "log")}
}

// acknowledging is a process of takeAndForget.
type acknowledging struct {
	*servertest.Process

	t    *testing.T
	said *bufio.Reader
}

func startAcknowledging(t *testing.T, events string) acknowledging {
	t.Helper()
	said, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = said.Close() })
	if err := said.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil { // fails a test that would hang
		t.Fatal(err)
	}
	program := program(t, "hasty", events)
	program.Stdout = stdout
	p := acknowledging{servertest.New(t, program), t, bufio.NewReader(said)}
	p.Start()
	return p
}

// number is how many it has acknowledged, from the next line that it prints.
func (p acknowledging) number() int {
	p.t.Helper()
	line, err := p.said.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	n := 0
	if _, err := fmt.Sscanf(line, "acknowledged %d", &n); err != nil {
		p.t.Fatalf("%q: %v", strings.TrimSpace(line), err)
	}
	return n
}
