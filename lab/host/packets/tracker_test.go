package packets

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"testing"
	"time"

	"loadstone/lab/host/sockets"
)

const milli = int64(time.Millisecond)

// wire is a connection between a client and a server on port 80, as a test plays it.
type wire struct {
	t              *tracker
	client, server endpoint
}

var began = time.Unix(1_700_000_000, 0)

func newWire(port uint16, who *owners) (*tracker, wire) {
	t := newTracker(who)
	t.begin(began, began.Add(sliceTime), false)
	return t, wireOn(t, port)
}

func wireOn(t *tracker, port uint16) wire {
	return wire{t, endpoint{0x7f000001, port}, endpoint{0x7f4d0102, 80}}
}

func (w wire) segment(ms int64, asks bool, payload int, flags byte) {
	p := packet{at: began.UnixNano() + ms*milli, from: w.client, to: w.server, payload: payload, flags: flags}
	if !asks {
		p.from, p.to = p.to, p.from
	}
	w.t.add(p)
}

func (w wire) asks(ms int64)    { w.segment(ms, true, 100, 0) }
func (w wire) answers(ms int64) { w.segment(ms, false, 100, 0) }

// nobody knows no process and reads no table but one, late in the first slice, in which there was nothing.
func nobody() *owners {
	read := began.Add(sliceTime - time.Nanosecond)
	return &owners{read: read, had: read, took: 365 * 24 * time.Hour, ephemeral: firstEphemeral}
}

func (t *tracker) cutAfter(ms int64) *Slice {
	return t.cut(began.Add(time.Duration(ms) * time.Millisecond))
}

func TestExchangesAreFollowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(w wire)
		want Hop
	}{
		"one":                      {func(w wire) { w.asks(10); w.answers(30) }, Hop{Exchanges: 1, InFlight: 20 * time.Millisecond}},
		"two, one after the other": {func(w wire) { w.asks(10); w.answers(30); w.asks(40); w.answers(45) }, Hop{Exchanges: 2, InFlight: 25 * time.Millisecond}},
		"a request in two parts":   {func(w wire) { w.asks(10); w.asks(15); w.answers(30) }, Hop{Exchanges: 1, InFlight: 15 * time.Millisecond, Asking: 5 * time.Millisecond}},
		"an answer in two parts":   {func(w wire) { w.asks(10); w.answers(30); w.answers(37) }, Hop{Exchanges: 1, InFlight: 20 * time.Millisecond, Answering: 7 * time.Millisecond}},
		"Nagle in a request":       {func(w wire) { w.asks(10); w.asks(51); w.answers(52) }, Hop{Exchanges: 1, InFlight: time.Millisecond, Asking: 41 * time.Millisecond, Stalls: 1}},
		"Nagle in an answer":       {func(w wire) { w.asks(10); w.answers(11); w.answers(51) }, Hop{Exchanges: 1, InFlight: time.Millisecond, Answering: 40 * time.Millisecond, Stalls: 1}},
		"messages of their own":    {func(w wire) { w.asks(10); w.answers(11); w.answers(42); w.answers(92); w.answers(150) }, Hop{Exchanges: 1, InFlight: time.Millisecond, Answering: 139 * time.Millisecond, Near: 2}},
		"slow to answer":           {func(w wire) { w.asks(10); w.answers(50) }, Hop{Exchanges: 1, InFlight: 40 * time.Millisecond}},
		"no answer yet":            {func(w wire) { w.asks(150) }, Hop{}},
		"under way before":         {func(w wire) { w.answers(30) }, Hop{Exchanges: 1, InFlight: 30 * time.Millisecond}},
		"a server that greets":     {func(w wire) { w.segment(1, true, 0, flagSYN); w.answers(30); w.asks(40); w.answers(41) }, Hop{Unnamed: true, Exchanges: 1, InFlight: time.Millisecond}},
		"acknowledgements":         {func(w wire) { w.asks(10); w.segment(11, false, 0, 0x10); w.answers(30) }, Hop{Exchanges: 1, InFlight: 20 * time.Millisecond}},
		"given up":                 {func(w wire) { w.asks(10); w.segment(40, true, 0, flagRST) }, Hop{}},
		"the server goes":          {func(w wire) { w.asks(10); w.segment(40, false, 0, flagFIN) }, Hop{}},
		"the client is done":       {func(w wire) { w.asks(10); w.segment(11, true, 0, flagFIN); w.answers(30) }, Hop{Unnamed: true, Exchanges: 1, InFlight: 20 * time.Millisecond}},
	} {
		tr, w := newWire(40000, nobody())
		c.play(w)
		s := tr.cutAfter(200)
		if c.want == (Hop{}) && len(s.Hops) == 0 {
			continue
		}
		if len(s.Hops) != 1 {
			t.Errorf("%s: got %d hops, want one", name, len(s.Hops))
			continue
		}
		c.want.Server = netip.MustParseAddrPort("127.77.1.2:80")
		if s.Hops[0] != c.want {
			t.Errorf("%s: got %+v, want %+v", name, s.Hops[0], c.want)
		}
	}
}

