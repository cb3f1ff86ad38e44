package roundtrip_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"loadstone/lab/load"
	"loadstone/lab/load/loadtest"
	"loadstone/lab/load/roundtrip"
)

// part and group write flows.
func part(step int) load.Part { return load.Part{Step: step} }

func group(repeat, parallel int, parts ...load.Part) load.Part {
	return load.Part{Repeat: repeat, Parallel: parallel, Parts: parts}
}

// journeys are the three of an app with a feed: of each step, how often it is called, and
// how they depend on each other.
func journeys() map[string]struct {
	counts []float64
	flow   []load.Part
	turns  float64 // round trips that are made one after the other
} {
	notices := group(14, 6, part(0))
	return map[string]struct {
		counts []float64
		flow   []load.Part
		turns  float64
	}{
		"separate": {[]float64{14, 63, 63, 63, 63}, []load.Part{notices, group(63, 0, part(1), group(1, 6, part(2), part(3), part(4)))}, 3 + 63*2},
		"bundled":  {[]float64{14, 63, 63}, []load.Part{notices, group(63, 0, part(1), part(2))}, 3 + 63*2},
		"batched":  {[]float64{14, 7, 7}, []load.Part{notices, group(7, 0, part(1), part(2))}, 3 + 7*2},
		"list":     {[]float64{1, 10}, []load.Part{part(0), {ForEach: "ids", As: "id", Parallel: 6, Parts: []load.Part{part(1)}}}, 1 + 2},
		"in turn":  {[]float64{1, 1, 1}, nil, 3},
	}
}

// TestDurationIsThatOfANetwork: a client that makes the journeys over a network of the
// same round trip takes exactly as long, by a clock that stands still while anybody works.
func TestDurationIsThatOfANetwork(t *testing.T) {
	t.Parallel()
	const rtt, answer = 60 * time.Millisecond, 5 * time.Millisecond
	for name, j := range journeys() {
		for _, setup := range []int{0, 1, 2} {
			t.Run(fmt.Sprintf("%s, %d", name, setup), func(t *testing.T) {
				t.Parallel()
				s := &load.Scenario{Flow: j.flow, Steps: make([]load.Step, len(j.counts))}
				n := roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1), Setup: setup}
				computed := n.Duration(s, calls(j.counts, 100, answer))
				if want := time.Duration(j.turns * float64(rtt+answer)); setup == 0 && computed != want {
					t.Errorf("computed %v, want %v: %v turns", computed, want, j.turns)
				}
				synctest.Test(t, func(t *testing.T) {
					if took := travel(t, j.flow, j.counts, n, answer); took != computed {
						t.Errorf("the journey took %v, and %v was computed", took, computed)
					}
				})
			})
		}
	}
}

func calls(counts []float64, bytes float64, answer time.Duration) []roundtrip.Call {
	var out []roundtrip.Call
	for _, n := range counts {
		out = append(out, roundtrip.Call{PerJourney: n, Bytes: bytes, Answer: answer})
	}
	return out
}

// travel makes a journey over a network of pipes, and returns how long that took.
func travel(t *testing.T, flow []load.Part, counts []float64, n roundtrip.Network, answer time.Duration) time.Duration {
	t.Helper()
	listener := &pipes{accept: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(answer)
		_, _ = io.WriteString(w, "answer")
	})}
	var all sync.WaitGroup
	all.Go(func() { _ = server.Serve(listener) })
	dial := func(context.Context, string, string) (net.Conn, error) {
		time.Sleep(time.Duration(n.Setup) * n.RTT)
		near, one := net.Pipe()
		other, far := net.Pipe()
		all.Go(func() { loadtest.Delay(one, other, n.RTT/2, nil) })
		listener.accept <- far
		return near, nil
	}
	c := &traveller{t: t, counts: counts, lanes: make([]*http.Client, 6)}
	for i := range c.lanes {
		c.lanes[i] = &http.Client{Transport: &http.Transport{DialContext: dial, MaxConnsPerHost: 1, DisableCompression: true}}
	}
	if flow == nil {
		for i := range counts {
			flow = append(flow, part(i))
		}
	}
	began := time.Now()
	c.inTurn(flow, 0, 1)
	took := time.Since(began)
	for _, lane := range c.lanes {
		lane.CloseIdleConnections()
	}
	_ = server.Close()
	all.Wait()
	return took
}

// traveller makes a journey's calls, each lane over a connection of its own.
type traveller struct {
	t      *testing.T
	counts []float64
	lanes  []*http.Client
}

