package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"loadstone/lab/load"
)

// Group is the clients of one scenario. New makes it, SetClients says how many
// there are to be, Run carries it out until Stop.
type Group struct {
	config       Config
	tracked      bool // messages are waited for
	mostUnderWay int  // messages of one sender
	servers      []server
	headers      []header // of the handshake
	hasHost      bool     // among them
	path         template
	room, hello  template // hello is nil for none
	login        *login   // nil for none
	tls          *tls.Config
	script       *script
	recovery     *recovery // nil for none

	count   counters
	rooms   rooms
	notices []notice                 // by client; nil if servers do not say what they leave out
	talkers []atomic.Pointer[talker] // by client; those that never were are nil
	pingers []atomic.Pointer[talker] // likewise
	lanes   []*lane
	loops   []*loop
	pacer   *pacer
	sweeper *sweeper
	chunks  sync.Pool // of *chunk

	dialling context.Context //nolint:containedctx // the life of the connects: they outlast the caller's by the time of graceful stop
	cutDials context.CancelFunc
	dials    sync.WaitGroup // connects under way
	work     sync.WaitGroup // open connections and flushes

	stopping chan struct{} // closed by stop
	stop     func()
	cutAt    atomic.Int64 // when what is under way is cut off

	mu      sync.Mutex
	clients []*client
	wanted  int

	failures sync.Mutex
	failed   []error
}

// server is where a URL leads.
type server struct {
	secure        bool
	address, name string // with a port, and without
	host, path    string // of a request
}

// newServer reads a URL.
func newServer(raw string) (server, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return server{}, err
	}
	s := server{secure: u.Scheme == "wss", name: u.Hostname(), host: u.Host, path: strings.TrimSuffix(u.EscapedPath(), "/")}
	port := u.Port()
	if port == "" {
		port = map[bool]string{false: "80", true: "443"}[s.secure]
	}
	s.address = net.JoinHostPort(s.name, port)
	return s, nil
}

// sendersAtOnce bounds the lanes. One sends some hundred thousand messages a
// second, which is more than there are processors for.
const sendersAtOnce = 4

// New prepares the clients. It fails if the configuration is not valid, and if
// the machine refuses a timer or random bytes. Run must be called, also if the
// Group is to be stopped at once: it frees what New took.
func New(config Config) (*Group, error) {
	g := &Group{
		config:       config,
		tracked:      config.tracked(),
		mostUnderWay: config.mostUnderWay(),
		tls:          &tls.Config{MinVersion: tls.VersionTLS12},
		talkers:      make([]atomic.Pointer[talker], config.Senders),
		rooms:        rooms{byName: map[string]*roster{}},
		stopping:     make(chan struct{}),
	}
	g.stop = sync.OnceFunc(func() { close(g.stopping) })
	if config.TLS != nil {
		g.tls = config.TLS.Clone()
	}
	g.tls.NextProtos = []string{"http/1.1"} // a WebSocket handshake is that
	if config.Ping > 0 {
		g.pingers = make([]atomic.Pointer[talker], config.Clients)
	}
	if config.Skipped != "" {
		g.notices = make([]notice, config.Clients)
	}
	g.cutAt.Store(int64(never))
	g.chunks.New = func() any { return new(chunk) }
	g.sweeper = &sweeper{group: g}
	if err := errors.Join(g.compile(), g.prepare()); err != nil {
		return nil, errors.Join(fmt.Errorf("websocket clients: %w", err), g.free())
	}
	return g, nil
}

// fansOut says whether messages are due at all members of a room.
func (g *Group) fansOut() bool { return g.tracked && g.config.Deliver == load.DeliverAll }

// compile reads the texts of the configuration.
func (g *Group) compile() error {
	c := &g.config
	var errs []error
	g.recovery = newRecovery(c.Recover)
	text := func(from string) template {
		t, err := g.template(from, "")
		errs = append(errs, err)
		return t
	}
	for _, raw := range c.URLs {
		s, err := newServer(raw)
		g.servers, errs = append(g.servers, s), append(errs, err)
	}
	g.path, g.room = text(c.Path), text(c.Room)
	if c.Hello != "" {
		hello, err := g.pieces(load.TextPieces(c.Hello), "")
		g.hello, errs = hello, append(errs, err)
	}
	var err [3]error
	g.headers, err[0] = g.headerLines(c.Header)
	for name := range c.Header {
		g.hasHost = g.hasHost || strings.EqualFold(name, "host")
	}
	g.login, err[1] = g.newLogin()
	g.script, err[2] = g.newScript()
	return errors.Join(append(errs, err[:]...)...)
}

// headerLines compiles header fields, in the order of their names.
func (g *Group) headerLines(from map[string]string) ([]header, error) {
	var out []header
	for _, name := range slices.Sorted(maps.Keys(from)) {
		value, err := g.template(from[name], "")
		if err != nil {
			return nil, err
		}
		out = append(out, header{name, value})
	}
	return out, nil
}

// prepare makes what the machine can refuse.
func (g *Group) prepare() error {
	var err error
	g.pacer = &pacer{group: g, slots: make(chan struct{}, dialsAtOnce)}
	if g.pacer.alarm, err = newAlarm(); err != nil {
		return err
	}
	for range min(sendersAtOnce, runtime.GOMAXPROCS(0)) {
		a, err := newAlarm()
		if err != nil {
			return err
		}
		g.lanes = append(g.lanes, &lane{group: g, alarm: a})
	}
	for range max(1, g.config.Loops) {
		l, err := newLoop(g)
		if err != nil {
			return err
		}
		g.loops = append(g.loops, l)
	}
	// Not the context of Run's caller: what is under way outlasts it by the time
	// of a cut, so that all of it is accounted for.
	g.dialling, g.cutDials = context.WithCancel(context.Background())
	return nil
}

