package generator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"loadstone/lab/load"
)

const (
	// closeWithin is how long a generator may take to end by itself once its input
	// is closed. It has to notice, close its connections and leave: milliseconds,
	// unless the machine is overloaded, which after a load test it may well be.
	closeWithin = 15 * time.Second
	// answerWithin is how long it may take to say what its clock says: the first time
	// it is being started meanwhile, maybe on a machine that must be logged in to.
	answerWithin = time.Minute
)

const (
	// beatEvery is how often a generator that may be elsewhere is asked for its clock while it
	// offers load, and silentFor how long either side may hear nothing of the other until it takes
	// it for gone: a connection that is cut somewhere in between says so after hours, if at all.
	beatEvery = 5 * time.Second
	silentFor = 30 * time.Second
)

// askClock is the question.
const askClock = "{\"clock\":true}\n"

var errSilent = errors.New("nothing was heard any more; the connection is taken for cut")

// Process is a generator in a process of its own, which runs Serve on its
// standard input and output. It is not safe for concurrent use.
type Process struct {
	Link

	pid    int            // 0 if it is not on this machine
	output *bufio.Scanner // of Out
	broken error          // why no more plans can be run
	closed bool

	beat, patience time.Duration // beatEvery and silentFor; 0 for one that is not asked
	silent         atomic.Bool   // it was, for longer than patience
}

// Link is a generator that somebody else has started, who knows where it runs. It
// belongs to the Process or the Group that is made of it.
type Link struct {
	// Name is what it is called, such as the machine.
	Name string
	// FilesBelow is the directory below which it has the files that are here at the same paths;
	// empty if it has them where they are here.
	FilesBelow string
	// In and Out are its standard input and output. What ends it has Out end with an error that
	// says why, if it is known.
	In  io.WriteCloser
	Out io.ReadCloser
	// Kill ends it by force. Wait waits for its end, which closing In leads to, and is called
	// once.
	Kill func()
	Wait func() error
}

func overLink(l Link) *Process {
	output := bufio.NewScanner(l.Out)
	output.Buffer(nil, mostLine)
	return &Process{Link: l, output: output}
}

// Start starts command, which must run Serve on its standard input and output;
// what it writes to standard error goes to log. The process gets a process
// group of its own, so that Ctrl-C at a terminal reaches the caller, who can
// end the load in order. Should the caller die, the process ends as well,
// because its input does. ctx ends the process; Close must be called all the
// same.
func Start(ctx context.Context, command []string, log io.Writer) (*Process, error) {
	if len(command) == 0 {
		return nil, errors.New("start the load generator: no command given")
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = closeWithin
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the load generator: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the load generator %q: %w", command[0], err)
	}
	p := overLink(Link{In: input, Out: pipe, Kill: func() { _ = cmd.Process.Kill() }, Wait: cmd.Wait}) // it may have ended already
	p.pid = cmd.Process.Pid
	return p, nil
}

// kill ends the process by force, and any read of what it writes: whatever it
// has started could hold its end of the pipe open.
func (p *Process) kill() {
	p.Kill()
	_ = p.Out.Close()
}

// PID is the process's id, for whoever watches what it uses; 0 on another machine.
func (p *Process) PID() int { return p.pid }

// Run has the process carry out plan, and returns what came of it. onWindow is
// called with each second as it arrives, on the caller's goroutine; it may be
// nil. If it returns a text, the load ends early and that text is why. An invalid plan is an error, and the next plan may be run. When ctx
// ends, or the process does, the load stops and no other plan can be run.
func (p *Process) Run(ctx context.Context, plan load.Plan, onWindow func(load.Window) (stop string)) (load.Result, error) {
	if p.broken != nil {
		return load.Result{}, fmt.Errorf("load generator: it ended earlier: %w", p.broken)
	}
	if err := ctx.Err(); err != nil {
		return load.Result{}, fmt.Errorf("load generator: %w", context.Cause(ctx))
	}
	var err error
	if p.FilesBelow != "" {
		plan, err = plan.Below(p.FilesBelow)
	}
	line, errEncode := json.Marshal(plan)
	if err = errors.Join(err, errEncode); err != nil {
		return load.Result{}, fmt.Errorf("load generator: encode the plan: %w", err)
	}
	// The read below has no deadline of its own: a plan lasts as long as it
	// lasts. Whatever ends ctx ends the process, and so the read.
	defer p.killWhenDone(ctx)()
	asked := p.await()
	defer asked.end()
	if _, err := p.In.Write(append(line, '\n')); err != nil {
		return load.Result{}, p.breakDown(ctx, fmt.Errorf("send the plan: %w", err))
	}
	asked.begin()
	for asked.hear() {
		var m message
		if err := json.Unmarshal(p.output.Bytes(), &m); err != nil {
			return load.Result{}, p.breakDown(ctx, fmt.Errorf("it wrote %.80q: %w", p.output.Bytes(), err))
		}
		switch {
		case m.Window != nil:
			if err := p.tell(m.Window, onWindow); err != nil {
				return load.Result{}, p.breakDown(ctx, err)
			}
		case m.Result != nil:
			return *m.Result, nil
		case m.Now != nil: // it is there
			asked.answers++
		default:
			return load.Result{}, fmt.Errorf("load generator: %s", m.Error)
		}
	}
	err = p.output.Err()
	if err == nil {
		err = errors.New("it ended in the middle of a load")
	}
	return load.Result{}, p.breakDown(ctx, err)
}