// A request that spans slices counts where it is answered, for all of its time.
func TestSlicesFollowEachOther(t *testing.T) {
	t.Parallel()
	tr, w := newWire(40000, nobody())
	w.asks(150)
	w.answers(450) // comes before the cut is made
	for _, cut := range []int64{200, 400, 600, 800} {
		want := Hop{Server: netip.MustParseAddrPort("127.77.1.2:80")}
		if cut == 600 {
			want.Exchanges, want.InFlight = 1, 300*time.Millisecond
		}
		if hops := tr.cutAfter(cut).Hops; len(hops) > 1 || len(hops) == 0 && want.Exchanges > 0 || len(hops) == 1 && hops[0] != want {
			t.Errorf("until %d ms: got %+v, want %+v", cut, hops, want)
		}
	}
	if s := tr.cutAfter(1000); len(s.Hops) != 0 || s.Packets != 0 {
		t.Errorf("nothing happened: got %+v", s)
	}
}

// In a glimpse, which may be shorter than most exchanges, parts of them add up to the time that
// they take, by Little's law.
func TestAGlimpseHasPartsOfExchanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(w wire)
		want Hop
	}{
		"no answer yet":   {func(w wire) { w.asks(150) }, Hop{InFlight: 50 * time.Millisecond}},
		"under way":       {func(w wire) { w.answers(30) }, Hop{Exchanges: 1, InFlight: 30 * time.Millisecond}},
		"given up":        {func(w wire) { w.asks(10); w.segment(40, true, 0, flagRST) }, Hop{Unnamed: true, InFlight: 30 * time.Millisecond}},
		"the server goes": {func(w wire) { w.asks(10); w.segment(40, false, 0, flagFIN) }, Hop{Unnamed: true, InFlight: 30 * time.Millisecond}},
	} {
		tr, w := newWire(40000, nobody())
		tr.glimpse = true
		c.play(w)
		c.want.Server = netip.MustParseAddrPort("127.77.1.2:80")
		if s := tr.cutAfter(200); len(s.Hops) != 1 || s.Hops[0] != c.want {
			t.Errorf("%s: got %+v, want %+v", name, s.Hops, c.want)
		}
	}
}

// Clients have one address on the loopback interface: whose process has the socket tells
// them apart, once the tables of sockets have it.
func TestClientsAreToldApart(t *testing.T) {
	t.Parallel()
	who := nobody()
	tr, api := newWire(40000, who)
	other := wireOn(tr, 40001)
	api.asks(10)
	api.answers(12)
	other.asks(10)
	other.answers(15)
	pair := sockets.Pair{Local: api.client.address(), Remote: api.server.address()}
	who.client = map[sockets.Pair]string{pair: "api-1"}
	s := tr.cutAfter(200)
	if len(s.Hops) != 2 || s.Hops[0].Client != "" || s.Hops[0].Unnamed || s.Hops[1].Unnamed || s.Hops[0].InFlight != 5*time.Millisecond || s.Hops[1].Client != "api-1" || s.Hops[1].InFlight != 2*time.Millisecond {
		t.Errorf("got %+v, want 5 ms of an unknown client and 2 ms of api-1", s.Hops)
	}
	// Who has it when it is opened anew is found out anew.
	api.segment(250, true, 0, flagSYN)
	api.asks(260)
	api.answers(270)
	if s := tr.cutAfter(400); len(s.Hops) != 1 || s.Hops[0].Client != "" || !s.Hops[0].Unnamed {
		t.Errorf("opened anew: got %+v, want one of which is not known whose it is", s.Hops)
	}
	who.client[pair] = "api-2"
	api.asks(450)
	api.answers(460)
	if s := tr.cutAfter(600); len(s.Hops) != 1 || s.Hops[0].Client != "api-2" {
		t.Errorf("looked up again: got %+v, want api-2", s.Hops)
	}
	// While the tables are older than a connection, it is not known whether somebody has it.
	hops, c := map[hopKey]*Hop{}, &connection{Hop: Hop{Unnamed: true}, client: api.client, server: api.server, opened: math.MaxInt64}
	delete(who.client, pair)
	for range 2 {
		c.Exchanges = 1
		tr.count(c, never, hops)
		who.client[pair] = "api-3"
	}
	if before, after := hops[hopKey{"", true, api.server}], hops[hopKey{"api-3", false, api.server}]; before == nil || after == nil || before.Exchanges != 1 || after.Exchanges != 1 {
		t.Errorf("looked up late: got %+v and %+v, want one exchange of each", before, after)
	}
}

