package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

const (
	// answerWithin bounds a call: milliseconds of work, and a network in between.
	answerWithin = 10 * time.Second
	// startWithin bounds the first one, before which ssh asks and agrees, and the agent and its
	// keeper are started, one after the other.
	startWithin = time.Minute
	// clockRounds is how often the clock is asked; the fastest answer counts.
	clockRounds = 8
)

// Remote is a machine that is watched by an agent.
type Remote struct {
	name   string
	link   Link
	client *rpc.Client
	once   sync.Once
	err    error         // of Close
	closed chan struct{} // once it is
	lost   atomic.Pointer[lostError]
	hello  Hello
	// there is what the agent's clock said at here, to within uncertain.
	here, there time.Time
	uncertain   time.Duration

	mu    sync.Mutex
	asked map[string]bool // the names of all instances that it was asked for
}

// Link is the standard input and output of an agent that runs already. The end of its input
// ends it; Kill ends it at once, and Wait returns when it has ended.
type Link struct {
	In   io.WriteCloser
	Out  io.ReadCloser
	Kill func()
	Wait func() error
}

// Start starts an agent by its command and waits until it answers. What the command writes
// to standard error goes to log. name is what the machine is called.
func Start(ctx context.Context, name string, argv []string, log io.Writer) (*Remote, error) {
	link, _, err := command(ctx, argv, log)
	if err != nil {
		return nil, fmt.Errorf("start the agent on %s: %w", name, err)
	}
	r, err := Connect(ctx, name, link)
	if err != nil {
		return nil, fmt.Errorf("start the agent on %s (%s): %w", name, strings.Join(argv, " "), err)
	}
	return r, nil
}

// command starts an agent.
func command(ctx context.Context, argv []string, log io.Writer) (Link, *exec.Cmd, error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...) //nolint:gosec // this program, or the user's own ssh
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is the lab's
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	err := errors.Join(errIn, errOut)
	if err == nil {
		err = cmd.Start()
	}
	return Link{In: in, Out: out, Kill: func() { _ = cmd.Process.Kill() }, Wait: cmd.Wait}, cmd, err
}

// Connect waits until an agent answers that runs already, and ends it if it does not. name is
// what its machine is called.
func Connect(ctx context.Context, name string, link Link) (*Remote, error) {
	r := &Remote{name: name, link: link, client: jsonrpc.NewClient(&pipes{newLines(link.Out), link.In}), closed: make(chan struct{}), asked: map[string]bool{}}
	err := r.call(ctx, startWithin, "Hello", struct{}{}, &r.hello)
	if err == nil && r.hello.Wire != wire {
		err = errors.New("it is of another version of this program; install the same there and here")
	}
	if err == nil {
		go r.beat(context.WithoutCancel(ctx))
		err = r.compareClocks(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// beat has the agent hear of the lab until the agent is closed, or gone.
func (r *Remote) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.closed:
			return
		case <-tick.C:
		}
		if err := r.call(ctx, answerWithin, "Beat", struct{}{}, &struct{}{}); err != nil {
			return // who waits for samples, or changes a limit, sees the same
		}
	}
}

// pipes are the two of a process as one.
type pipes struct {
	io.Reader
	in io.WriteCloser
}

func (p *pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the agent's input, which ends the agent.
func (p *pipes) Close() error { return p.in.Close() }

// lostError is an agent that has not answered in time. It is asked nothing any more: whoever
// asks for many things would wait for each of them.
type lostError struct{ after time.Duration }

func (e *lostError) Error() string {
	return fmt.Sprintf("it has not answered for %v: it is stopped, or the connection to it is lost; what it has limited is restored by its keeper", e.after)
}

// call calls the agent and waits for its answer.
func (r *Remote) call(ctx context.Context, within time.Duration, method string, args, reply any) error {
	if lost := r.lost.Load(); lost != nil {
		return lost
	}
	late := time.NewTimer(within)
	defer late.Stop()
	// What sends a request may stand still, too: the way to the agent may take nothing.
	answered := make(chan error, 1)
	go func() { answered <- r.client.Call(serviceName+"."+method, args, reply) }()
	var err error
	select {
	case err = <-answered:
	case <-late.C:
		lost := &lostError{within}
		r.lost.Store(lost)
		return lost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpc.ErrShutdown), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return errors.New("it has ended, or the connection to it has")
	case err.Error() == host.ErrUnsupported.Error():
		return host.ErrUnsupported // errors are texts on the way
	default:
		return err
	}
}

// compareClocks compares them by the fastest answer: it was given between the call
// and the answer, so half of that time is what it is uncertain by.
func (r *Remote) compareClocks(ctx context.Context) error {
	for i := range clockRounds {
		var there time.Time
		asked := time.Now()
		if err := r.call(ctx, answerWithin, "Now", struct{}{}, &there); err != nil {
			return err
		}
		half := time.Since(asked) / 2
		if i == 0 || half < r.uncertain {
			r.here, r.there, r.uncertain = asked.Add(half), there, half
		}
	}
	return nil
}

