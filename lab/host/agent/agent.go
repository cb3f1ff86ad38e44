// Package agent watches and limits a machine from another one. Serve is the agent's
// side, `loadstone internal agent`: it answers calls on its standard input and output, one
// line of JSON each (JSON-RPC 1.0), and opens no port. Remote is the other side: a
// host.Host that starts such an agent, on this machine or over ssh, or is connected to one in a pod,
// and asks it.
//
// An agent starts nothing, and ends nothing that it was given an address of. It finds the
// processes that listen on the addresses it is given, reads them, and changes the CPU limits of those
// that it is allowed to. One in a pod finds containers instead, and sends them signals, too; it changes
// no control group.
//
// # Who is believed
//
// Over ssh whoever writes to the agent is who started it. The input of a pod is that of everybody
// who may attach to it, and the agent in it is root on its node. So an agent that finds containers is told
// when it is started where their control groups are, and the public key of its lab; it does nothing to
// a container that the lab has not signed. Others who attach can name none, and ask for no more than the lab has:
// they can have the instances of the run signalled. What is not checked is the name space of a container's
// pod, which a node does not tell without the API; whoever has the lab's key, which leaves its memory nowhere,
// names what they like. Who may run a command in the pod, or make another one like it, needs no agent.
//
// # Limits are restored
//
// When the lab ends, the agent's input does, and the agent restores every limit before it
// ends itself. It does so as well when it has heard nothing for silentFor: the input of a lab
// that is stopped, or to which the connection is lost, may stay open for hours. Should the
// agent be killed, too, its keeper does it: a process in a session of its own that hears of
// each limit before it is changed, and restores what is still changed when the agent is gone, or
// when it has heard nothing of it for keptFor: an agent may be stopped as well.
// The keeper also holds a lock on each group that is changed, so that a second lab does not
// take a changed limit for what it has to restore.
//
//	lab ── calls ──► agent ── "this limit is to be changed" ──► keeper
package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"slices"
	"sync"
	"time"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

// serviceName is what calls name the agent.
const serviceName = "Agent"

const (
	// beatEvery is how often a lab calls its agent, whatever else it calls, and silentFor how
	// long an agent bears to hear nothing: much longer, since both may wait for a core.
	beatEvery = 3 * time.Second
	silentFor = 30 * time.Second
	// firstWithin is how long it waits for the first word, before which it has done nothing: the lab turns to
	// the agents in a cluster when all of them run, for which some nodes have to pull an image.
	firstWithin = 10 * time.Minute
	// keptFor is how long a keeper bears to hear nothing of its agent, which would have ended
	// by itself by then.
	keptFor = 2 * silentFor
)

// Wanted is an instance to be found.
type Wanted struct {
	Name    string // api-1
	Address string // host:port, as a client reaches it
	// Container is the id of its container, which it is found by in place of an address where that is
	// what an agent does.
	Container string
	// MayLimit says whether its CPU may be limited.
	MayLimit bool
	// Seal is the lab's signature of all that; see Sealed.
	Seal []byte
}

// Sealed is the same with the signature of a lab.
func (w Wanted) Sealed(by ed25519.PrivateKey) Wanted {
	w.Seal = ed25519.Sign(by, w.text())
	return w
}

// text is what is signed.
func (w Wanted) text() []byte {
	return fmt.Appendf(nil, "loadstone agent: %q %q %v", w.Name, w.Container, w.MayLimit)
}

// Found is what was found of it.
type Found struct {
	PID int // of its first process
	// Version is that of its control group; 0 if it has none of its own, and /proc is
	// read.
	Version int
	// CPUs is its CPU limit in cores; 0 for none.
	CPUs float64
	// Unseen is why it cannot be seen; empty if it can. Note is what to know of it.
	Unseen, Note string
}

// Hello is what an agent says of itself.
type Hello struct {
	// Wire is that of the agent; see wire.
	Wire    string
	Machine host.Machine
	// Boot is the start of its machine's kernel, by which agents on one machine are told.
	Boot string
	// Writable says whether the control groups of containers, which it only reads, could be written: one
	// that is taken over could do it.
	Writable bool
}

// Change is a change of a limit; see host.Host.
type Change struct {
	Target string
	Factor float64
}

