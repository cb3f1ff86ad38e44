package analysis

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"loadstone/lab/host/packets"
	"loadstone/lab/topology"
)

// A proxy asks a server twice for each request, both are scraped, and the server asks
// somebody outside the file.
func proxied() []topology.Instance {
	return []topology.Instance{
		{Service: "proxy", Name: "proxy-1", Host: "127.77.1.2", Port: 80, MetricsURL: "http://127.77.1.2:9090/metrics"},
		{Service: "server", Name: "server-1", Host: "127.77.1.3", Port: 8080, MetricsURL: "http://127.77.1.3:8080/metrics"},
		{Service: "server", Name: "server-2", Host: "127.77.1.4", Port: 8080},
	}
}

func hop(client, server string, n uint64, each time.Duration) packets.Hop {
	return packets.Hop{Client: client, Server: netip.MustParseAddrPort(server), Exchanges: n, InFlight: time.Duration(n) * each}
}

func slicesOf(from time.Time, n int, hops ...packets.Hop) []packets.Slice {
	var out []packets.Slice
	for i := range n {
		out = append(out, packets.Slice{At: from.Add(time.Duration(i) * 200 * time.Millisecond), Seconds: 0.2, Hops: hops})
	}
	return out
}

func TestOwnTimeIsWithoutThatOfOthers(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	all := slicesOf(from, 5,
		hop("", "127.77.1.2:80", 20, 60*time.Millisecond),
		hop("", "127.77.1.2:9090", 4, time.Second), // a scrape
		hop(packets.Watcher, "127.77.1.3:8080", 4, time.Second),
		hop("proxy-1", "127.77.1.3:8080", 30, 20*time.Millisecond),
		hop("proxy-1", "127.77.1.4:8080", 10, 20*time.Millisecond),
		hop("server-1", "127.0.0.1:9000", 30, 4*time.Millisecond),
		hop("", "127.0.0.1:7000", 999, time.Hour), // nothing of the system
	)
	all = append(all, slicesOf(from.Add(-100*time.Millisecond), 1, hop("", "127.77.1.2:80", 1000, time.Second))...)
	all = append(all, slicesOf(from.Add(900*time.Millisecond), 5, hop("", "127.77.1.2:80", 1000, time.Second))...)
	p := passagesIn(all, proxied(), "proxy", from, from.Add(time.Second))
	got := p.stays()
	for name, want := range map[string]stay{
		"proxy":          {visits: 1, ownMS: 20, callMS: 40, calls: 4},
		"server":         {visits: 2, ownMS: 17, callMS: 3, calls: 0.6},
		"127.0.0.1:9000": {visits: 1.5, ownMS: 4},
	} {
		s := got[name]
		for what, x := range map[string][2]float64{"visits": {s.visits, want.visits}, "own": {s.ownMS, want.ownMS}, "call": {s.callMS, want.callMS}, "calls": {s.calls, want.calls}} {
			if math.Abs(x[0]-x[1]) > 1e-9 {
				t.Errorf("%s: %s: got %v, want %v", name, what, x[0], x[1])
			}
		}
	}
	if len(got) != 3 {
		t.Errorf("got %v, want three", got)
	}
}

// Times are not worked out where it is not known who asked, or nothing was seen.
func TestOwnTimesThatAreNotKnown(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	until := from.Add(time.Second)
	load := hop("", "127.77.1.2:80", 20, 60*time.Millisecond)
	lost := slicesOf(from, 5, load)
	for i := range lost {
		lost[i].Lost = 3
	}
	for name, all := range map[string][]packets.Slice{
		"nothing":            nil,
		"another time":       slicesOf(from.Add(time.Hour), 5, load),
		"packets were lost":  lost,
		"nobody knows who":   slicesOf(from, 5, load, hop("", "127.77.1.3:8080", 20, time.Millisecond)),
		"hardly any request": slicesOf(from, 1, hop("", "127.77.1.2:80", 2, time.Millisecond)),
	} {
		p := passagesIn(all, proxied(), "proxy", from, until)
		if got := p.stays(); got != nil {
			t.Errorf("%s: got %v, want nothing", name, got)
		}
	}
}

