// Package hub has the viewers' connections. It sends them what is said in their rooms, and
// hands on what they say.
//
// A few event loops have all connections, each loop on one thread. A connection is a small
// struct: no goroutine, no timer, no queue. What its viewer has not seen is what lies between
// its cursor and the end of the room, see chat.Room.
//
//	Publish ─► room ─► a note to each loop with viewers of it: something is new
//	                      │
//	                      ▼  at once, or a tick after the last time
//	              loop: the newest frame, made once, written to each viewer
//
// A viewer whose socket takes no more is blocked. Of what it was being sent the rest is kept,
// the end of one frame, and nothing more: the loop passes it by until the socket can be written
// again, and then sends what the room has from the cursor on. What the room no longer has by
// then is left out, and the viewer is told how much that was.
//
// Messages for one viewer alone, acknowledgements and control frames, wait in a buffer of a
// few KiB where the socket is blocked; who fills it is disconnected.
//
// System calls on sockets do not tell the scheduler (ADR 015); those that wait do.
package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"loadstone/block/websocket"
	"loadstone/system/chat"
)

// Config says how to serve viewers. Start from DefaultConfig.
type Config struct {
	// Loops is the number of event loops.
	Loops int
	// Tick is the time between two frames to a viewer while much is said; the second may come after
	// half of it. What is said meanwhile is in one frame. 0 sends as soon as possible.
	Tick time.Duration
	// MaxConns, MaxPerAddress and MaxPerRoom bound the connections, in all, of one address
	// and in one room.
	MaxConns, MaxPerAddress, MaxPerRoom int
	// SendBuffer is what the kernel may hold for a viewer, in bytes, before it is blocked.
	SendBuffer int
	// MaxPrivate bounds the buffer of messages for one viewer alone, in bytes.
	MaxPrivate int
	// MaxRequest bounds a message of a viewer, in bytes.
	MaxRequest int
	// MaxFrames bounds the frames of a viewer in a second, control frames among them.
	MaxFrames int
	// Ping is how long a viewer may be silent before it is asked whether it is there, and
	// Idle before it is disconnected. Both are looked at once a second.
	Ping, Idle time.Duration
	// Stalled is how long a blocked viewer may take nothing before it is disconnected, and
	// MaxBlocked how many may be blocked: those beyond who have taken nothing for longest are
	// disconnected. Both are looked at once a second, and each loop has its share.
	Stalled    time.Duration
	MaxBlocked int
	// CloseTimeout is how long a viewer may take to close a connection too.
	CloseTimeout time.Duration
	// Open returns a room with what its log has. It is called when somebody joins a room in
	// which nobody is.
	Open func(ctx context.Context, id int64) (*chat.Room, error)
	// Gaps says that messages may be missed between those that Publish is told of while a room is opened.
	// They are left out, and viewers are told how many they were. Else a log with a gap is none, see chat.Room.
	Gaps bool
	// Receive is told what a viewer says. It is called by the viewer's event loop and must
	// not block; payload is valid until it returns.
	Receive func(c *Conn, payload []byte)
	// Registerer receives the metrics, see newMetrics.
	Registerer prometheus.Registerer
}

// DefaultConfig is for the open internet. Open, Receive and Registerer are for the caller.
func DefaultConfig() Config {
	return Config{
		Loops: runtime.GOMAXPROCS(0),
		Tick:  50 * time.Millisecond, // below what anybody sees, and twelve messages of a busy room
		// A descriptor and 3 KiB each, and as much again in the kernel.
		MaxConns:      50_000,
		MaxPerAddress: 1000, // the users behind one router of a school or a mobile network
		MaxPerRoom:    50_000,
		SendBuffer:    64 << 10, // some seconds of a busy room
		MaxPrivate:    4 << 10,
		MaxRequest:    chat.MaxRequest,
		MaxFrames:     50, // more than anybody types
		// Routers forget a silent connection after a minute at the earliest.
		Ping: 25 * time.Second, Idle: 90 * time.Second,
		// A tab that was stopped for minutes goes on; each may hold 128 KiB of the kernel's memory.
		Stalled: 5 * time.Minute, MaxBlocked: 10_000,
		CloseTimeout: time.Second,
	}
}