// Config is what an agent is started with. Nothing that it is asked for changes it.
type Config struct {
	Keeper []string // the argv of a program that runs Keep
	// Containers is where the control groups of its machine are mounted, for an agent that finds
	// containers; empty for one that finds who listens on addresses.
	Containers string
	// Lab is the key of the lab that names the containers.
	Lab ed25519.PublicKey
}

// Flags of the command that an agent is, by which a pod tells them.
const (
	ContainersFlag = "containers"
	LabFlag        = "lab" // in hexadecimal digits
)

func (c Config) validate() error {
	switch {
	case c.Containers != "" && len(c.Lab) != ed25519.PublicKeySize:
		return fmt.Errorf("agent: one that finds containers has to be told the key of its lab, of %d bytes", ed25519.PublicKeySize)
	case c.Containers == "" && len(c.Lab) > 0: // it would believe everybody
		return errors.New("agent: one that is told the key of its lab finds containers, and has to be told where their control groups are")
	}
	return nil
}

// patience is how long an agent bears to hear nothing.
type patience struct{ first, later time.Duration }

// agent is what is called. Exported methods are the calls.
type agent struct {
	config Config
	began  time.Time       // by which it tells times; see at
	gone   context.Context //nolint:containedctx // its lifetime: until the input ends
	keeper *keeperPipe

	local *host.Local

	limiting sync.Mutex      // held while a limit is changed; guards the keeper and the two below
	told     map[string]bool // which groups' limits the keeper knows, by directory
	over     bool            // no limit is changed any more

	mu      sync.Mutex // guards all below
	targets []host.Target
	allowed map[string]bool // which of them may be limited
	names   map[string]bool // of all that were ever targets
	watch   *watch          // nil while nothing is watched
}

// Serve answers calls until in ends, or nothing comes of it for silentFor, and then restores
// all limits. It leaves a goroutine that reads in, where that does not end.
func Serve(ctx context.Context, in io.Reader, out io.Writer, c Config) error {
	return serve(ctx, in, out, c, patience{firstWithin, silentFor})
}

func serve(ctx context.Context, in io.Reader, out io.Writer, c Config, bears patience) error {
	if err := c.validate(); err != nil {
		return err
	}
	pipe, err := startKeeper(ctx, c.Keeper)
	if err != nil {
		return err
	}
	gone, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	a := &agent{config: c, began: time.Now(), gone: gone, keeper: pipe, names: map[string]bool{}, told: map[string]bool{}}
	a.local = host.NewLocal(a.all)
	server := rpc.NewServer()
	if err := server.RegisterName(serviceName, &calls{a}); err != nil {
		return fmt.Errorf("agent: %w", errors.Join(err, pipe.close()))
	}
	heard, hear := io.Pipe()
	over := func(why error) { //nolint:contextcheck // limits are restored whatever has ended
		end(why)
		_ = a.finish() // first of all: others feel it
		_ = hear.CloseWithError(why)
	}
	silence := time.AfterFunc(bears.first, func() { over(errSilence) })
	defer silence.Stop()
	go handOn(in, hear, func() { silence.Reset(bears.later) })
	beating := a.beatKeeper(func() { over(errKeeper) })
	codec := jsonrpc.NewServerCodec(&connection{in: newLines(heard), out: out, onEnd: over})
	server.ServeCodec(&bounded{codec, make(chan struct{}, mostCalls), gone.Done()})
	end(nil)
	<-beating
	_ = a.turnTo(nil) // nobody asks for its samples any more
	err = context.Cause(gone)
	switch {
	case errors.Is(err, errSilence), errors.Is(err, errKeeper), errors.Is(err, errLine):
		err = fmt.Errorf("agent: %w; limits are restored", err)
	default:
		err = nil
	}
	return errors.Join(err, a.finish(), pipe.close()) //nolint:contextcheck // as above
}

var (
	errSilence = errors.New("nothing was heard of the lab for too long")
	errKeeper  = errors.New("its keeper has ended")
)

// beatKeeper has the keeper hear of the agent, which does nothing without one. What it returns
// is closed when that is over.
func (a *agent) beatKeeper(failed func()) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			select {
			case <-a.gone.Done():
				return
			case <-tick.C:
			}
			a.limiting.Lock()
			err := a.keeper.beat()
			a.limiting.Unlock()
			if err != nil {
				failed()
				return
			}
		}
	}()
	return over
}

// handOn hands on what comes from in, until one of the two ends.
func handOn(in io.Reader, to *io.PipeWriter, heard func()) {
	const room = 4 << 10
	for buf := make([]byte, room); ; {
		n, err := in.Read(buf)
		if n > 0 {
			heard()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = to.CloseWithError(err)
			return
		}
	}
}