// Find finds instances, which are what the host watches from now on.
func (r *Remote) Find(ctx context.Context, wanted []Wanted) ([]Found, error) {
	r.mu.Lock()
	for _, w := range wanted {
		r.asked[w.Name] = true
	}
	r.mu.Unlock()
	var found []Found
	if err := r.call(ctx, answerWithin, "Find", wanted, &found); err != nil {
		return nil, fmt.Errorf("find instances on %s: %w", r.name, err)
	}
	if len(found) != len(wanted) {
		return nil, fmt.Errorf("find instances on %s: it answers of %d, not %d; is it the same version of this program?", r.name, len(found), len(wanted))
	}
	return found, nil
}

// Machine describes the machine.
func (r *Remote) Machine() host.Machine { return r.hello.Machine }

// Boot is that of host.Boot there.
func (r *Remote) Boot() string { return r.hello.Boot }

// Clock is how far the machine's clock is ahead of this one's, and how exactly that is
// known.
func (r *Remote) Clock() (ahead, uncertain time.Duration) { return r.there.Sub(r.here), r.uncertain }

// Writable says whether the agent could write control groups of containers, which it only reads.
func (r *Remote) Writable() bool { return r.hello.Writable }

// Watch is that of host.Host. Times are those of this machine's clock.
func (r *Remote) Watch(ctx context.Context, every time.Duration, emit func(*host.Sample) error) (err error) {
	wrap := func(err error) error { return fmt.Errorf("watch %s: %w", r.name, err) }
	if err := r.call(ctx, answerWithin, "Watch", every, &struct{}{}); err != nil {
		return wrap(err)
	}
	var first, last time.Time
	for n := 0; ; n++ {
		var s host.Sample
		err := r.call(ctx, every+answerWithin, "Next", struct{}{}, &s)
		if ctx.Err() != nil {
			if err := r.call(context.WithoutCancel(ctx), answerWithin, "Stop", struct{}{}, &struct{}{}); err != nil {
				return wrap(err)
			}
			return nil
		}
		if err != nil {
			return wrap(err)
		}
		// Counted from one moment, so that neither side's clock matters when it is set.
		s.At = r.here.Add(s.At.Sub(r.there))
		if err := r.check(&s, last); err != nil {
			return wrap(err)
		}
		if n == 0 {
			first = s.At
		}
		// The first may have been late. Whoever tells more fills the disk.
		if in := s.At.Sub(first); in+answerWithin < time.Duration(n)*every {
			return wrap(fmt.Errorf("it tells %d samples of %v, and was asked for one every %v", n+1, in, every))
		}
		last = s.At
		if err := emit(&s); err != nil {
			return err
		}
	}
}

// check says what is wrong with a sample, that follows one of some moment: names that come from
// the other side would be kept for as long as a run takes.
func (r *Remote) check(s *host.Sample, last time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]bool{}
	for i := range s.Instances {
		name := s.Instances[i].Name
		if !r.asked[name] || seen[name] {
			return fmt.Errorf("it tells of %.80q, for which it was not asked, or twice", name)
		}
		seen[name] = true
	}
	if s.Slow != nil && len(s.Slow.Instances) != len(s.Instances) {
		return fmt.Errorf("it tells of %d instances, and once a second of %d", len(s.Instances), len(s.Slow.Instances))
	}
	if !s.At.After(last) {
		return fmt.Errorf("a sample is of %v before the one before it", last.Sub(s.At))
	}
	// Others would wait for that moment.
	if ahead := time.Until(s.At); ahead > answerWithin {
		return fmt.Errorf("a sample is of %v from now; was this machine suspended, or the clock of the other corrected?", ahead.Round(time.Millisecond))
	}
	return nil
}

// Limit is that of host.Host.
func (r *Remote) Limit(ctx context.Context, target string, factor float64) error {
	err := r.call(ctx, answerWithin, "Limit", Change{target, factor}, &struct{}{})
	if err != nil {
		return fmt.Errorf("%s on %s: %w", target, r.name, err)
	}
	return nil
}

// Share is the share of the CPU that a target is held to, in cores; 0 for no limit.
func (r *Remote) Share(ctx context.Context, target string) (cores float64, err error) {
	if err := r.call(ctx, answerWithin, "Share", target, &cores); err != nil {
		return 0, fmt.Errorf("%s on %s: %w", target, r.name, err)
	}
	return cores, nil
}

// Signal sends a signal to all processes of a target that was found as a container.
func (r *Remote) Signal(ctx context.Context, target string, signal syscall.Signal) (cgroup.Signalled, error) {
	var s cgroup.Signalled
	if err := r.call(ctx, answerWithin, "Signal", Signal{target, int(signal)}, &s); err != nil {
		return s, fmt.Errorf("%s on %s: %w", target, r.name, err)
	}
	return s, nil
}

// Outsiders is that of host.Host: what else runs on another machine is not looked at.
func (r *Remote) Outsiders() (since func() []host.Process) {
	return func() []host.Process { return nil }
}

// Close ends the agent, which restores all limits, and waits for it. One that is lost is
// killed, and its keeper restores them.
func (r *Remote) Close() error {
	r.once.Do(func() { r.err = r.close() })
	return r.err
}

func (r *Remote) close() error {
	close(r.closed)
	err := r.client.Close()
	patience := answerWithin
	lost := r.lost.Load() != nil
	if lost {
		patience = 0
	}
	kill := time.AfterFunc(patience, r.link.Kill)
	defer kill.Stop()
	if errWait := r.link.Wait(); errWait != nil && !lost { // which was told
		err = errors.Join(err, fmt.Errorf("the agent on %s: %w", r.name, errWait))
	}
	return err
}
