package websocket

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"loadstone/lab/load"
	"loadstone/lab/load/failure"
)

func TestEchoDeliversEveryMessageOnce(t *testing.T) {
	t.Parallel()
	l := begin(t, basic(serve(t, echo), 10))
	until(t, "500 deliveries", func() bool { return l.Stats().Delivered >= 500 })
	l.finish(t, 10*time.Second)
	n := l.Stats()
	if n.Delivered != n.Sent || n.Lost+n.CutOff+n.Duplicates+n.Late+n.Unexpected+n.Other != 0 {
		t.Errorf("got %+v, want as many delivered as sent and nothing else", n)
	}
	if n.Connects != 10 || n.Reconnects != 0 || n.Closed != 0 {
		t.Errorf("got %d connects, %d reconnects, %d closed, want 10, 0, 0", n.Connects, n.Reconnects, n.Closed)
	}
	if n.SentBytes == 0 || n.ReceivedBytes == 0 {
		t.Errorf("got %d and %d bytes, want some", n.SentBytes, n.ReceivedBytes)
	}
	ok := l.of(StepMessage, failedAs(failure.None))
	if got := uint64(len(ok)); got != n.Delivered {
		t.Errorf("got %d outcomes, want %d", got, n.Delivered)
	}
	for _, o := range ok {
		if o.Intended > o.Sent || o.Sent > o.Done {
			t.Fatalf("got intended %v, sent %v, done %v, want them in order", o.Intended, o.Sent, o.Done)
		}
	}
	for _, o := range l.of(StepConnect, all) {
		if o.Failed != failure.None || o.Status != 101 {
			t.Errorf("connect: got %v with status %d, want success with 101", o.Failed, o.Status)
		}
	}
}

func TestSeedFixesTheGaps(t *testing.T) {
	t.Parallel()
	for _, arrivals := range []string{load.Poisson, load.Uniform} {
		c := Config{WebSocket: load.WebSocket{Rate: 100}, Arrivals: arrivals, Seed: 3}
		walk := func(start time.Duration, seed uint64) []time.Duration {
			c.Seed = seed
			s := newSchedule(&c, 5)
			s.begin(start)
			var at []time.Duration
			for range 2000 {
				at = append(at, s.next-start)
				s.advance()
			}
			return at
		}
		a, b, other := walk(0, 3), walk(time.Hour, 3), walk(0, 4)
		same := 0
		for i := range a {
			if d := a[i] - b[i]; d < -time.Microsecond || d > time.Microsecond {
				t.Fatalf("%s: message %d at %v and %v, want the same", arrivals, i, a[i], b[i])
			}
			if a[i] == other[i] {
				same++
			}
		}
		if same > 10 {
			t.Errorf("%s: another seed has the same times", arrivals)
		}
		if last := a[len(a)-1].Seconds(); last < 18 || last > 22 {
			t.Errorf("%s: 2000 messages at 100/s took %v s, want about 20", arrivals, last)
		}
	}
}

func TestFanOutDeliversToEveryMember(t *testing.T) {
	t.Parallel()
	config := basic(serve(t, newHub().handle), 70)                      // more than one word of bits
	config.Senders, config.Rate, config.Deliver = 3, 4, load.DeliverAll // what a busy machine bears, too
	config.JoinAfter, config.Timeout = 3*time.Second, 30*time.Second
	l := begin(t, config)
	until(t, "all to be members", func() bool { return l.rooms.count() == 70 })
	from := l.config.Now()
	sent := l.Stats().Sent
	// Each sender may have one under way that was stamped before and is counted after.
	until(t, "60 messages", func() bool { return l.Stats().Sent >= sent+60+3 })
	l.finish(t, 30*time.Second)
	n := l.Stats()
	// Late is not looked at: while clients join one after the other, a message that all
	// who were members have had is done with, and still comes to those who were not.
	if n.Lost+n.CutOff+n.Duplicates+n.Other != 0 {
		t.Errorf("got %+v, want nothing lost, doubled or unknown", n)
	}
	by := map[time.Duration]map[int]int{} // deliveries to each client, by the message's time, which two may share
	for _, o := range l.of(StepMessage, func(o Outcome) bool { return o.Sent > from && !o.Dropped }) {
		if by[o.Sent] == nil {
			by[o.Sent] = map[int]int{}
		}
		by[o.Sent][o.Client]++
	}
	messages := 0
	for at, clients := range by {
		shared := clients[0]
		messages += shared
		for client := range 70 {
			if clients[client] != shared {
				t.Errorf("%d messages of %v: client %d got %d", shared, at, client, clients[client])
			}
		}
	}
	if messages < 60 {
		t.Errorf("got %d messages, want 60 or more", messages)
	}
}