// Validate returns every problem of the numbers, joined.
func (c Config) Validate() error {
	var errs []error
	for _, n := range []struct {
		name       string
		value, min int
	}{
		{"event loops", c.Loops, 1}, {"connections", c.MaxConns, 1}, {"connections of one address", c.MaxPerAddress, 1}, {"connections in one room", c.MaxPerRoom, 1},
		{"bytes of a send buffer", c.SendBuffer, 4 << 10}, {"bytes for one viewer alone", c.MaxPrivate, 512},
		{"bytes of a viewer's message", c.MaxRequest, 128}, {"frames of a viewer in a second", c.MaxFrames, 1},
		{"blocked viewers", c.MaxBlocked, c.Loops},
	} {
		if n.value < n.min {
			errs = append(errs, fmt.Errorf("%d %s: write %d or more", n.value, n.name, n.min))
		}
	}
	if c.Tick < 0 || c.Tick > time.Second {
		errs = append(errs, fmt.Errorf("the tick is %v: write 0 to 1s", c.Tick))
	}
	if c.Ping < time.Second || c.Idle <= c.Ping {
		errs = append(errs, fmt.Errorf("a viewer is asked after %v and disconnected after %v: write 1s or more, and more than that", c.Ping, c.Idle))
	}
	if c.Stalled < time.Second {
		errs = append(errs, fmt.Errorf("a blocked viewer is disconnected after %v: write 1s or more", c.Stalled))
	}
	if c.CloseTimeout <= 0 {
		errs = append(errs, fmt.Errorf("the close timeout is %v: write more than 0", c.CloseTimeout))
	}
	return errors.Join(errs...)
}

// Hub has the connections. It is safe for concurrent use.
type Hub struct {
	cfg     Config
	loops   []*loop
	metrics *metrics
	began   time.Time

	mu        sync.Mutex
	rooms     map[int64]*room
	conns     int
	byAddress map[netip.Addr]int
	next      int // the loop of the next connection
	stopped   bool
}

// room is a room with somebody in it.
type room struct {
	id      int64
	viewers int    // guarded by the hub's mu
	views   []view // one for each loop

	opening chan struct{} // holds one while somebody opens it

	mu     sync.Mutex // never held for long: Publish takes it
	log    *chat.Room // nil until it is opened
	missed []missed   // was published or redacted while it is opened; not nil then
	early  []missed   // was redacted before it is published
}

// missed is a message that was published, or redacted, while its room is opened.
type missed struct {
	offset   uint64
	message  []byte
	redacted bool
}

// maxMissed bounds them, some 2 MB of the longest. A log that takes longer to read is too busy.
const maxMissed = 1024

// New returns a hub that serves once it Runs. Whoever does not Run it must Close it.
func New(cfg Config) (*Hub, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Open == nil || cfg.Receive == nil || cfg.Registerer == nil {
		return nil, errors.New("a hub needs Open, Receive and a Registerer")
	}
	h := &Hub{cfg: cfg, began: time.Now(), rooms: map[int64]*room{}, byAddress: map[netip.Addr]int{}}
	for range cfg.Loops {
		l, err := newLoop(h)
		if err != nil {
			return nil, errors.Join(err, h.Close())
		}
		h.loops = append(h.loops, l)
	}
	h.metrics = newMetrics(h)
	return h, nil
}

// Run serves until ctx ends. Then it tells all viewers that it is going away, and waits
// CloseTimeout for them to go.
func (h *Hub) Run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, l := range h.loops {
		all.Go(l.run)
	}
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		h.mu.Lock()
		h.stopped = true
		h.mu.Unlock()
		for _, l := range h.loops {
			l.stopping.Store(true)
			l.poller.Wake()
		}
	})
	err := all.Wait()
	if !stop() {
		<-told // it wakes the pollers, which Close closes
	}
	return err
}

// Close frees a hub that does not run, or no longer.
func (h *Hub) Close() error {
	var errs []error
	for _, l := range h.loops {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// Publish tells the viewers of a room what was said. It is called once for each message, in
// the order of a room's offsets, once it is durable: who joins meanwhile has it from the log.
// The hub keeps no reference to it.
func (h *Hub) Publish(id int64, offset uint64, message []byte) {
	r := h.room(id)
	if r == nil {
		return
	}
	if !r.append(offset, message) {
		return
	}
	for i := range r.views {
		if v := &r.views[i]; v.present.Load() && !v.dirty.Swap(true) {
			h.loops[i].post(func(m *mail) { m.dirty = append(m.dirty, v) })
		}
	}
}

// room is the room if somebody is in it, or nil.
func (h *Hub) room(id int64) *room {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rooms[id]
}

// Viewers is how many are in a room.
func (h *Hub) Viewers(id int64) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.rooms[id]; r != nil {
		return r.viewers
	}
	return 0
}

// Viewer is who joins.
type Viewer struct {
	Room    int64
	Address netip.Addr
	// Known says that the viewer has seen everything before From.
	Known bool
	From  uint64
	// Hello is the first message to the viewer. What follows begins with the message of
	// that offset; recovered says that this is From.
	Hello func(next uint64, recovered bool) []byte
	// Welcome, if it is there, are the messages after that. It is called by the viewer's event loop and must not
	// block; what is announced after it is told the viewer, too. With an error the connection ends, with its text.
	Welcome func(next uint64, recovered bool) ([][]byte, error)
	// Deflate says that compressed messages were agreed to, see websocket.AgreeDeflate.
	Deflate bool
	// Until is when the connection ends if it has not before, to a second or two. The zero
	// time is never.
	Until time.Time
	// Session is the caller's.
	Session any
}

// Admit reports whether there is room for one more viewer now, for an answer to who asks. Join
// decides.
func (h *Hub) Admit(id int64, address netip.Addr) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.admit(id, address)
}