func (c *traveller) inTurn(parts []load.Part, lane int, times float64) {
	for i := range parts {
		p := &parts[i]
		if len(p.Parts) == 0 {
			c.call(lane)
			continue
		}
		passes := max(p.Repeat, 1)
		if p.ForEach != "" {
			passes = int(c.counts[p.Parts[0].Step] / times)
		}
		var units [][]load.Part
		for range passes {
			units = append(units, p.Parts)
		}
		if p.Parallel > 0 && passes == 1 {
			units = nil
			for i := range p.Parts {
				units = append(units, p.Parts[i:i+1])
			}
		}
		if p.Parallel == 0 {
			for _, unit := range units {
				c.inTurn(unit, lane, times*float64(passes))
			}
			continue
		}
		c.atOnce(units, min(p.Parallel, len(units)), times*float64(passes))
	}
}

func (c *traveller) atOnce(units [][]load.Part, lanes int, times float64) {
	work := make(chan []load.Part, len(units))
	for _, unit := range units {
		work <- unit
	}
	close(work)
	var all sync.WaitGroup
	for lane := range lanes {
		all.Go(func() {
			for unit := range work {
				c.inTurn(unit, lane, times)
			}
		})
	}
	all.Wait()
}

func (c *traveller) call(lane int) {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "http://far.away/", http.NoBody)
	if err != nil {
		c.t.Error(err)
		return
	}
	response, err := c.lanes[lane].Do(request)
	if err != nil {
		c.t.Error(err)
		return
	}
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "answer" {
		c.t.Errorf("%q, %v", body, err)
	}
	_ = response.Body.Close() // read to its end
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	accept chan net.Conn
	done   chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accept:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// TestDuration: bytes share the link, HTTP/2 opens one connection, and lists have the
// length that their calls say.
func TestDuration(t *testing.T) {
	t.Parallel()
	flow := []load.Part{part(0), group(1, 6, part(1), part(2))}
	at := func(n roundtrip.Network, s *load.Scenario, c []roundtrip.Call) string {
		return strings.TrimSuffix(n.Duration(s, c).String(), "0s")
	}
	s := &load.Scenario{Flow: flow, Steps: make([]load.Step, 3)}
	each := calls([]float64{1, 1, 1}, 1000, 0)
	const rtt = 100 * time.Millisecond
	for name, test := range map[string]struct {
		network roundtrip.Network
		flow    []load.Part
		calls   []roundtrip.Call
		want    string
	}{
		"a link without bound":       {roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1)}, flow, each, "200ms"},
		"lanes share the link":       {roundtrip.Network{RTT: rtt, Bandwidth: 10_000}, flow, each, "500ms"},                // 100 + 100, 100 + 2 × 100
		"a connection for each lane": {roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1), Setup: 2}, flow, each, "500ms"}, // the one that is open is free before the other,
		"one for all lanes":          {roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1), Setup: 2, Shared: true}, flow, each, "400ms"},
		"a step that a cache answers half of the time": {
			roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1)}, flow, calls([]float64{0.5, 1, 1}, 0, 0), "150ms",
		},
		"lists of several lengths": {
			roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1)},
			[]load.Part{part(0), {ForEach: "ids", As: "id", Parallel: 2, Parts: []load.Part{part(1)}}}, calls([]float64{1, 4.5}, 0, 0), "325ms",
		},
		"a group of which half is made": { // 7 calls in 6 lanes
			roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1)}, []load.Part{group(14, 6, part(0))}, calls([]float64{7}, 0, 0), "116.666667ms",
		},
		"a group that is seldom made": {
			roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1)}, []load.Part{group(1, 6, part(0), part(1))}, calls([]float64{0.1, 0.1}, 0, 0), "20ms",
		},
		"a connection that is seldom needed": { // 0.1 × (200 + 100), and the rest of the 200 by the next
			roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1), Setup: 2}, []load.Part{part(0), part(1)}, calls([]float64{0.1, 0.2}, 0, 0), "70ms",
		},
		"no list at all": {
			roundtrip.Network{RTT: rtt, Bandwidth: math.Inf(1)},
			[]load.Part{part(0), {ForEach: "ids", As: "id", Parallel: 2, Parts: []load.Part{part(1)}}}, calls([]float64{1, 0}, 0, 0), "100ms",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &load.Scenario{Flow: test.flow, Steps: s.Steps}
			if got := at(test.network, s, test.calls); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
