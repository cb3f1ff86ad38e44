package hub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"loadstone/block/httpserver"
	"loadstone/block/websocket"
	"loadstone/system/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Looks at a room that nobody waits for any more do not pile up.
func TestLooksAreBounded(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.Loops, c.Registerer = 2, prometheus.NewRegistry()
	c.Open = func(context.Context, int64) (*chat.Room, error) { return nil, chat.ErrUnavailable }
	c.Receive = func(*Conn, []byte) {}
	h, err := New(c) // its loops do not run: they are busy for long
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.enter(Viewer{Room: 1}); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxNotes {
		if err := h.Each(gone, 1, func(*Conn) {}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := h.Each(t.Context(), 1, func(*Conn) {}); !errors.Is(err, chat.ErrTooMany) {
		t.Errorf("one more: got %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// Loops that flush at different times do so at the same ones soon, and no more often than every half tick; what is said after a pause is
// sent at once.
func TestLoopsFlushTogether(t *testing.T) {
	t.Parallel()
	const tick = 50 * time.Millisecond
	for first := time.Duration(0); first < 3*tick; first += 777 * time.Microsecond {
		last := first
		for i := range 5 {
			now := last + time.Millisecond // there is always something new
			at := nextFlush(last, now, tick)
			if gap := at - last; gap < tick/2 || gap > tick+tick/2 || at%tick != 0 || i > 0 && gap != tick {
				t.Fatalf("after a flush at %v: the next is at %v", last, at)
			}
			last = at
		}
		const late = 200 * time.Microsecond // as it is woken
		if at := nextFlush(last+late, last+2*late, tick); at != last+tick {
			t.Fatalf("after a late flush at %v: the next is at %v", last+late, at)
		}
		if at := nextFlush(last, last+tick+1, tick); at != last+tick+1 {
			t.Fatalf("a pause after %v: the next is at %v", last, at)
		}
	}
	if at := nextFlush(3, 4, 0); at != 4 {
		t.Errorf("without a tick: got %v", at)
	}
}

// long is more than anything takes that does not hang.
const long = time.Minute

// fixture is a running hub whose rooms are empty at first, and remember what was published.
type fixture struct {
	*Hub
	t        *testing.T
	registry *prometheus.Registry
	listener net.Listener
	stop     context.CancelFunc
	ended    chan error

	mu   sync.Mutex
	logs map[int64][][]byte
}

func newFixture(t *testing.T, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, registry: prometheus.NewRegistry(), ended: make(chan error, 1), logs: map[int64][][]byte{}}
	c := DefaultConfig()
	c.Loops, c.Tick, c.Registerer, c.Open = 2, 0, f.registry, f.open
	c.Receive = func(c *Conn, payload []byte) { c.Tell(append([]byte("echo "), payload...)) }
	if change != nil {
		change(&c)
	}
	var err error
	if f.Hub, err = New(c); err != nil {
		t.Fatal(err)
	}
	if f.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() { f.ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-f.ended, f.Close(), f.listener.Close()); err != nil {
			t.Error(err)
		}
		if f.conns != 0 || len(f.rooms) != 0 || len(f.byAddress) != 0 {
			t.Errorf("%d connections, %d rooms and %d addresses are left", f.conns, len(f.rooms), len(f.byAddress))
		}
	})
	return f
}

// open is the hub's Open.
func (f *fixture) open(_ context.Context, id int64) (*chat.Room, error) {
	if id > 100 {
		return nil, chat.ErrNoStream
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := chat.NewRoom(chat.DefaultRoomConfig(), 0)
	for i, m := range f.logs[id] {
		r.Append(uint64(i), m)
	}
	return r, nil
}

// say publishes a message in a room.
func (f *fixture) say(room int64, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	offset := uint64(len(f.logs[room]))
	m := chat.Message{Offset: offset, Sender: "s", Name: "n", ID: "x", Text: text}
	f.logs[room] = append(f.logs[room], m.Append(nil))
	f.Publish(room, offset, f.logs[room][offset])
}

// metric is the sum of a metric's values with these label values.
func (f *fixture) metric(name string, labels ...string) (sum float64) {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (len(labels) == 0 || m.GetLabel()[0].GetValue() == labels[0]) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// await waits until it is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// client is a viewer's end.
type client struct {
	t *testing.T
	net.Conn

	in   *bufio.Reader
	next uint64 // the offset of the message to come
	skip uint64 // how many it was told to have missed

	frames int // with messages
}

// join connects and joins a room; who is a viewer without place but for the fields that are set.
func (f *fixture) join(who Viewer) (*client, error) {
	f.t.Helper()
	near, err := net.Dial("tcp", f.listener.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = near.Close() })
	far, err := f.listener.Accept()
	if err != nil {
		f.t.Fatal(err)
	}
	defer far.Close()
	fd, err := httpserver.Descriptor(far)
	if err != nil {
		f.t.Fatal(err)
	}
	who.Hello = func(next uint64, recovered bool) []byte { return fmt.Appendf(nil, "hello %d %v", next, recovered) }
	if !who.Address.IsValid() {
		who.Address = netip.MustParseAddr("192.0.2.1")
	}
	if err := f.Join(context.Background(), fd, who); err != nil {
		_ = closeFD(fd)
		return nil, err
	}
	return &client{t: f.t, Conn: near, in: bufio.NewReader(near)}, nil
}

// mustJoin joins again where too much was said while the room was opened.
func (f *fixture) mustJoin(who Viewer) *client {
	f.t.Helper()
	c, err := f.join(who)
	for end := time.Now().Add(long); errors.Is(err, chat.ErrOverloaded) && time.Now().Before(end); {
		c, err = f.join(who)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// frame reads a frame, which may take long.
func (c *client) frame() (websocket.Op, string, error) {
	_ = c.SetDeadline(time.Now().Add(long))
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, "", err
	}
	length := uint64(head[1])
	if length > 125 {
		more := make([]byte, map[uint64]int{126: 2, 127: 8}[length])
		if _, err := io.ReadFull(c.in, more); err != nil {
			return 0, "", err
		}
		length = 0
		for _, b := range more {
			length = length<<8 | uint64(b)
		}
	}
	payload := make([]byte, length)
	_, err := io.ReadFull(c.in, payload)
	return websocket.Op(head[0] & 15), string(payload), err
}

// expect reads a frame that must be this.
func (c *client) expect(op websocket.Op, text string) {
	c.t.Helper()
	if got, payload, err := c.frame(); got != op || payload != text || err != nil {
		c.t.Fatalf("got %x %.200q, %v, want %x %q", got, payload, err, op, text)
	}
}

// closed reads to the end, which must be a close frame of this code.
func (c *client) closed(code websocket.Code) {
	c.t.Helper()
	for {
		op, payload, err := c.frame()
		if err != nil {
			c.t.Fatalf("no close frame, want code %d: %v", code, err)
		}
		if op != websocket.Close {
			continue
		}
		if got := websocket.Code(binary.BigEndian.Uint16([]byte(payload))); got != code {
			c.t.Fatalf("closed with %d %q, want %d", got, payload[2:], code)
		}
		break
	}
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
		c.t.Errorf("after the close frame: %v", err)
	}
	_ = c.Close()
}

// read reads messages to before an offset. Each must be the next, or announced as skipped.
func (c *client) read(to uint64) {
	c.t.Helper()
	for c.next < to {
		op, payload, err := c.frame()
		var form struct {
			Type     string         `json:"type"`
			Messages []chat.Message `json:"messages"`
			Count    uint64         `json:"count"`
		}
		if op == websocket.Ping {
			continue
		}
		if err := errors.Join(err, json.Unmarshal([]byte(payload), &form)); err != nil {
			c.t.Fatalf("waiting for message %d: %x %.100q: %v", c.next, op, payload, err)
		}
		c.frames++
		c.next += form.Count
		c.skip += form.Count
		for _, m := range form.Messages {
			if m.Offset != c.next {
				c.t.Fatalf("message %d in place of %d", m.Offset, c.next)
			}
			c.next++
		}
	}
}

// write sends a frame, masked with zeros.
func (c *client) write(first byte, payload []byte) {
	c.t.Helper()
	frame := websocket.AppendHeader(nil, 0, len(payload))
	frame[0] = first
	frame[1] |= 0x80
	if _, err := c.Write(append(append(frame, 0, 0, 0, 0), payload...)); err != nil {
		c.t.Fatal(err)
	}
}

const whole = 0x80

func TestAllSeeTheSameInOrder(t *testing.T) {
	t.Parallel()
	for _, tick := range []time.Duration{0, 5 * time.Millisecond} {
		t.Run(tick.String(), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(c *Config) { c.Tick = tick })
			var all []*client
			for i := range 20 {
				c := f.mustJoin(Viewer{Room: int64(1 + i%2)})
				c.expect(websocket.Text, "hello 0 false")
				all = append(all, c)
			}
			const messages = 300
			go func() {
				for i := range messages {
					f.say(1, fmt.Sprint("one ", i))
					f.say(2, fmt.Sprint("two ", i))
				}
			}()
			for _, c := range all {
				if c.read(messages); c.skip > 0 {
					t.Errorf("%d messages were skipped", c.skip)
				}
			}
			await(t, "deliveries", func() bool { return f.metric("chat_deliveries_total") == 20*messages })
			if got := f.metric("chat_connections"); got != 20 || f.Viewers(1) != 10 {
				t.Errorf("got %v connections, %d in room 1", got, f.Viewers(1))
			}
		})
	}
}

// Whoever joins while others speak has history and then what is new, without a gap.
func TestHistoryAndWhatIsNewMeet(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const messages = 2000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range messages {
			f.say(1, fmt.Sprint(i))
			if i%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}()
	var readers sync.WaitGroup
	for range 30 {
		c := f.mustJoin(Viewer{Room: 1})
		_, hello, err := c.frame()
		var recovered bool
		if _, err2 := fmt.Sscanf(hello, "hello %d %t", &c.next, &recovered); errors.Join(err, err2) != nil || recovered {
			t.Fatalf("got %q, %v", hello, errors.Join(err, err2))
		}
		readers.Go(func() { c.read(messages) })
		time.Sleep(time.Millisecond)
	}
	<-done
	readers.Wait()
}

func TestWhoComesBackMissesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for i := range 100 {
		f.say(1, fmt.Sprint(i))
	}
	c := f.mustJoin(Viewer{Room: 1, Known: true, From: 7})
	c.expect(websocket.Text, "hello 7 true")
	c.next = 7
	if c.read(100); c.skip > 0 {
		t.Errorf("%d were skipped", c.skip)
	}
	c = f.mustJoin(Viewer{Room: 1, Known: true, From: 101})
	c.expect(websocket.Text, "hello 50 false") // it never was there
	c = f.mustJoin(Viewer{Room: 1, Known: true, From: 100})
	c.expect(websocket.Text, "hello 100 true")
	f.say(1, "new")
	c.next = 100
	c.read(101)
}