// finish restores all limits. None is changed after it.
func (a *agent) finish() error {
	a.limiting.Lock()
	defer a.limiting.Unlock()
	a.over = true
	return a.local.Close()
}

// connection is standard input and output as one.
type connection struct {
	in    io.Reader
	out   io.Writer
	onEnd func(err error)
}

func (c *connection) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err != nil {
		c.onEnd(err)
	}
	return n, err
}

func (c *connection) Write(p []byte) (int, error) { return c.out.Write(p) }
func (c *connection) Close() error                { return nil }

func (a *agent) all() []host.Target {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.targets)
}

// calls are the calls of an agent, as net/rpc has them.
type calls struct{ a *agent }

// Hello describes the machine.
func (c *calls) Hello(_ struct{}, to *Hello) error {
	to.Machine, _ = host.This() // what limits it could set is not asked
	to.Wire, to.Boot = wire, host.Boot("/proc")
	to.Writable = c.a.config.Containers != "" && cgroup.Writable(c.a.config.Containers)
	return nil
}

// Beat has the agent hear of the lab.
func (c *calls) Beat(struct{}, *struct{}) error { return nil }

// Now is the agent's clock.
func (c *calls) Now(_ struct{}, to *time.Time) error {
	*to = c.a.at(time.Now())
	return nil
}

// at is a time as it is told: on a clock that was right when the agent began, and has not been set since. On the
// wire a time is what a clock on the wall shows, and those of nodes are set while they run.
func (a *agent) at(t time.Time) time.Time { return a.began.Add(t.Sub(a.began)) }

// Find finds instances, which are the targets from now on.
func (c *calls) Find(wanted []Wanted, to *[]Found) error {
	a := c.a
	if err := a.config.believe(wanted); err != nil {
		return err
	}
	if err := a.know(wanted); err != nil {
		return err
	}
	targets, found, err := a.find(wanted)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.targets, a.allowed = nil, map[string]bool{}
	for i, t := range targets {
		if found[i].Unseen == "" {
			a.targets = append(a.targets, t)
			// A container's limit is the cluster's to change.
			a.allowed[t.Name] = wanted[i].MayLimit && (a.config.Containers == "" || found[i].CPUs == 0)
		}
	}
	*to = found
	return nil
}

func (a *agent) find(wanted []Wanted) ([]host.Target, []Found, error) {
	if a.config.Containers != "" {
		return a.config.findContainers(wanted)
	}
	return find("/proc", "/", wanted)
}

// mostNames bounds how many instances an agent is asked for, by their names: of each it has
// files open, for as long as it is there. A node has some hundred pods.
const mostNames = 1000

// know counts the names of what is asked for.
func (a *agent) know(wanted []Wanted) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range wanted {
		if a.names[w.Name] = true; len(a.names) > mostNames {
			delete(a.names, w.Name)
			return fmt.Errorf("an agent watches %d instances at the most", mostNames)
		}
	}
	return nil
}

// Limit changes a limit, if that is allowed. The keeper knows before.
func (c *calls) Limit(change Change, _ *struct{}) error {
	a := c.a
	a.mu.Lock()
	allowed := a.allowed[change.Target]
	i := slices.IndexFunc(a.targets, func(t host.Target) bool { return t.Name == change.Target })
	if !allowed || i < 0 {
		a.mu.Unlock()
		return host.ErrUnsupported
	}
	target := a.targets[i]
	a.mu.Unlock()
	a.limiting.Lock()
	defer a.limiting.Unlock()
	if a.over {
		return errors.New("it is ending")
	}
	if err := a.tellKeeper(target); err != nil {
		return err
	}
	return a.local.Limit(a.gone, change.Target, change.Factor)
}

// tellKeeper tells the keeper once that a target's limit is to be changed.
func (a *agent) tellKeeper(t host.Target) error {
	if t.Cgroup.Version == 0 || a.told[t.Cgroup.CPU] {
		return nil
	}
	if len(a.told) == mostNames { // the keeper has files of each open, too
		return fmt.Errorf("an agent changes the limits of %d instances at the most", mostNames)
	}
	if err := a.keeper.tell(t.Cgroup); err != nil {
		return err
	}
	a.told[t.Cgroup.CPU] = true
	return nil
}
