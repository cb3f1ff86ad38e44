package k6

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"loadstone/lab/host"
)

// process is k6, running.
type process struct {
	cmd    *exec.Cmd
	points *os.File // the pipe that k6 writes its metrics into
	log    *tail    // what it writes to standard error
	within time.Duration
	begun  time.Time
	took   time.Duration // begun to ended

	mu     sync.Mutex
	ending *time.Timer // kills it; nil until it is told to end
	killed bool        // by ending
	reaped bool        // its ids may be another process's

	ended chan struct{}

	lastBusy time.Time // of the last call of busy, on the reader's goroutine
	lastCPU  time.Duration
}

// start starts k6 in a process group of its own. Metrics come through file
// descriptor 3, a pipe: k6 takes any file name, and this one needs no disk.
// --address "" keeps its control server off, which would want a fixed port.
func start(ctx context.Context, config Config, within time.Duration) (*process, error) {
	points, written, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	// ctx ends it through end, in order; not by force, as exec would.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), config.Binary, "run", "--quiet", "--no-usage-report", "--no-color",
		"--address", "", "--out", "json=/dev/fd/3", config.Script)
	cmd.Dir = config.Dir
	cmd.Env = append(cmd.Environ(), config.variables()...)
	cmd.ExtraFiles = []*os.File{written}
	var both sync.Mutex
	log := &tail{to: config.Log, mu: &both}
	cmd.Stdout, cmd.Stderr = &plain{to: config.Log, mu: &both}, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	// What k6 started may hold its outputs open after it has ended. What it wrote itself is
	// read in a moment, or later where the machine is overloaded.
	cmd.WaitDelay = 5 * time.Second

	now := time.Now()
	p := &process{cmd: cmd, points: points, log: log, within: within, begun: now, lastBusy: now, ended: make(chan struct{})}
	started := make(chan error)
	go p.own(started)
	err = <-started
	_ = written.Close() // nothing was written to this end of it
	if err != nil {
		_ = points.Close()
		return nil, err
	}
	return p, nil
}

// own starts k6 and waits for its end, from one thread: the kernel's death
// signal goes out when the thread that made the child ends.
func (p *process) own(started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	defer close(p.ended)
	started <- nil
	// How it ended is in the ProcessState. The only other error is that its
	// outputs were still open after WaitDelay, and what holds them ends now.
	_ = p.cmd.Wait()
	p.took = time.Since(p.begun)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what is left of its group, if anything
	p.reaped = true
	if p.ending != nil {
		p.ending.Stop()
	}
	// A process that has left the group could hold the pipe open for ever. What
	// k6 wrote is in the pipe by now, and is read in a moment.
	_ = p.points.SetReadDeadline(time.Now().Add(5 * time.Second))
}

// end tells k6 to end, and ends it by force if it does not in time.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending != nil || p.reaped {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT) // it may have ended by itself
	p.ending = time.AfterFunc(p.within, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.reaped {
			p.killed = true
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
	})
}

// wait waits for k6's end and closes the pipe.
func (p *process) wait() {
	<-p.ended
	_ = p.points.Close() // it was read to its end
}

// cpu is the user and system time of k6 and of what it has waited for.
func (p *process) cpu() time.Duration {
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// busy is how many cores k6 has used since the last call; 0 if that cannot be
// told, as after its end.
func (p *process) busy() float64 {
	now := time.Now()
	k6, err := host.ReadProcess(p.cmd.Process.Pid)
	elapsed := now.Sub(p.lastBusy)
	if err != nil || elapsed < 10*time.Millisecond || k6.CPU < p.lastCPU {
		return 0
	}
	used := k6.CPU - p.lastCPU
	p.lastBusy, p.lastCPU = now, k6.CPU
	return used.Seconds() / elapsed.Seconds()
}

// plain passes on what k6 prints. That the log cannot be written is no reason
// to end a load.
type plain struct {
	to io.Writer
	mu *sync.Mutex // shared with the tail: to takes one write at a time
}

func (w *plain) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.to.Write(b)
	return len(b), nil
}

// tail passes on what k6 writes to standard error and keeps the end of it.
type tail struct {
	to   io.Writer
	mu   *sync.Mutex
	last []byte
}

// How much of its standard error is kept, and how much of that is shown.
const (
	tailBytes = 8 << 10
	tailLines = 8
)

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.to.Write(b)
	t.last = append(t.last, b...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	return len(b), nil
}

// lines are the last lines, without the empty ones.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for line := range strings.Lines(string(t.last)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, clip(line))
		}
	}
	return lines[max(0, len(lines)-tailLines):]
}

// String is the last lines for an error.
func (t *tail) String() string {
	lines := t.lines()
	if len(lines) == 0 {
		return "it wrote nothing to standard error"
	}
	return fmt.Sprintf("it last wrote:\n  %s", strings.Join(lines, "\n  "))
}