// asking is the asking of a process for its clock while it offers load.
type asking struct {
	process   *Process
	silence   *time.Timer // kills it
	over      chan struct{}
	done      chan struct{}
	questions atomic.Int64
	answers   int64
}

// await kills the process when nothing of it comes, or nothing can be sent to it, for longer
// than its patience.
func (p *Process) await() *asking {
	a := &asking{process: p, over: make(chan struct{}), done: make(chan struct{})}
	close(a.done)
	if p.patience > 0 {
		a.silence = time.AfterFunc(p.patience, func() {
			p.silent.Store(true)
			p.kill()
		})
	}
	return a
}

// begin asks now and then, once the plan is sent: what is asked before waits for its answer to be
// read, and the plan behind it.
func (a *asking) begin() {
	p := a.process
	if p.patience == 0 {
		return
	}
	a.done = make(chan struct{})
	go func() {
		defer close(a.done)
		tick := time.NewTicker(p.beat)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				a.questions.Add(1)
				if _, err := io.WriteString(p.In, askClock); err != nil {
					return // that it has ended, its output says
				}
			case <-a.over:
				return
			}
		}
	}()
}

// hear reads the next line. What the caller does with it is not silence.
func (a *asking) hear() bool {
	if a.silence != nil {
		a.silence.Reset(a.process.patience)
		defer a.silence.Stop()
	}
	return a.process.output.Scan()
}

// end ends the asking, and hears what is still answered: who writes that would wait for it,
// and hear of no other plan.
func (a *asking) end() {
	close(a.over)
	heard := true
	drain := func() {
		for heard && a.process.broken == nil && a.answers < a.questions.Load() {
			heard = a.hear()
			a.answers++
		}
	}
	drain()
	if heard && a.process.broken == nil {
		<-a.done // it may have asked once more, which is read now that all else is answered
		drain()
	}
	if a.silence != nil {
		a.silence.Stop()
	}
}

// killWhenDone kills the process when ctx ends, until unhook is called. A process that was
// killed after it had said its last is of no more use either.
func (p *Process) killWhenDone(ctx context.Context) (unhook func()) {
	stop := context.AfterFunc(ctx, p.kill)
	return func() {
		if !stop() && p.broken == nil {
			p.broken = context.Cause(ctx)
		}
	}
}

// now asks for the process's clock.
func (p *Process) now(ctx context.Context) (time.Time, error) {
	defer p.killWhenDone(ctx)()
	late := time.AfterFunc(answerWithin, p.kill)
	defer late.Stop()
	if _, err := io.WriteString(p.In, askClock); err != nil {
		return time.Time{}, p.breakDown(ctx, err)
	}
	if !p.output.Scan() {
		err := p.output.Err()
		if err == nil {
			err = errors.New("it does not answer: generator.log has what was said there; does it let you in without a password, and is loadstone on the PATH there?")
		}
		return time.Time{}, p.breakDown(ctx, err)
	}
	var m message
	if err := json.Unmarshal(p.output.Bytes(), &m); err != nil || m.Now == nil {
		return time.Time{}, p.breakDown(ctx, fmt.Errorf("it wrote %.80q in place of the time; is it the same version of this program?", p.output.Bytes()))
	}
	if m.Wire != wire {
		return time.Time{}, p.breakDown(ctx, errors.New("it is of another version of this program; install the same there and here"))
	}
	return *m.Now, nil
}

// tell calls onWindow, and sends on its word to stop.
func (p *Process) tell(w *load.Window, onWindow func(load.Window) string) error {
	if onWindow == nil {
		return nil
	}
	why := onWindow(*w)
	if why == "" {
		return nil
	}
	line, err := json.Marshal(map[string]string{"stop": why})
	if err != nil {
		return fmt.Errorf("encode the word to stop: %w", err)
	}
	if _, err := p.In.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("stop the load: %w", err)
	}
	return nil
}

// breakDown notes that the process is of no more use, and says why: because
// ctx ended, if it did.
func (p *Process) breakDown(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case p.silent.Load():
		err = errSilent
	}
	p.broken = err
	p.kill()
	return fmt.Errorf("load generator: %w", err)
}

// Close ends the process and waits for it: by closing its input, and by force
// if that does not help within closeWithin. It returns an error if the process
// failed in a way that Run has not reported.
func (p *Process) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	_ = p.In.Close() // fails only if the process has closed it by ending
	kill := time.AfterFunc(closeWithin, p.kill)
	defer kill.Stop()
	for p.output.Scan() {
		// Let it finish what it is writing; nobody wants it any more.
	}
	err := p.Wait()
	if err != nil && p.broken == nil {
		return fmt.Errorf("load generator: %w", err)
	}
	return nil
}
