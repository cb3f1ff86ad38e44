// Package servertest runs real servers for tests: Redis, PostgreSQL, Cassandra and
// Kafka of the installed programs, or any program. Each is in a temporary directory,
// on a loopback address of its own, and can be killed, started again, paused and
// resumed.
//
// It is for tests only, and no client: what it asks a server is whether it is ready.
// The test owns its server; both end together, also when the test's process dies.
// PostgreSQL may be shared by the tests of a package, each with a database of its
// own, see Database. Where a server is not installed the test is skipped with the
// reason, and fails if the environment has CI=true.
package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Program says what to run.
type Program struct {
	// Command is the program's path and its arguments.
	Command []string
	// Env is its whole environment; nil for the test's own.
	Env []string
	// Dir is where it runs; the test's own directory if empty.
	Dir string
	// Log is the file that its output is appended to.
	Log string
	// Stdout takes its standard output in place of Log. It is closed here once the
	// program has it.
	Stdout *os.File
	// Account is who it runs as; nil for ourselves.
	Account *syscall.Credential
	// Crash is the signal of Kill, and of the kernel when the test's process dies:
	// SIGKILL if it is 0.
	Crash syscall.Signal
	// Ready returns nil when the program does its work. Nil: as soon as it runs.
	Ready func(ctx context.Context) error
}

// Process is a program that a test starts and ends. Its methods end the test when
// they fail, and are for one goroutine at a time.
type Process struct {
	tb      testing.TB // nil for a server that several tests share
	program Program
	process *os.Process   // nil while it does not run
	ended   chan struct{} // closed when the process has been waited for
}

// New returns a process that has not been started. It is killed when the test ends.
func New(tb testing.TB, program Program) *Process {
	tb.Helper()
	p := newProcess(program)
	p.tb = tb
	tb.Cleanup(p.Kill)
	return p
}

func newProcess(program Program) *Process {
	if program.Crash == 0 {
		program.Crash = syscall.SIGKILL
	}
	return &Process{program: program}
}

// startTimeout bounds a start: 20 s for Cassandra on an idle machine, and minutes beside
// other tests and containers. The others take a second.
const startTimeout = 10 * time.Minute

// Start starts the program, the first time or after Kill, and waits until it is ready.
func (p *Process) Start() {
	p.tb.Helper()
	ctx, cancel := context.WithTimeout(p.tb.Context(), startTimeout)
	defer cancel()
	p.check("start", p.start(ctx))
}

// Kill ends the program at once, as a crash would, and waits until it is gone. One
// that does not run stays so.
func (p *Process) Kill() {
	p.tb.Helper()
	p.check("kill", p.end(p.program.Crash))
}

// Stop tells the program to end, and waits until it has.
func (p *Process) Stop() {
	p.tb.Helper()
	p.check("stop", p.end(syscall.SIGTERM))
}

// Pause stops the program where it is, with its children: connections stay, the
// kernel accepts more, nobody answers. It returns when all of them have stopped.
func (p *Process) Pause() {
	p.tb.Helper()
	p.check("pause", p.pause())
}

// Resume lets a paused program go on.
func (p *Process) Resume() {
	p.tb.Helper()
	p.check("resume", p.signalAll(syscall.SIGCONT))
}

// Children are the processes that the program's main thread has started.
func (p *Process) Children() []int {
	p.tb.Helper()
	pids, err := p.children()
	p.check("look at", err)
	return pids
}

func (p *Process) check(what string, err error) {
	p.tb.Helper()
	if err != nil {
		p.tb.Fatalf("%s %s: %v", what, filepath.Base(p.program.Command[0]), err)
	}
}

func (p *Process) start(ctx context.Context) error {
	log, err := os.OpenFile(p.program.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.program.Command[0], p.program.Command[1:]...) // it outlives ctx
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.program.Dir, p.program.Env, log, log
	// The kernel ends the program when the thread that started it ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: p.program.Crash, Credential: p.program.Account}
	if p.program.Stdout != nil {
		cmd.Stdout = p.program.Stdout
		defer func() { _ = p.program.Stdout.Close() }()
	}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		// The death signal comes when the thread that started the program ends, and
		// Go may end any thread but a locked one: this lives as long as the program.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in the log
		}
	}()
	if err = errors.Join(<-started, log.Close()); err != nil {
		<-ended
		return err
	}
	p.process, p.ended = cmd.Process, ended
	if err := p.awaitReady(ctx); err != nil {
		text, _ := os.ReadFile(p.program.Log) // without it there is less to say
		return errors.Join(fmt.Errorf("%w; its log: %s", err, text[max(0, len(text)-4000):]), p.end(p.program.Crash))
	}
	return nil
}