// Tables of sockets tell of a connection what is so when they are read: whose it is, if it was open
// then, and nothing if it was not. Packets of a moment come later than tables that are read then.
func TestTablesTellOfTheirTime(t *testing.T) {
	t.Parallel()
	who := nobody()
	who.read, who.had = began.Add(190*time.Millisecond), began.Add(192*time.Millisecond)
	tr, gone := newWire(40000, who)
	early, closing, stays, young := wireOn(tr, 40001), wireOn(tr, 40002), wireOn(tr, 40003), wireOn(tr, 40004)
	who.client = map[sockets.Pair]string{{Local: early.client.address(), Remote: early.server.address()}: "api-1"}
	for i, w := range []wire{gone, early, closing, stays} {
		w.segment(100, true, 0, flagSYN)
		w.segment(101, false, 0, flagSYN|flagACK)
		w.asks(110)
		w.answers(110 + 1<<i)
	}
	gone.segment(180, false, 0, flagFIN)
	closing.segment(185, true, 0, flagFIN)
	young.segment(195, true, 0, flagSYN)
	young.asks(196)
	young.answers(196 + 1) // as gone's
	of := map[string]time.Duration{}
	for _, h := range tr.cutAfter(200).Hops {
		of[fmt.Sprint(h.Client, h.Unnamed)] = h.InFlight
	}
	want := map[string]time.Duration{
		"api-1false": 2 * time.Millisecond, // early
		"false":      8 * time.Millisecond, // stays, which is nobody's
		"true":       6 * time.Millisecond, // gone, closing and young
	}
	if !maps.Equal(of, want) {
		t.Errorf("got %v, want %v", of, want)
	}
	early.segment(250, true, 0, flagSYN) // another one with the same endpoints
	early.asks(260)
	early.answers(270)
	if s := tr.cutAfter(400); len(s.Hops) != 1 || !s.Hops[0].Unnamed {
		t.Errorf("opened anew: got %+v, want one of which is not known whose it is", s.Hops)
	}
}

// What is to come of a connection when its slice is cut is not known, though the tables are read after that.
func TestTablesAreReadLate(t *testing.T) {
	t.Parallel()
	who := nobody()
	who.read, who.had = began.Add(230*time.Millisecond), began.Add(240*time.Millisecond)
	tr, goes := newWire(40000, who)
	stays := wireOn(tr, 40001)
	for _, w := range []wire{goes, stays} {
		w.segment(150, true, 0, flagSYN)
		w.segment(151, false, 0, flagSYN|flagACK)
		w.asks(160)
		w.answers(170)
	}
	if len(tr.ended) != 0 {
		t.Errorf("%d connections are over that were opened", len(tr.ended))
	}
	if s := tr.cutAfter(200); len(s.Hops) != 1 || !s.Hops[0].Unnamed || s.Hops[0].Exchanges != 2 {
		t.Errorf("before the tables were read: got %+v, want two exchanges of which nothing is known", s.Hops)
	}
	goes.asks(210)
	goes.answers(211)
	goes.segment(215, false, 0, flagFIN)
	stays.asks(210)
	stays.answers(212)
	s := tr.cutAfter(400)
	if len(s.Hops) != 2 || s.Hops[0].Unnamed || s.Hops[0].InFlight != 2*time.Millisecond || !s.Hops[1].Unnamed || s.Hops[1].InFlight != time.Millisecond {
		t.Errorf("after it: got %+v, want 2 ms of nobody, and 1 ms of which nothing is known", s.Hops)
	}
}