// SetClients says how many clients there are to be from now on: the first n. It
// may be called at any time, also before Run; after Stop it does nothing.
func (g *Group) SetClients(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isStopping() {
		return
	}
	n = min(max(n, 0), g.config.Clients)
	now := g.config.Now()
	for i := g.wanted; i < n; i++ {
		if i == len(g.clients) {
			g.clients = append(g.clients, g.newClient(i))
		}
		g.clients[i].want(now)
	}
	for i := n; i < g.wanted; i++ {
		g.clients[i].leave(now)
	}
	g.wanted = n
}

// newClient makes client number i.
func (g *Group) newClient(i int) *client {
	c := &client{group: g, index: i}
	talker := func(of schedule, ping bool) *talker {
		t := &talker{client: c, lane: g.lanes[i%len(g.lanes)], schedule: of, ping: ping, place: -1}
		t.ledger.oldest.Store(int64(never))
		return t
	}
	if g.config.sends() && i < g.config.Senders {
		c.talker = talker(newSchedule(&g.config, i), false)
		g.talkers[i].Store(c.talker)
	}
	if g.config.Ping > 0 {
		c.pinger = talker(newPings(&g.config, i), true)
		g.pingers[i].Store(c.pinger)
	}
	return c
}

// Stop ends the offered load now: nobody connects or sends any more. What is
// under way has graceful to end and is cut off then. It does not wait, and may
// be called more than once: the earliest cut counts.
func (g *Group) Stop(graceful time.Duration) {
	at := int64(g.config.Now() + max(graceful, 0))
	for {
		before := g.cutAt.Load()
		if at >= before || g.cutAt.CompareAndSwap(before, at) {
			break
		}
	}
	g.stop()
}

func (g *Group) isStopping() bool {
	select {
	case <-g.stopping:
		return true
	default:
		return false
	}
}

// Run carries everything out and returns when it has been stopped and all has
// ended. If ctx ends first, that is a Stop without grace, and an error. Other
// errors are timers that the machine refused. What servers do is never an error.
func (g *Group) Run(ctx context.Context) error {
	var talking, others sync.WaitGroup
	talking.Go(func() { g.check(g.pacer.run()) }) //nolint:contextcheck // connects have a context of their own, see dialling
	for _, l := range g.lanes {
		talking.Go(func() { g.check(l.run()) })
	}
	for _, l := range g.loops {
		others.Go(func() { g.check(l.run()) })
	}
	over := make(chan struct{})
	others.Go(func() { g.sweeper.run(over) })

	select {
	case <-g.stopping:
	case <-ctx.Done():
		g.Stop(0)
	}
	g.check(g.pacer.stop())
	for _, l := range g.lanes {
		g.check(l.stop())
	}
	talking.Wait()
	g.endSchedules()
	g.drain(ctx)
	g.cutDials()
	g.dials.Wait()
	g.cutOff()
	g.closeAll()
	g.work.Wait()
	for _, l := range g.loops {
		l.stop()
	}
	close(over)
	others.Wait()
	g.login.close()
	g.check(g.free())
	if ctx.Err() != nil {
		g.check(fmt.Errorf("websocket clients: %w", context.Cause(ctx)))
	}
	g.failures.Lock()
	defer g.failures.Unlock()
	return errors.Join(g.failed...)
}

// endSchedules drops what was due and could not be sent. The lanes have ended.
func (g *Group) endSchedules() {
	now := g.config.Now()
	g.each(func(t *talker) { t.end(now) })
}

// drainEvery is how often drain looks. It only delays the end of a run.
const drainEvery = 2 * time.Millisecond

// drain waits for what is under way, until it is to be cut off.
func (g *Group) drain(ctx context.Context) {
	dialled := make(chan struct{})
	g.work.Go(func() {
		g.dials.Wait()
		close(dialled)
	})
	ticker := time.NewTicker(drainEvery)
	defer ticker.Stop()
	for int64(g.config.Now()) < g.cutAt.Load() {
		select {
		case <-dialled:
			if g.count.inFlight.Load() == 0 {
				return
			}
			<-ticker.C
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// join makes a client a member after a time, if it is not one before. It is locked.
func (g *Group) join(c *client, now, after time.Duration) {
	if after == 0 {
		c.seat.Load().set(true)
		return
	}
	g.sweeper.joinAt(now+after, c, c.link.Load())
}

// closeAll takes leave of all connections. Frames are sent without waiting and
// all servers have the same second to answer, so this takes about that long.
func (g *Group) closeAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.clients {
		c.mu.Lock()
		if l := c.link.Load(); l != nil && c.state != closing {
			c.state = closing
			l.farewell(g.config.Now())
		}
		c.mu.Unlock()
	}
}

// Worked is the time that each of the threads that read has been at work.
func (g *Group) Worked() []time.Duration {
	var out []time.Duration
	for _, l := range g.loops {
		out = append(out, time.Duration(l.workedNs.Load()))
	}
	return out
}

// check keeps an error for Run to return, and ends everything because of it.
func (g *Group) check(err error) {
	if err == nil {
		return
	}
	g.failures.Lock()
	g.failed = append(g.failed, err)
	g.failures.Unlock()
	g.Stop(0)
}

// free closes timers and pollers.
func (g *Group) free() error {
	var errs []error
	for _, l := range g.lanes {
		errs = append(errs, l.file.Close())
	}
	for _, l := range g.loops {
		errs = append(errs, l.poller.Close())
	}
	if g.pacer != nil && g.pacer.alarm != nil {
		errs = append(errs, g.pacer.file.Close())
	}
	return errors.Join(errs...)
}
