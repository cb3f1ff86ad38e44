// Package guardian makes sure that what a lab started ends with the lab, even
// when the lab is killed with SIGKILL and cannot stop anything itself.
//
// The guardian is a small process of its own, in a session of its own, so that
// Ctrl-C in the terminal does not reach it. It holds the reading end of a pipe
// whose writing end only the lab has. Over the pipe the lab says what it is
// about to start, before it starts it:
//
//	lab ──── cgroup, process groups, mark, directory, command ───► guardian
//	 │                                                                │
//	 └─ starts services                               reads until "done" or the end
//
// When the lab stops in order it says "done", and the guardian exits. When the
// pipe ends without that, the lab is dead, or could not clean up: the guardian kills everything that
// it was told of, removes the control groups and the directory, and exits.
//
// Three things find a process, and each covers what another cannot. The control
// group has every descendant, but not every machine can make one. The process
// group has the children that did not leave it; it is told of only after the
// fork, and is named by pid and start time, so that a pid in use again is not
// mistaken for it. The mark is a variable in the environment: it finds a child
// that was being started when the lab died, and descendants that left the
// process group. What no signal reaches, such as containers, a command removes.
//
// What it does not do: stop anything gracefully, or restart anything.
package guardian

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/cgroup"
)

const (
	// readyWithin bounds the start of the guardian: one exec of this program,
	// which takes tens of milliseconds, with room for a machine that is busy.
	readyWithin = time.Minute
	// exitWithin bounds its end after "done", when it has nothing left to do.
	exitWithin = 10 * time.Second

	readyLine = "ready\n"
)

// Config says how to start a guardian.
type Config struct {
	// Argv starts a program that calls Run with its standard input and output.
	Argv []string
	// LogFile takes what the guardian has to say. It is removed at the end if
	// that is nothing.
	LogFile string
	// Hold are files that the guardian keeps open until it exits: claims that
	// must outlive the lab as long as what it started does.
	Hold []*os.File
}

// Guardian is the lab's side of a running guardian. Its methods may be called
// from several goroutines.
type Guardian struct {
	cmd     *exec.Cmd
	logFile string
	goesOn  atomic.Bool // whether it has a Command that is run again

	mu   sync.Mutex
	pipe *os.File // nil once closed
}

// message is one line of JSON on the pipe. All but a Command are far shorter than PIPE_BUF, so
// they arrive whole or not at all; what is of a Command's that did not is no JSON, and of a lab that had not begun.
type message struct {
	Cgroup *cgroup.Paths `json:"cgroup,omitempty"`
	Group  *Process      `json:"group,omitempty"`
	Mark   string        `json:"mark,omitempty"`
	Dir    string        `json:"dir,omitempty"`
	Remove *Command      `json:"remove,omitempty"`
	Done   bool          `json:"done,omitempty"`
}

// Start starts a guardian and waits until it says that it listens. It goes on
// when ctx is cancelled: it is there for exactly that case.
func Start(ctx context.Context, c Config) (*Guardian, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("start the guardian: no program is given for it")
	}
	log, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	defer func() { _ = log.Close() }() // the guardian has its own descriptor
	stdin, pipe, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", err)
	}
	ready, stdout, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", errors.Join(err, stdin.Close(), pipe.Close()))
	}
	// What this process has from its own caller, such as a lock or a pipe, is not the guardian's to hold. A kernel
	// before Linux 5.11 cannot have it so.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Argv[0], c.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = stdin, stdout, log, c.Hold
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	err = errors.Join(err, stdin.Close(), stdout.Close())
	g := &Guardian{cmd: cmd, logFile: c.LogFile, pipe: pipe}
	if err == nil {
		err = awaitReady(ready)
	}
	err = errors.Join(err, ready.Close())
	if err != nil {
		return nil, fmt.Errorf("start the guardian: %w", errors.Join(err, g.abandon()))
	}
	return g, nil
}