// A viewer that reads nothing holds up nobody, takes no memory to speak of, and is told later what it missed.
func TestASlowViewerIsToldWhatItMissed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.SendBuffer, c.Idle = 4<<10, 10*time.Minute })
	slow, quick := f.mustJoin(Viewer{Room: 1}), f.mustJoin(Viewer{Room: 1})
	_ = slow.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	slow.expect(websocket.Text, "hello 0 false")
	quick.expect(websocket.Text, "hello 0 false")
	text := strings.Repeat("x", 1000)
	sent := uint64(0)
	for sent < 5000 || f.metric("chat_writes_blocked_total") == 0 {
		f.say(1, text)
		if sent++; sent%10 == 0 {
			quick.read(sent)
		}
		if sent > 1e6 {
			t.Fatal("a viewer that does not read was never blocked")
		}
	}
	quick.read(sent)
	slow.read(sent)
	if slow.skip == 0 || quick.skip > 0 {
		t.Errorf("the slow one skipped %d, the quick one %d", slow.skip, quick.skip)
	}
	await(t, "the count of skipped messages", func() bool { return f.metric("chat_skipped_total") == float64(slow.skip) })
	f.say(1, "live again")
	slow.read(sent + 1)
}

// Who joins with a cursor after what the others of its loop have been sent does not hurry them:
// it waits for the tick, and then is live like them.
func TestWhoJoinsBetweenTicksIsLive(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Loops, c.Tick = 1, time.Second })
	old := f.mustJoin(Viewer{Room: 1})
	old.expect(websocket.Text, "hello 0 false")
	f.say(1, "the first frame, at once")
	old.read(1)
	const round = 5
	began := time.Now()
	var all []*client
	for i := range uint64(round) {
		f.say(1, "waits for the tick")
		c := f.mustJoin(Viewer{Room: 1, Known: true, From: i + 2})
		c.expect(websocket.Text, fmt.Sprint("hello ", i+2, " true"))
		c.next = i + 2
		all = append(all, c)
	}
	old.read(1 + round)
	if most := 2 + int(time.Since(began)/time.Second); old.frames > 1+most {
		t.Errorf("%d frames, want %d at most", old.frames, 1+most)
	}
	f.say(1, "for all")
	for _, c := range append(all, old) {
		if c.read(2 + round); c.skip > 0 {
			t.Errorf("%d were skipped", c.skip)
		}
	}
}