func TestClientThatLeavesKeepsWhatWasDue(t *testing.T) {
	t.Parallel()
	h := newHub()
	h.says = "welcome"
	config := basic(serve(t, h.handle), 20)
	config.Senders, config.Rate, config.Deliver = 2, 20, load.DeliverAll // what a busy machine bears, too
	config.Joined, config.Timeout = "welcome", 30*time.Second
	l := begin(t, config)
	until(t, "all to be members", func() bool { return l.rooms.count() == 20 })
	func() {
		h.mu.Lock() // nothing comes until they have been told to leave
		defer h.mu.Unlock()
		until(t, "messages to be due at all", func() bool { return l.Stats().InFlight >= 3*20 })
		l.SetClients(5)
	}()
	until(t, "15 to have left", func() bool { return l.Stats().Open == 5 })
	l.SetClients(12)
	until(t, "7 to be back", func() bool { return l.rooms.count() == 12 })
	l.finish(t, 30*time.Second)
	n := l.Stats()
	if n.Lost+n.CutOff+n.Duplicates+n.Closed+n.Reconnects != 0 || n.Connects != 27 {
		t.Errorf("got %+v, want nothing lost, closed or reconnected and 27 connects", n)
	}
}

func TestLostMessagesAreOutcomes(t *testing.T) {
	t.Parallel()
	var k atomic.Uint64
	config := basic(serve(t, func(ws *websocket.Conn) {
		for {
			kind, message, err := ws.ReadMessage()
			if err != nil {
				return
			}
			if k.Add(1)%3 == 0 {
				continue
			}
			if ws.WriteMessage(kind, message) != nil {
				return
			}
		}
	}), 2)
	config.Timeout = 3 * time.Second // enough to connect on a busy machine
	l := begin(t, config)
	until(t, "10 lost", func() bool { return l.Stats().Lost >= 10 })
	l.finish(t, 10*time.Second)
	n := l.Stats()
	if got := n.Delivered + n.Lost; got != n.Sent {
		t.Errorf("got %d delivered or lost of %d sent, want all", got, n.Sent)
	}
	lost := l.of(StepMessage, failedAs(failure.Lost))
	// A machine that stands still for the timeout loses more.
	if got := uint64(len(lost)); got != n.Lost || got < k.Load()/3 {
		t.Errorf("got %d lost outcomes and %d counted, want %d or more", got, n.Lost, k.Load()/3)
	}
	for _, o := range lost {
		if o.Done-o.Sent != config.Timeout || o.Err == nil {
			t.Errorf("got a service time of %v and error %v, want the timeout and one", o.Done-o.Sent, o.Err)
		}
	}
}

func TestDuplicatesAndLateArrivalsAreNoOutcome(t *testing.T) {
	t.Parallel()
	config := basic(serve(t, func(ws *websocket.Conn) {
		for {
			kind, message, err := ws.ReadMessage()
			if err != nil {
				return
			}
			for range 2 {
				if ws.WriteMessage(kind, message) != nil {
					return
				}
			}
			if ws.WriteMessage(websocket.TextMessage, []byte("hello ls-0-0-0-")) != nil {
				return
			}
		}
	}), 3)
	l := begin(t, config)
	until(t, "100 deliveries", func() bool { return l.Stats().Duplicates >= 100 })
	l.finish(t, 10*time.Second)
	n := l.Stats()
	if n.Delivered != n.Sent || n.Lost != 0 {
		t.Errorf("got %d delivered and %d lost of %d, want all delivered", n.Delivered, n.Lost, n.Sent)
	}
	if got := uint64(len(l.of(StepMessage, all))); got != n.Sent+n.Dropped {
		t.Errorf("got %d outcomes, want %d", got, n.Sent+n.Dropped)
	}
	if n.Other < 99 {
		t.Errorf("got %d other messages, want about 100", n.Other)
	}
}

// A server that stalls for 2 s must show in the response times of all messages
// that were due meanwhile, as if they had been sent one after the other.
func TestStallShowsInResponseTimes(t *testing.T) {
	t.Parallel()
	const stall = 2 * time.Second
	var stalled atomic.Bool
	config := basic(serve(t, func(ws *websocket.Conn) {
		for {
			kind, message, err := ws.ReadMessage()
			if err != nil {
				return
			}
			if stalled.CompareAndSwap(false, true) {
				time.Sleep(stall)
			}
			if ws.WriteMessage(kind, message) != nil {
				return
			}
		}
	}), 1)
	config.Rate, config.Arrivals = 100, load.Uniform
	config.Timeout = 10 * time.Second
	l := begin(t, config)
	until(t, "250 deliveries", func() bool { return l.Stats().Delivered >= 250 })
	l.finish(t, 5*time.Second)
	slow := 0
	for _, o := range l.of(StepMessage, failedAs(failure.None)) {
		if o.Done-o.Intended >= stall/2 {
			slow++
		}
	}
	// 100 messages are due in the first half of the stall.
	if slow < 90 {
		t.Errorf("got %d messages with a response time of 1 s and more, want 90 or more", slow)
	}
}