// Where most of what passed was lost, what was seen is of the moments in which the machine had
// time, and is not believed; it is said why.
func TestLostPacketsAreTold(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	all := slicesOf(from, 10, hop("", "127.77.1.2:80", 20, 60*time.Millisecond))
	for n, want := range map[int]string{0: "", 5: "", 6: "packets were lost in 60 % of the time", 10: "packets were lost in 100 % of the time"} {
		for i := range all {
			all[i].Lost = 0
			if i < n {
				all[i].Lost = 3
			}
		}
		p := passagesIn(all, proxied(), "proxy", from, from.Add(2*time.Second))
		if got := p.unclear(); !strings.Contains(got, want) || (got == "") != (want == "") || (p.stays() == nil) != (want != "") {
			t.Errorf("%d of 10 slices with losses: got %q and %v, want %q", n, got, p.stays(), want)
		}
	}
}

// A connection that is not told apart as yet is that of the only service that ever asks. If
// there are two, it is not known whose it is.
func TestWhoAsksIsLearnt(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	at := slicesOf(from, 5, hop("", "127.77.1.2:80", 20, 60*time.Millisecond), hop("", "127.77.1.3:8080", 15, 20*time.Millisecond), hop("proxy-1", "127.77.1.3:8080", 5, 20*time.Millisecond))
	p := passagesIn(at, proxied(), "proxy", from, from.Add(time.Second))
	if got := p.stays(); p.unclear() != "" || math.Abs(got["proxy"].ownMS-40) > 1e-9 || math.Abs(got["server"].visits-1) > 1e-9 {
		t.Errorf("one asks: got %+v (%s), want 40 ms of the proxy's own", got, p.unclear())
	}
	later := slicesOf(from.Add(time.Minute), 1, hop("server-2", "127.77.1.3:8080", 1, time.Millisecond))
	if p := passagesIn(append(at, later...), proxied(), "proxy", from, from.Add(time.Second)); p.stays() != nil || !strings.HasPrefix(p.unclear(), "75 %") {
		t.Errorf("two ask: got %q, want it to be unclear", p.unclear())
	}
}

// So is one with somebody outside: of what a service asks there, nothing is missing. It is not
// where strangers ask there as well, and where no service does, it is nothing of the system.
func TestWhoAsksOutsideIsLearnt(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	unnamed := hop("", "127.0.0.1:9000", 6, 20*time.Millisecond)
	unnamed.Unnamed = true
	at := slicesOf(from, 5, hop("", "127.77.1.2:80", 20, 60*time.Millisecond), hop("proxy-1", "127.0.0.1:9000", 14, 20*time.Millisecond), unnamed)
	p := passagesIn(at, proxied(), "proxy", from, from.Add(time.Second))
	if got := p.stays(); p.unclear() != "" || math.Abs(got["127.0.0.1:9000"].visits-1) > 1e-9 || math.Abs(got["proxy"].ownMS-40) > 1e-9 {
		t.Errorf("got %+v (%s), want one visit outside and 40 ms of the proxy's own", got, p.unclear())
	}
	for name, other := range map[string]packets.Hop{"a stranger": hop("", "127.0.0.1:9000", 1, time.Millisecond), "a service": hop("server-1", "127.0.0.1:9000", 1, time.Millisecond)} {
		later := slicesOf(from.Add(time.Minute), 1, other)
		if p := passagesIn(append(at, later...), proxied(), "proxy", from, from.Add(time.Second)); p.stays() != nil || !strings.HasPrefix(p.unclear(), "30 %") {
			t.Errorf("%s asks as well: got %q, want it to be unclear", name, p.unclear())
		}
	}
	p = passagesIn(slicesOf(from, 5, hop("", "127.77.1.2:80", 20, 60*time.Millisecond), unnamed), proxied(), "proxy", from, from.Add(time.Second))
	if got := p.stays(); p.unclear() != "" || len(got) != 1 {
		t.Errorf("no service asks there: got %+v (%s), want the proxy alone", got, p.unclear())
	}
}

