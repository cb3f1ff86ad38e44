package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The known distribution: each request takes an exponential time of this mean,
// and for a while everything stands still. 3 % of the requests fall into the
// stall, so that it alone makes the 99th percentile. The mean is large beside
// the 0.1 to 0.2 ms by which a timer is late in the server.
const (
	delayMean    = 60 * time.Millisecond
	delayRate    = 500 // requests per second
	delaySeconds = 20
	stallFrom    = 8 * time.Second // after the first request
	stallFor     = 600 * time.Millisecond
)

// delaySequence is what the requests of a run take, in the order of their arrival.
func delaySequence() []time.Duration {
	random := rand.New(rand.NewPCG(2, 2))
	delays := make([]time.Duration, delayRate*delaySeconds)
	for i := range delays {
		delays[i] = time.Duration(random.ExpFloat64() * float64(delayMean))
	}
	return delays
}

// knownLatency is the distribution of response times that follows from that for
// requests evenly spaced, each counted from when it was due.
func knownLatency() latency {
	times := delaySequence()
	for i := range times {
		due := time.Duration(i) * time.Second / delayRate
		if due >= stallFrom && due < stallFrom+stallFor {
			times[i] += stallFrom + stallFor - due
		}
	}
	return percentiles(times)
}

// delayer holds requests for as long as the sequence says.
type delayer struct {
	mu     sync.Mutex
	delays []time.Duration
	next   int
	first  time.Time
	held   []time.Duration // as measured, of the first len(delays) requests
}

func newDelayer() *delayer { return &delayer{delays: delaySequence()} }

func (d *delayer) hold() {
	now := time.Now()
	d.mu.Lock()
	if d.next == 0 {
		d.first = now
	}
	until := now.Add(d.delays[d.next%len(d.delays)])
	d.next++
	if since := now.Sub(d.first); since >= stallFrom && since < stallFrom+stallFor {
		until = until.Add(stallFrom + stallFor - since)
	}
	d.mu.Unlock()
	time.Sleep(time.Until(until))
	took := time.Since(now)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.held) < len(d.delays) {
		d.held = append(d.held, took)
	}
}

// measured is how long requests were held in fact: timers are late, the more so
// the busier the machine.
func (d *delayer) measured() latency {
	d.mu.Lock()
	defer d.mu.Unlock()
	return percentiles(slices.Clone(d.held))
}

// delays compares three views of one distribution: what the server was told,
// wrk2's method, and the generator's. What the server did in fact stands beside
// the two, to tell a machine that was busy from a tool that errs.
func (b *bench) delays(ctx context.Context) error {
	b.out.printf("== latencies of a known distribution: exponential, mean %v, and a stall of %v; %d/s for %d s\n", delayMean, stallFor, delayRate, delaySeconds)
	reference, did, err := b.against(ctx, func(s *server) (latency, error) {
		return constantThroughput(ctx, strings.Trim(s.url, "htp:/"))
	})
	if err != nil {
		return fmt.Errorf("wrk2's method: %w", err)
	}
	own, didOwn, err := b.against(ctx, func(s *server) (latency, error) {
		sum, _, err := generate(ctx, s.url, "--rate", fmt.Sprintf("%d/s", delayRate), "--duration", fmt.Sprintf("%ds", delaySeconds), "--arrivals", "uniform")
		return sum.Latency.Response, err
	})
	if err != nil {
		return err
	}
	known := knownLatency()
	b.out.printf("  %-4s %10s %24s %24s  ms\n", "", "known", "wrk2's way (server did)", "loadstone (server did)")
	for _, p := range []struct {
		name string
		of   func(latency) float64
	}{
		{"p50", func(l latency) float64 { return l.P50 }},
		{"p90", func(l latency) float64 { return l.P90 }},
		{"p99", func(l latency) float64 { return l.P99 }},
	} {
		b.out.printf("  %-4s %10.2f %13.2f (%8.2f) %13.2f (%8.2f)\n", p.name, p.of(known), p.of(reference), p.of(did), p.of(own), p.of(didOwn))
		b.near(p.name+", from wrk2's method", p.of(own), p.of(reference))
		b.near(p.name+", from the known one", p.of(own), p.of(known))
	}
	return nil
}

// against measures a new server "delayed" and returns what it says of itself too.
func (b *bench) against(ctx context.Context, measure func(*server) (latency, error)) (seen, did latency, err error) {
	err = b.withServer(ctx, "delayed", func(s *server) error {
		if seen, err = measure(s); err != nil {
			return err
		}
		n, err := s.counts(ctx)
		did = n.Held
		return err
	})
	return seen, did, err
}

func (b *bench) withServer(ctx context.Context, kind string, use func(*server) error) error {
	s, err := b.startServer(ctx, kind)
	if err != nil {
		return err
	}
	defer s.stop()
	return use(s)
}

// constantThroughput is wrk2's method: every connection has a schedule of its
// own, evenly spaced; it sends the next request when that is due or, if it is
// still waiting then, as soon as it can, and the latency counts from when the
// request was due.
func constantThroughput(ctx context.Context, address string) (latency, error) {
	const users = 256 // as many as leave half a second between the requests of each
	gap := time.Second * users / delayRate
	begun := time.Now().Add(100 * time.Millisecond) // once all are connected
	times := make([][]time.Duration, users)
	errs := make([]error, users)
	var wg sync.WaitGroup
	for i := range users {
		wg.Go(func() {
			offset := gap * time.Duration(i) / users
			times[i], errs[i] = oneConnection(ctx, address, begun.Add(offset), gap)
		})
	}
	wg.Wait()
	return percentiles(slices.Concat(times...)), errors.Join(errs...)
}

func oneConnection(ctx context.Context, address string, first time.Time, gap time.Duration) (times []time.Duration, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(first.Add(2 * delaySeconds * time.Second)); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	for due := first; due.Sub(first) < delaySeconds*time.Second; due = due.Add(gap) {
		time.Sleep(time.Until(due))
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: bench\r\n\r\n"); err != nil {
			return times, err
		}
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			return times, err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return times, err
		}
		times = append(times, time.Since(due))
	}
	return times, nil
}

// percentiles sorts times and picks three of them.
func percentiles(times []time.Duration) latency {
	if len(times) == 0 {
		return latency{}
	}
	slices.Sort(times)
	at := func(q float64) float64 {
		return float64(times[min(int(q*float64(len(times))), len(times)-1)]) / float64(time.Millisecond)
	}
	return latency{P50: at(0.5), P90: at(0.9), P99: at(0.99)}
}