// While a server reads nothing, writes end up blocked: other clients go on, and
// what was due keeps its time and is dropped in the end.
func TestBlockedWritesDelayNobodyElse(t *testing.T) {
	t.Parallel()
	var first atomic.Bool
	release := make(chan struct{})
	config := basic(serve(t, func(ws *websocket.Conn) {
		if first.CompareAndSwap(false, true) {
			if conn, ok := ws.NetConn().(*net.TCPConn); ok {
				_ = conn.SetReadBuffer(4096) // it is full at once
			}
			<-release
			return
		}
		echo(ws)
	}), 4)
	t.Cleanup(func() { close(release) })
	config.Message = "{id}" + strings.Repeat("x", 64<<10)
	config.Rate, config.Timeout = 20, 3*time.Second
	l := begin(t, config)
	var most, others int
	until(t, "20 dropped by one client", func() bool {
		victims, all := map[int]int{}, 0
		most = 0
		for _, o := range l.of(StepMessage, dropped) {
			victims[o.Client]++
			all++
			most = max(most, victims[o.Client])
		}
		others = all - most
		return most >= 20
	})
	if others >= most { // held up with it, the three would drop three times as many
		t.Errorf("the others dropped %d, beside %d of the one that is blocked", others, most)
	}
	delivered := l.Stats().Delivered
	until(t, "20 deliveries to the others", func() bool { return l.Stats().Delivered >= delivered+20 })
	l.finish(t, 100*time.Millisecond)
	n := l.Stats()
	if got := n.Delivered + n.Lost + n.CutOff; got != n.Sent {
		t.Errorf("got %d deliveries accounted for, want %d", got, n.Sent)
	}
}

func TestGracefulStopCutsOffWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	config := basic(serve(t, func(ws *websocket.Conn) {
		for {
			if _, _, err := ws.ReadMessage(); err != nil {
				return
			}
		}
	}), 2)
	config.Timeout = time.Minute
	l := begin(t, config)
	until(t, "20 under way", func() bool { return l.Stats().InFlight >= 20 })
	l.Stop(time.Hour)
	l.finish(t, 50*time.Millisecond)
	n := l.Stats()
	if n.CutOff != n.Sent || n.CutOff < 20 {
		t.Errorf("got %d cut off of %d sent, want all", n.CutOff, n.Sent)
	}
	if got := uint64(len(l.of(StepMessage, failedAs(failure.CutOff)))); got != n.CutOff {
		t.Errorf("got %d outcomes, want %d", got, n.CutOff)
	}
}

func TestMessagesWithoutDeliveryAreDoneWhenSent(t *testing.T) {
	t.Parallel()
	config := basic(serve(t, echo), 2)
	config.Deliver, config.Message = load.DeliverNone, "tick"
	l := begin(t, config)
	until(t, "50 sent", func() bool { return l.Stats().Sent >= 50 })
	l.finish(t, 0)
	n := l.Stats()
	if got := uint64(len(l.of(StepMessage, failedAs(failure.None)))); got != n.Sent || n.Delivered != 0 {
		t.Errorf("got %d outcomes and %d delivered, want %d and 0", got, n.Delivered, n.Sent)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(upgrading(echo))
	t.Cleanup(server.Close)
	url := "wss" + strings.TrimPrefix(server.URL, "https")
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())

	trusting := basic(url, 2)
	trusting.TLS = &tls.Config{RootCAs: pool}
	trusting.Subprotocols = []string{"chat.v1"}
	l := begin(t, trusting)
	until(t, "20 deliveries", func() bool { return l.Stats().Delivered >= 20 })
	l.finish(t, 10*time.Second)
	if n := l.Stats(); n.Delivered != n.Sent || n.ReceivedBytes == 0 || n.SentBytes == 0 {
		t.Errorf("got %+v, want everything delivered and bytes counted", n)
	}

	l = begin(t, basic(url, 2))
	until(t, "2 failures", func() bool { return len(l.of(StepConnect, failedAs(failure.TLS))) == 2 })
	l.finish(t, 0)
}

// count is how many members all rooms have.
func (r *rooms) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, room := range r.byName {
		n += room.now.Load().count
	}
	return n
}