func TestTrialsAreJoinedToAMap(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	trial := func(each time.Duration) observed {
		all := slicesOf(from, 5, hop("", "127.77.1.2:80", 20, each+time.Millisecond), hop("proxy-1", "127.77.1.3:8080", 20, each))
		return observed{atCapacity: passagesIn(all, proxied(), "proxy", from, from.Add(time.Second))}
	}
	trials := []observed{trial(80 * time.Millisecond), trial(70 * time.Millisecond), trial(90 * time.Millisecond)}
	trials[1].light = passagesIn(slicesOf(from, 5, hop("", "127.77.1.2:80", 2, 21*time.Millisecond), hop("proxy-1", "127.77.1.3:8080", 2, 20*time.Millisecond)), proxied(), "proxy", from, from.Add(time.Second))
	m, waits := hopsOf(trials)
	if len(m.Boxes) != 2 || len(waits) != 2 || waits[1].Component != "server" || math.Abs(waits[1].MS-80) > 1e-9 || math.Abs(waits[1].LightMS-20) > 1e-9 || waits[1].Visits != 1 {
		t.Fatalf("got %+v and %+v, want proxy and server, 20 and 80 ms", m, waits)
	}
	if a := m.Arrows[1]; a.From != "proxy" || a.To != "server" || a.PerRequest != 1 || math.Abs(a.InFlight-8) > 1e-9 {
		t.Errorf("got %+v, want 8 under way from proxy to server", a)
	}
	m, waits = hopsOf([]observed{{unseen: "it is not allowed"}})
	if m == nil || m.Unseen != "it is not allowed" || waits != nil {
		t.Errorf("got %+v, want why it was not seen", m)
	}
	short := observed{atCapacity: passagesIn(slicesOf(from, 5, hop("", "127.77.1.2:80", 20, time.Millisecond), hop("", "127.77.1.3:8080", 20, time.Millisecond)), proxied(), "proxy", from, from.Add(time.Second))}
	if m, waits := hopsOf([]observed{short}); m == nil || !strings.HasPrefix(m.Unseen, "100 % of the exchanges behind the entry") || len(m.Arrows) > 0 || waits != nil {
		t.Errorf("connections of a request: got %+v, want why it was not seen", m)
	}
	if m, waits := hopsOf([]observed{{}}); m != nil || waits != nil {
		t.Errorf("a run of before: got %+v", m)
	}
}

// Nagle's algorithm waiting for a delayed acknowledgement is named.
func TestStalledMessagesAreWarnedOf(t *testing.T) {
	t.Parallel()
	from := time.Unix(1_700_000_000, 0)
	h := hop("proxy-1", "127.77.1.3:8080", 20, 60*time.Millisecond)
	h.Stalls = 18
	all := slicesOf(from, 5, hop("", "127.77.1.2:80", 20, 60*time.Millisecond), h)
	m, _ := hopsOf([]observed{{atCapacity: passagesIn(all, proxied(), "proxy", from, from.Add(time.Second))}})
	got := strings.Join(stalls(m), "\n")
	if !strings.Contains(got, "between proxy and server, 90 % of the exchanges pause for 40 ms") || !strings.Contains(got, "TCP_NODELAY") || strings.Contains(got, "the load") {
		t.Errorf("got %q", got)
	}
	// A pause between the parts of the server's answer is not the proxy's own time: it is 100 ms for each
	// request, less 60 until the answer begins and nine tenths of 40.
	all = slicesOf(from, 5, hop("", "127.77.1.2:80", 20, 100*time.Millisecond), h)
	paused := passagesIn(all, proxied(), "proxy", from, from.Add(time.Second))
	if own := paused.stays()["proxy"].ownMS; math.Abs(own-4) > 1e-9 {
		t.Errorf("the proxy's own time: got %v ms, want 4", own)
	}
	// What a server pushes in its own time pauses for 30 ms and 50 as often.
	h.Near = 17
	all = slicesOf(from, 5, hop("", "127.77.1.2:80", 20, 60*time.Millisecond), h)
	m, _ = hopsOf([]observed{{atCapacity: passagesIn(all, proxied(), "proxy", from, from.Add(time.Second))}})
	if got := stalls(m); len(got) > 0 {
		t.Errorf("pauses of any length: got %q", got)
	}
}
