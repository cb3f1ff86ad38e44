package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"runtime"
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
	urls         []string
	header       http.Header
	tls          *tls.Config
	script       *script
	writeBuffer  int

	count    counters
	roster   *roster                  // nil unless messages are due at all members
	talkers  []atomic.Pointer[talker] // by client; those that never were are nil
	lanes    []*lane
	pacer    *pacer
	sweeper  *sweeper
	chunks   sync.Pool // of *chunk
	messages sync.Pool // of *[]byte
	writes   sync.Pool // the library's

	dialling context.Context //nolint:containedctx // the life of the connects: they outlast the caller's by the time of graceful stop
	cutDials context.CancelFunc
	dials    sync.WaitGroup // connects under way
	work     sync.WaitGroup // readers and flushes

	stopping chan struct{} // closed by stop
	stop     func()
	cutAt    atomic.Int64 // when what is under way is cut off

	mu      sync.Mutex
	clients []*client
	wanted  int

	failures sync.Mutex
	failed   []error
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
		header:       http.Header{},
		tls:          &tls.Config{MinVersion: tls.VersionTLS12},
		talkers:      make([]atomic.Pointer[talker], config.Senders),
		stopping:     make(chan struct{}),
	}
	g.stop = sync.OnceFunc(func() { close(g.stopping) })
	if config.TLS != nil {
		g.tls = config.TLS.Clone()
	}
	g.tls.NextProtos = []string{"http/1.1"} // a WebSocket handshake is that
	for _, base := range config.URLs {
		g.urls = append(g.urls, strings.TrimSuffix(base, "/")+config.Path)
	}
	for name, value := range config.Header {
		g.header.Set(name, value)
	}
	if config.tracked() && config.Deliver == load.DeliverAll {
		g.roster = newRoster(config.Clients)
	}
	g.cutAt.Store(int64(never))
	g.chunks.New = func() any { return new(chunk) }
	g.messages.New = func() any { b := make([]byte, 2048); return &b }
	g.sweeper = &sweeper{group: g}
	if err := g.prepare(); err != nil {
		return nil, fmt.Errorf("websocket clients: %w", err)
	}
	return g, nil
}

// prepare makes what can fail.
func (g *Group) prepare() error {
	var err error
	if g.script, err = newScript(g.config.Message); err != nil {
		return err
	}
	g.writeBuffer = max(512, g.script.most())
	g.pacer = &pacer{group: g, slots: make(chan struct{}, dialsAtOnce)}
	if g.pacer.alarm, err = newAlarm(); err != nil {
		return err
	}
	for range min(sendersAtOnce, runtime.GOMAXPROCS(0)) {
		a, err := newAlarm()
		if err != nil {
			return errors.Join(err, g.closeAlarms())
		}
		g.lanes = append(g.lanes, &lane{group: g, alarm: a})
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
	if g.config.sends() && i < g.config.Senders {
		c.talker = &talker{
			client: c, lane: g.lanes[i%len(g.lanes)],
			schedule: newSchedule(&g.config, i), place: -1,
		}
		c.talker.ledger.oldest.Store(int64(never))
		g.talkers[i].Store(c.talker)
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
	var sending, sweeping sync.WaitGroup
	sending.Go(func() { g.check(g.pacer.run()) }) //nolint:contextcheck // connects have a context of their own, see dialling
	for _, l := range g.lanes {
		sending.Go(func() { g.check(l.run()) })
	}
	over := make(chan struct{})
	sweeping.Go(func() { g.sweeper.run(over) })

	select {
	case <-g.stopping:
	case <-ctx.Done():
		g.Stop(0)
	}
	g.check(g.pacer.stop())
	for _, l := range g.lanes {
		g.check(l.stop())
	}
	sending.Wait()
	g.endSchedules()
	g.drain(ctx)
	g.cutDials()
	g.dials.Wait()
	close(over)
	sweeping.Wait()
	g.cutOff()
	g.closeAll()
	g.work.Wait()
	g.check(g.closeAlarms())
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
	for i := range g.talkers {
		if t := g.talkers[i].Load(); t != nil {
			t.end(now)
		}
	}
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

// join makes a client a member, now or after JoinAfter. It is locked.
func (g *Group) join(c *client, now time.Duration) {
	if g.roster == nil {
		return
	}
	if g.config.JoinAfter == 0 {
		g.roster.set(c.index, true)
		return
	}
	g.sweeper.mu.Lock()
	defer g.sweeper.mu.Unlock()
	g.sweeper.joining = append(g.sweeper.joining, joining{at: now + g.config.JoinAfter, client: c, link: c.link.Load()})
}

// quit takes a client out of the members.
func (g *Group) quit(c *client) {
	if g.roster != nil {
		g.roster.set(c.index, false)
	}
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
			l.farewell()
		}
		c.mu.Unlock()
	}
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

// closeAlarms frees the timers.
func (g *Group) closeAlarms() error {
	var errs []error
	for _, l := range g.lanes {
		errs = append(errs, l.alarm.file.Close())
	}
	if g.pacer != nil && g.pacer.alarm != nil {
		errs = append(errs, g.pacer.alarm.file.Close())
	}
	return errors.Join(errs...)
}