func awaitReady(r *os.File) error {
	if err := r.SetReadDeadline(time.Now().Add(readyWithin)); err != nil {
		return err
	}
	line, err := bufio.NewReader(r).ReadString('\n')
	if line == readyLine {
		return nil
	}
	return fmt.Errorf("it did not say that it is ready but %q: %w", line, err)
}

// abandon ends a guardian that did not come up.
func (g *Guardian) abandon() error {
	err := g.pipe.Close()
	if g.cmd.Process == nil {
		return err
	}
	// Errors of a process that is being thrown away change nothing.
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	text, errRead := os.ReadFile(g.logFile)
	if said := strings.TrimSpace(string(text)); errRead == nil && said != "" {
		err = errors.Join(err, errors.New(said))
	}
	return err
}

// Cgroup tells the guardian of a control group, with all below it, that is
// about to be made.
func (g *Guardian) Cgroup(p cgroup.Paths) error { return g.tell(message{Cgroup: &p}) }

// Group tells the guardian of a process group by its leader.
func (g *Guardian) Group(p Process) error { return g.tell(message{Group: &p}) }

// Mark tells the guardian which mark (see MarkVariable) the processes carry.
func (g *Guardian) Mark(mark string) error { return g.tell(message{Mark: mark}) }

// Dir tells the guardian of a directory to remove when the processes are gone.
// Only directories whose names begin with "loadstone-" are.
func (g *Guardian) Dir(dir string) error { return g.tell(message{Dir: dir}) }

// Remove tells the guardian of a command to run when the processes are gone.
func (g *Guardian) Remove(c Command) error {
	if c.Again > 0 {
		g.goesOn.Store(true)
	}
	return g.tell(message{Remove: &c})
}

func (g *Guardian) tell(m message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("tell the guardian: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe == nil {
		return fmt.Errorf("tell the guardian: %w", os.ErrClosed)
	}
	// The guardian reads all the time, so the pipe is never full for long; a
	// guardian that does not read for 10 s is stuck or stopped.
	if err := g.pipe.SetWriteDeadline(time.Now().Add(exitWithin)); err != nil {
		return fmt.Errorf("tell the guardian: %w", err)
	}
	if _, err := g.pipe.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("tell the guardian, which has ended or is stuck: %w", err)
	}
	return nil
}

// Done tells the guardian that nothing is left to guard, and waits for its end.
func (g *Guardian) Done() error { return errors.Join(g.tell(message{Done: true}), g.end(exitWithin)) }

// ErrGoesOn is of a guardian that outlives the lab, since one of its commands is to be run again.
var ErrGoesOn = errors.New("the guardian goes on")

// Leave ends the lab's side without "done": the guardian cleans up what is
// left, as if the lab had died. Leave waits for it, for a minute and a half at most; then it
// goes on by itself (ErrGoesOn) if it has a Command with Again, and else is killed.
func (g *Guardian) Leave() error { return g.end(cleanWithin + exitWithin) }

// end closes the pipe and waits for the guardian's exit.
func (g *Guardian) end(within time.Duration) error {
	g.mu.Lock()
	pipe := g.pipe
	g.pipe = nil
	g.mu.Unlock()
	if pipe == nil {
		return nil
	}
	err := pipe.Close()
	ended := make(chan error, 1)
	go func() { ended <- g.cmd.Wait() }()
	late := time.NewTimer(within)
	defer late.Stop()
	var errWait error
	select {
	case errWait = <-ended:
	case <-late.C:
		if g.goesOn.Load() {
			return errors.Join(err, ErrGoesOn)
		}
		_ = g.cmd.Process.Kill()
		errWait = <-ended
	}
	if errWait != nil {
		err = errors.Join(err, fmt.Errorf("the guardian ended badly (see %s): %w", g.logFile, errWait))
	}
	if info, errStat := os.Stat(g.logFile); errStat == nil && info.Size() == 0 {
		err = errors.Join(err, os.Remove(g.logFile))
	}
	return err
}