// A log that is slow to read does not hold up who writes it, nor longer than agreed who joins.
func TestPublishDoesNotWaitForARoomToOpen(t *testing.T) {
	t.Parallel()
	began, read := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(c *Config) {
		open := c.Open
		c.Open = func(ctx context.Context, id int64) (*chat.Room, error) {
			r, err := open(ctx, id)
			close(began)
			<-read
			return r, err
		}
	})
	f.say(1, "before")
	joined := make(chan *client)
	go func() {
		c, err := f.join(Viewer{Room: 1})
		if err != nil {
			t.Error(err)
		}
		joined <- c
	}()
	<-began
	f.say(1, "while it is read")
	f.say(1, "as well")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Join(ctx, -1, Viewer{Room: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(read)
	c := <-joined
	f.say(1, "after")
	if c.expect(websocket.Text, "hello 0 false"); c != nil {
		c.read(4)
	}
}

// Who is blocked has whole frames to the end, and then the reason.
func TestABlockedViewerIsToldWhyItEnds(t *testing.T) {
	t.Parallel()
	conns := make(chan *Conn, 1)
	f := newFixture(t, func(c *Config) {
		c.SendBuffer, c.CloseTimeout = 4<<10, long
		c.Receive = func(c *Conn, _ []byte) { conns <- c }
	})
	c := f.mustJoin(Viewer{Room: 1})
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	c.write(whole|byte(websocket.Text), []byte("x"))
	conn := <-conns
	await(t, "a blocked viewer", func() bool {
		f.say(1, strings.Repeat("x", 1000))
		return f.metric("chat_writes_blocked_total") > 0
	})
	conn.Close(websocket.Policy, "banned")
	c.closed(websocket.Policy)
}

func TestOneIsToldAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	a, b := f.mustJoin(Viewer{Room: 1}), f.mustJoin(Viewer{Room: 1})
	a.expect(websocket.Text, "hello 0 false")
	b.expect(websocket.Text, "hello 0 false")
	a.write(whole|byte(websocket.Text), []byte("hi"))
	a.expect(websocket.Text, "echo hi")
	a.write(byte(websocket.Text), []byte("in "))
	a.write(whole|byte(websocket.Ping), []byte("?"))
	a.expect(websocket.Pong, "?")
	a.write(whole, []byte("parts"))
	a.expect(websocket.Text, "echo in parts")
	b.write(whole|byte(websocket.Close), []byte{3, 232})
	b.closed(websocket.Normal)
	a.write(whole|byte(websocket.Close), nil)
	a.closed(websocket.Normal)
	await(t, "both gone", func() bool {
		return f.metric("chat_connections_closed_total", "viewer") == 2 && f.metric("chat_connections") == 0
	})
}

