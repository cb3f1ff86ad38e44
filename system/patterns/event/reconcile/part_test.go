package reconcile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"loadstone/block/queue"
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
		return serve.Run(ctx, cfg, logger, serve.Events{})
	case "log": // its address, the file of its store, and the events
		cfg := eventlog.DefaultConfig()
		target, err := event.ParseTarget(args[2])
		if err != nil {
			return err
		}
		cfg.AdminListen, cfg.Listen, cfg.Store, cfg.Queue = anyAdmin, args[0], args[1], &target
		return eventlog.Run(ctx, cfg, logger, nil)
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
	m, err := queue.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return err
	}
	var held []queue.Message
	return q.Consume(ctx, func(_ context.Context, batch []queue.Message) error {
		fmt.Printf("acknowledged %d\n", len(held))
		held = append(held, batch...)
		return nil
	}, m)
}

// process is one that a test kills and starts again. It ends with the test.
type process struct {
	t       *testing.T
	command []string
	env     []string
	ready   func(ctx context.Context) error
	cmd     *exec.Cmd
	said    *bufio.Reader // its output; nil for what goes to the file
	log     string        // that file
}

// part is a process of the system's, at an address.
func part(t *testing.T, address string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &process{t: t, command: append([]string{self, "part"}, args...), env: os.Environ(),
		ready: dials(address), log: filepath.Join(t.TempDir(), "log")}
}

// dials returns what is nil once somebody accepts connections there.
func dials(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// start starts it, the first time or after kill, and waits until it is ready.
func (p *process) start() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has its own
	p.cmd = exec.Command(p.command[0], p.command[1:]...)
	p.cmd.Env, p.cmd.Stderr, p.cmd.Stdout = p.env, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if p.ready == nil {
		p.cmd.Stdout = nil
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			p.t.Fatal(err)
		}
		p.said = bufio.NewReader(out)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.kill)
	if p.ready != nil {
		p.await("it is ready", func() bool { return p.ready(p.t.Context()) == nil })
	}
}

// kill ends it with SIGKILL and waits until it is gone.
func (p *process) kill() { p.end(syscall.SIGKILL) }

// stop tells it to end, and waits: a consumer leaves its partitions to the next one.
func (p *process) stop() { p.end(syscall.SIGTERM) }

func (p *process) end(how syscall.Signal) {
	if p.cmd == nil {
		return
	}
	if err := p.cmd.Process.Signal(how); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Error(err)
	}
	_ = p.cmd.Wait() // its status is the signal's
	p.cmd = nil
}

// await polls until ok holds, and shows what the process has said if it does not.
func (p *process) await(what string, ok func() bool) {
	p.t.Helper()
	const limit = 90 * time.Second // a Java program's start, beside other tests
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(p.log)
			p.t.Fatalf("%v: not within %v: %s\n%s", p.command[1:], limit, what, text[max(0, len(text)-3000):])
		}
	}
}

// host is a loopback address made of our process id, which has 22 bits at most, so
// that every part has its usual port.
func host() string {
	pid := os.Getpid()
	return net.IPv4(127, byte(128+pid>>16), byte(pid>>8), byte(pid)).String()
}

// kafkaSettings are those of one broker that is its own controller. It may be back
// two seconds after it was killed instead of nine.
const kafkaSettings = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[1]s:9093
listeners=PLAINTEXT://%[1]s:9092,CONTROLLER://%[1]s:9093
advertised.listeners=PLAINTEXT://%[1]s:9092
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=%[2]s/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
`

// kafka is a broker that is not started yet, with data in a directory of its own. A
// broker that is not installed skips the test, or fails it if CI is true.
func kafka(t *testing.T, host string) *process {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(cache, "loadstone", "kafka-*", "bin"))
	if err != nil || len(found) == 0 {
		const missing = "Kafka is not there; get it with `make deps`"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	bin, dir := slices.Max(found), t.TempDir()
	settings := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(settings, fmt.Appendf(nil, kafkaSettings, host, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir, "LOG_DIR=" + dir, "KAFKA_OPTS=-Djava.io.tmpdir=" + dir}
	format := exec.CommandContext(t.Context(), filepath.Join(bin, "kafka-storage.sh"), "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", settings)
	format.Env = env
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	return &process{
		t: t, command: []string{filepath.Join(bin, "kafka-server-start.sh"), settings}, ready: dials(host + ":9092"), log: filepath.Join(dir, "log"),
		// Compiled quickly rather than well, which makes a start shorter.
		env: append(env, "KAFKA_HEAP_OPTS=-Xmx256m -Xms256m", "KAFKA_JVM_PERFORMANCE_OPTS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
	}
}

// number reads the next line of a process, which ends with a number.
func (p *process) number() int {
	p.t.Helper()
	line, err := p.said.ReadString('\n')
	if err != nil {
		var text bytes.Buffer
		if log, err := os.Open(p.log); err == nil {
			_, _ = io.Copy(&text, log)
			_ = log.Close()
		}
		p.t.Fatalf("%v: %v\n%s", p.command[1:], err, text.String())
	}
	n := 0
	if _, err := fmt.Sscanf(line, "acknowledged %d", &n); err != nil {
		p.t.Fatalf("%q: %v", strings.TrimSpace(line), err)
	}
	return n
}