func (h *Hub) admit(id int64, address netip.Addr) error {
	r := h.rooms[id]
	switch {
	case h.stopped:
		return fmt.Errorf("%w: the server is stopping", chat.ErrFull)
	case h.conns >= h.cfg.MaxConns:
		h.metrics.refusedTotal.Inc()
		return chat.ErrFull
	case h.byAddress[address] >= h.cfg.MaxPerAddress:
		h.metrics.refusedAddress.Inc()
		return chat.ErrTooMany
	case r != nil && r.viewers >= h.cfg.MaxPerRoom:
		h.metrics.refusedRoom.Inc()
		return chat.ErrFull
	}
	return nil
}

// Join gives the hub a socket after its handshake. The descriptor is the hub's if there is no
// error. Errors wrap chat.ErrFull or chat.ErrTooMany, or are Open's.
func (h *Hub) Join(ctx context.Context, fd int, v Viewer) error {
	r, l, err := h.enter(v)
	if err != nil {
		return err
	}
	log, err := r.open(ctx, h.cfg.Open, h.cfg.Gaps)
	if err == nil {
		err = prepare(fd, h.cfg.SendBuffer)
	}
	if err != nil {
		h.leave(r, v.Address)
		return err
	}
	until := time.Duration(math.MaxInt64)
	if !v.Until.IsZero() {
		until = v.Until.Sub(l.began)
	}
	c := &Conn{until: until, Session: v.Session, loop: l, view: &r.views[l.index], fd: fd, address: v.Address, blocked: true}
	c.parser.Deflate = v.Deflate
	recovered := v.Known && v.From <= log.Next()
	if c.cursor = v.From; !recovered {
		c.cursor = log.Recent()
	}
	c.private = websocket.AppendFrame(nil, websocket.Text, v.Hello(c.cursor, recovered))
	if v.Welcome != nil {
		c.welcome = func() ([][]byte, error) { return v.Welcome(c.cursor, recovered) }
	}
	if !l.post(func(m *mail) { m.joins = append(m.joins, c) }) {
		h.leave(r, v.Address)
		return fmt.Errorf("%w: the server is stopping", chat.ErrFull)
	}
	return nil
}

// enter counts a viewer, and chooses its loop: one after the other.
func (h *Hub) enter(v Viewer) (*room, *loop, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.admit(v.Room, v.Address); err != nil {
		return nil, nil, err
	}
	r := h.rooms[v.Room]
	if r == nil {
		r = &room{id: v.Room, opening: make(chan struct{}, 1), views: make([]view, len(h.loops))}
		for i := range r.views {
			r.views[i].room = r
		}
		h.rooms[v.Room] = r
	}
	r.viewers++
	h.conns++
	h.byAddress[v.Address]++
	l := h.loops[h.next%len(h.loops)]
	h.next++
	return r, l, nil
}

// leave is the inverse. A room without viewers is forgotten; its log has it.
func (h *Hub) leave(r *room, address netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns--
	if h.byAddress[address]--; h.byAddress[address] == 0 {
		delete(h.byAddress, address)
	}
	if r.viewers--; r.viewers == 0 {
		delete(h.rooms, r.id)
	}
}

// append adds a message and reports whether viewers are to be told. Where the room is being
// opened, the message waits for it.
func (r *room) append(offset uint64, message []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.log != nil:
		if i := slices.IndexFunc(r.early, func(m missed) bool { return m.offset == offset }); i >= 0 {
			message = r.early[i].message
			r.early = slices.Delete(r.early, i, i+1)
		}
		return r.log.Append(offset, message)
	case r.missed != nil && len(r.missed) < maxMissed:
		r.missed = append(r.missed, missed{offset: offset, message: bytes.Clone(message)})
	}
	return false
}

// open returns the room's log. Whoever comes while it is opened waits, until ctx ends. Where
// that failed, the next one tries again.
func (r *room) open(ctx context.Context, how func(context.Context, int64) (*chat.Room, error), gaps bool) (*chat.Room, error) {
	select {
	case r.opening <- struct{}{}:
		defer func() { <-r.opening }()
	case <-ctx.Done():
		return nil, fmt.Errorf("open room %d: %w", r.id, ctx.Err())
	}
	r.mu.Lock()
	log := r.log
	if log == nil {
		r.missed = []missed{} // from here on nothing is lost: what was published before is in the log
	}
	r.mu.Unlock()
	if log != nil {
		return log, nil
	}
	log, err := how(ctx, r.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	meanwhile := r.missed
	r.missed = nil
	if err == nil && len(meanwhile) == maxMissed {
		err = chat.ErrOverloaded
	}
	if err != nil {
		return nil, fmt.Errorf("open room %d: %w", r.id, err)
	}
	r.log = log
	for _, m := range meanwhile {
		switch {
		case m.redacted:
			r.put(m)
		case gaps:
			log.Skip(m.offset)
			fallthrough
		default:
			log.Append(m.offset, m.message)
		}
	}
	return log, nil
}