func TestWhatIsForbiddenEndsWithItsCode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.MaxFrames = 20 })
	text := whole | byte(websocket.Text)
	for name, c := range map[string]struct {
		do   func(c *client)
		want websocket.Code
	}{
		"unmasked":  {func(c *client) { _, _ = c.Write(websocket.AppendFrame(nil, websocket.Text, []byte("x"))) }, websocket.Protocol},
		"oversized": {func(c *client) { c.write(text, make([]byte, chat.MaxRequest+1)) }, websocket.TooBig},
		"oversized in parts": {func(c *client) {
			var all []byte // at once: the server ends it in the middle
			for i := range 9 {
				all = append(all, map[bool]byte{true: 1}[i == 0], 0x80|126, 4, 0, 0, 0, 0, 0)
				all = append(all, make([]byte, 1<<10)...)
			}
			_, _ = c.Write(all)
		}, websocket.TooBig},
		"ping in parts":  {func(c *client) { c.write(byte(websocket.Ping), nil) }, websocket.Protocol},
		"no UTF-8":       {func(c *client) { c.write(text, []byte{0xff}) }, websocket.BadText},
		"reserved":       {func(c *client) { c.write(text|0x40, nil) }, websocket.Protocol},
		"binary":         {func(c *client) { c.write(whole|byte(websocket.Binary), nil) }, websocket.Unsupported},
		"flood of pings": {func(c *client) { flood(c, whole|byte(websocket.Ping), 100) }, websocket.Policy},
		"flood of parts": {func(c *client) { c.write(1, nil); flood(c, 0, 100) }, websocket.Policy},
	} {
		t.Run(name, func(t *testing.T) {
			v := f.mustJoin(Viewer{Room: 1})
			v.t = t
			c.do(v)
			v.closed(c.want)
		})
	}
}