// awaitReady polls until the program is ready.
func (p *Process) awaitReady(ctx context.Context) error {
	if p.program.Ready == nil {
		return nil
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := p.program.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", err)
		case <-p.ended:
			return fmt.Errorf("it has ended: %w", err)
		case <-ticker.C:
		}
	}
}

// end sends the signal, if the program runs, and waits for its end.
func (p *Process) end(sig syscall.Signal) error {
	if p.process == nil {
		return nil
	}
	if sig != syscall.SIGKILL {
		_ = p.signalAll(syscall.SIGCONT) // who is paused hears nothing else
	}
	if err := p.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	p.process = nil
	return nil
}

// pause looks again for children after each round: who was about to start one while it was
// told to stop may have done so.
func (p *Process) pause() error {
	for deadline := time.Now().Add(pauseTimeout); ; time.Sleep(time.Millisecond) {
		if err := p.signalAll(syscall.SIGSTOP); err != nil {
			return err
		}
		running, err := p.running()
		if err != nil || running == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d has not stopped after %v", running, pauseTimeout)
		}
	}
}

// pauseTimeout is more than a process spends in the kernel on a busy machine.
const pauseTimeout = time.Minute

// running is one of the program's processes that has neither stopped nor ended, 0 if there is none.
func (p *Process) running() (pid int, err error) {
	children, err := p.children()
	if err != nil {
		return 0, err
	}
	for _, pid := range append([]int{p.process.Pid}, children...) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, err
		}
		// The state is behind the name, which is in parentheses and may hold any.
		state := text[bytes.LastIndexByte(text, ')')+2:]
		if !bytes.ContainsAny(state[:1], "TtZX") {
			return pid, nil
		}
	}
	return 0, nil
}

func (p *Process) signalAll(sig syscall.Signal) error {
	if p.process == nil {
		return errors.New("it does not run")
	}
	children, err := p.children()
	if err != nil {
		return err
	}
	// The parent first: it must not notice that its children stop.
	for _, pid := range append([]int{p.process.Pid}, children...) {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return nil
}

func (p *Process) children() ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.process.Pid, p.process.Pid))
	if err != nil {
		return nil, fmt.Errorf("find its children: %w", err)
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("find its children: %w", err)
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// Host returns a loopback address for one server, so that it has its usual port.
// One of eight million is hardly somebody else's; a free port found beforehand could
// be, a moment later.
func Host() string {
	n := rand.Uint32()
	return net.IPv4(127, 128+byte(n>>16)%126, byte(n>>8), 1+byte(n)%254).String()
}

// Dials returns a Program's Ready: somebody accepts connections at the address.
func Dials(address string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Large skips a test that takes minutes, gigabytes, or a program that no other test
// needs, unless LARGE=1 asks for it as make test-large does.
func Large(tb testing.TB) {
	tb.Helper()
	if os.Getenv("LARGE") != "1" { //nolint:forbidigo // only tests call this
		tb.Skip("a large form; make test-large runs it")
	}
}

// Missing ends a test that needs what is not installed: it is skipped, or fails if the
// environment has CI=true.
func Missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("CI") == "true" { //nolint:forbidigo // only tests call this
		tb.Fatal(what)
	}
	tb.Skip(what)
}

// newest is the last path, as text, that matches; "" if none does.
func newest(pattern string) string {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

// Fetched is the path of a program that `make deps` has put into the user's cache.
func Fetched(tb testing.TB, name, pattern string) string {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	path := newest(filepath.Join(cache, "loadstone", pattern))
	if path == "" {
		Missing(tb, name+" is not there; get it with `make deps`")
	}
	return path
}

// writef writes a server's settings.
func writef(tb testing.TB, path, format string, values ...any) {
	tb.Helper()
	if err := os.WriteFile(path, fmt.Appendf(nil, format, values...), 0o600); err != nil {
		tb.Fatal(err)
	}
}