// Tables have no connection that is not agreed on: one whose first segment was lost is nobody's only if it is
// not in tables that are read after its begin was answered, and a second answer changes nothing.
func TestABeginIsSentAgain(t *testing.T) {
	t.Parallel()
	who := nobody()
	who.read, who.had = began.Add(190*time.Millisecond), began.Add(192*time.Millisecond)
	tr, w := newWire(40000, who)
	w.segment(100, true, 0, flagSYN)
	tr.cutAfter(200)
	w.segment(300, true, 0, flagSYN)
	w.segment(301, false, 0, flagSYN|flagACK)
	w.asks(310)
	w.segment(311, false, 0, flagSYN|flagACK)
	w.answers(320)
	if s := tr.cutAfter(400); len(s.Hops) != 1 || !s.Hops[0].Unnamed || s.Hops[0].InFlight != 10*time.Millisecond {
		t.Errorf("got %+v, want 10 ms of which nothing is known", s.Hops)
	}
	who.read, who.had = began.Add(450*time.Millisecond), began.Add(451*time.Millisecond)
	w.asks(460)
	w.answers(465)
	if s := tr.cutAfter(600); len(s.Hops) != 1 || s.Hops[0].Unnamed || s.Hops[0].Client != "" {
		t.Errorf("after tables were read: got %+v, want nobody's", s.Hops)
	}
}

// A connection that was there before is followed if it can be told who serves.
func TestWhoServes(t *testing.T) {
	t.Parallel()
	who := nobody()
	who.listening = map[netip.AddrPort]bool{netip.MustParseAddrPort("0.0.0.0:50000"): true}
	low, high, other := endpoint{1, 80}, endpoint{2, 40000}, endpoint{2, 50000}
	for name, c := range map[string]struct {
		one, other endpoint
		is, known  bool
	}{
		"a low port":         {low, high, true, true},
		"the other's":        {high, low, false, true},
		"one that listens":   {other, high, true, true},
		"two high ports":     {high, endpoint{3, 40001}, false, false},
		"two that are lower": {low, endpoint{3, 81}, false, false},
	} {
		if is, known := who.serves(c.one, c.other); is != c.is || known != c.known {
			t.Errorf("%s: got %v, %v, want %v, %v", name, is, known, c.is, c.known)
		}
	}
}

// What was seen before it begins anew is not in what is seen then.
func TestWhatIsOverIsForgotten(t *testing.T) {
	t.Parallel()
	tr, w := newWire(40000, nobody())
	gone := wireOn(tr, 40001)
	gone.asks(1)
	gone.answers(2)
	gone.segment(3, false, 0, flagFIN)
	w.asks(5)
	w.answers(8)
	w.asks(9)
	tr.begin(began.Add(time.Second), began.Add(time.Second+glimpseTime), true)
	for port := range uint16(3) { // more than there were
		other := wireOn(tr, 40002+port)
		other.asks(1010)
		other.answers(1014)
	}
	w.answers(1020) // of a request that nobody saw
	s := tr.cut(began.Add(time.Second + glimpseTime))
	want := Hop{Server: w.server.address(), Exchanges: 4, InFlight: (3*4 + 20) * time.Millisecond}
	if len(s.Hops) != 1 || s.Hops[0].Exchanges != want.Exchanges || s.Hops[0].InFlight != want.InFlight || s.Packets != 7 {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// Connections beyond what is followed are left out, and those that end make room.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	tr := newTracker(nobody())
	tr.begin(began, began.Add(sliceTime), false)
	for i := range mostConnections + 100 {
		w := wire{tr, endpoint{uint32(i), 40000}, endpoint{0x7f4d0102, 80}}
		w.asks(1)
	}
	if len(tr.connections) != mostConnections {
		t.Errorf("got %d, want %d", len(tr.connections), mostConnections)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 77, 1, 2, 0x9c, 0x40, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x18})
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parse(b); ok && (p.payload < 0 || p.payload > 1<<16) {
			t.Errorf("got a payload of %d bytes", p.payload)
		}
	})
}