// flood writes many frames at once.
func flood(c *client, first byte, n int) {
	frame := []byte{first, 0x80, 0, 0, 0, 0}
	var all []byte
	for range n {
		all = append(all, frame...)
	}
	_, _ = c.Write(all)
}

// Who asks for answers and reads none is not waited for.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) {
		c.SendBuffer, c.MaxPrivate, c.MaxFrames = 4<<10, 4<<10, 1<<30
		c.Receive = func(c *Conn, _ []byte) { c.Tell(make([]byte, 1000)) }
	})
	c := f.mustJoin(Viewer{Room: 1})
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	frames := bytes.Repeat(append([]byte{whole | byte(websocket.Text), 0x80 | 1, 0, 0, 0, 0}, 'x'), 50)
	await(t, "the end of it", func() bool {
		_, err := c.Write(frames)
		return err != nil || f.metric("chat_connections_closed_total", "slow") == 1
	})
	await(t, "the count", func() bool { return f.metric("chat_connections_closed_total", "slow") == 1 })
}

func TestThereIsNoRoomForMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.MaxConns, c.MaxPerAddress, c.MaxPerRoom = 4, 2, 3 })
	address := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, i}) }
	for i, c := range []struct {
		room int64
		from byte
		want error
	}{
		{1, 1, nil}, {1, 1, nil}, {2, 1, chat.ErrTooMany}, {1, 2, nil}, {1, 3, chat.ErrFull}, {200, 2, chat.ErrNoStream}, {2, 3, nil}, {3, 4, chat.ErrFull},
	} {
		if _, err := f.join(Viewer{Room: c.room, Address: address(c.from)}); !errors.Is(err, c.want) {
			t.Errorf("%d: got %v, want %v", i, err, c.want)
		}
	}
	for limit, want := range map[string]float64{"address": 1, "room": 1, "total": 1} {
		if got := f.metric("chat_connections_refused_total", limit); got != want {
			t.Errorf("%s: got %v refused, want %v", limit, got, want)
		}
	}
}

func TestWhoIsSilentIsAskedAndThenGoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.Ping, c.Idle = time.Second, 10*time.Second })
	silent, there := f.mustJoin(Viewer{Room: 1}), f.mustJoin(Viewer{Room: 1})
	for _, c := range []*client{silent, there} {
		c.expect(websocket.Text, "hello 0 false")
	}
	echoed := make(chan error, 1)
	go func() {
		for {
			op, payload, err := there.frame()
			switch {
			case err == nil && op == websocket.Ping:
				_, _ = there.Write([]byte{whole | byte(websocket.Pong), 0x80, 0, 0, 0, 0}) // or the next frame fails
			case err != nil || op == websocket.Close:
				echoed <- fmt.Errorf("who answered was ended: %x, %w", op, err)
				return
			case payload == "echo x":
				echoed <- nil
				return
			}
		}
	}()
	silent.closed(websocket.Policy)
	there.write(whole|byte(websocket.Text), []byte("x"))
	if err := <-echoed; err != nil {
		t.Error(err)
	}
}

func TestAConnectionEndsWithItsTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.mustJoin(Viewer{Room: 1, Until: time.Now().Add(time.Second)}).closed(Expired)
	await(t, "the count", func() bool { return f.metric("chat_connections_closed_total", "expired") == 1 })
}

// Pongs do not keep a viewer that reads nothing, nor are there more of them than agreed.
func TestWhoTakesNothingGoes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"after a while": func(c *Config) { c.Stalled = time.Second },
		"one too many":  func(c *Config) { c.MaxBlocked = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(c *Config) {
				c.Loops, c.SendBuffer = 1, 4<<10
				change(c)
			})
			for range 2 {
				_ = f.mustJoin(Viewer{Room: 1}).Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			}
			await(t, "the end of one", func() bool {
				for range 100 {
					f.say(1, strings.Repeat("x", 1000))
				}
				return f.metric("chat_connections_closed_total", "slow") > 0
			})
		})
	}
}

func TestTheEndIsAnnounced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var all []*client
	for range 10 {
		c := f.mustJoin(Viewer{Room: 1})
		c.expect(websocket.Text, "hello 0 false")
		all = append(all, c)
	}
	f.say(1, "last words")
	f.stop()
	for _, c := range all {
		c.read(1)
		c.closed(websocket.GoingAway)
	}
	await(t, "the end", func() bool { return f.Admit(1, netip.Addr{}) != nil })
	if _, err := f.join(Viewer{Room: 1}); !errors.Is(err, chat.ErrFull) {
		t.Errorf("after the end: got %v", err)
	}
}

func TestAConnectionIsEndedFromOutside(t *testing.T) {
	t.Parallel()
	conns := make(chan *Conn, 1)
	f := newFixture(t, func(c *Config) { c.Receive = func(c *Conn, _ []byte) { conns <- c } })
	c := f.mustJoin(Viewer{Room: 5, Session: "Noor"})
	c.write(whole|byte(websocket.Text), []byte("x"))
	conn := <-conns
	if conn.Session != "Noor" || conn.Room() != 5 {
		t.Errorf("got %v in %d", conn.Session, conn.Room())
	}
	conn.Close(websocket.Policy, "banned")
	c.closed(websocket.Policy)
	conn.Tell([]byte("too late"))
	await(t, "the end", func() bool { return f.metric("chat_connections") == 0 })
}

func closeFD(fd int) error { return unix.Close(fd) }

// Each looks at everybody in a room, on all loops, and at nobody in another.
func TestEach(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for _, room := range []int64{1, 1, 1, 1, 1, 2} {
		if _, err := f.join(Viewer{Room: room}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	for room, want := range map[int64]int64{1: 5, 2: 1, 3: 0} {
		var seen atomic.Int64
		if err := f.Each(ctx, room, func(c *Conn) {
			if c.Room() == room {
				seen.Add(1)
			}
		}); err != nil || seen.Load() != want {
			t.Errorf("room %d: got %d, %v, want %d", room, seen.Load(), err, want)
		}
	}
	over, end := context.WithCancel(ctx)
	end()
	if err := f.Each(over, 1, func(*Conn) {}); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
