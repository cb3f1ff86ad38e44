package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"time"
)

// The open model: so many arrivals per second, for so long.
const (
	openRate    = 5000
	openSeconds = 10
	fullRate    = 40000

	ratesSeconds = 5 // what each of the rates is offered for
)

// open asks how many requests are sent within a millisecond of their time, and
// what the rates cost, with and without --spin.
func (b *bench) open(ctx context.Context) error {
	b.out.printf("== open model: %d/s for %d s, and what rates cost\n", openRate, openSeconds)
	s, err := b.startServer(ctx, "fixed")
	if err != nil {
		return err
	}
	defer s.stop()
	var bare []float64
	var sent float64
	for turn := range 3 {
		if turn == 1 {
			sum, _, err := generate(ctx, s.url, "--rate", fmt.Sprintf("%d/s", openRate), "--duration", fmt.Sprintf("%ds", openSeconds),
				"--connections", connections, "--spin")
			if err != nil {
				return err
			}
			sent = sum.Generator.Lateness.WithinMs
			continue
		}
		share, err := b.bareLoop(ctx)
		if err != nil {
			return err
		}
		bare = append(bare, share)
	}
	b.out.printf("  share of arrivals within 1 ms of their time: %.4f %% (a bare loop that only watches the clock, before and after: %.4f %%, %.4f %%)\n",
		100*sent, 100*bare[0], 100*bare[1])
	b.least("% of arrivals sent within 1 ms", 100*sent, 99.9)
	return b.rates(ctx, s)
}

// rates says what two rates cost.
func (b *bench) rates(ctx context.Context, s *server) error {
	for _, rate := range []int{openRate, fullRate} {
		for _, spin := range []bool{false, true} {
			args := []string{s.url, "--rate", fmt.Sprintf("%d/s", rate), "--duration", fmt.Sprintf("%ds", ratesSeconds), "--connections", connections}
			if spin {
				args = append(args, "--spin")
			}
			var sum summary
			u, n, err := s.counted(ctx, func() (u used, err error) { sum, u, err = generate(ctx, args...); return })
			if err != nil {
				return err
			}
			cores := u.cpu.Seconds() / ratesSeconds
			b.out.printf("  %5d/s, spin %-5t: %6.2f µs/request, %.2f cores, %6.0f req/s done, %.3f %% within 1 ms\n",
				rate, spin, u.cpu.Seconds()*1e6/float64(n), cores, float64(n)/ratesSeconds, 100*sum.Generator.Lateness.WithinMs)
			for _, reason := range sum.ValidityReasons {
				b.out.printf("    lower bound only: %s\n", reason)
			}
			if rate == fullRate && !spin {
				// A thread that spins takes a core whatever it does.
				b.most(fmt.Sprintf("cores for %d/s", fullRate), cores, 1)
				b.least("req/s done of them", float64(n)/ratesSeconds, 0.99*fullRate)
			}
		}
	}
	return nil
}

// bareLoop is the share of arrivals that a loop sees within a millisecond that
// does nothing else, in a process of its own: where it falls short it is the
// machine that takes the processor away.
func (b *bench) bareLoop(ctx context.Context) (float64, error) {
	u, err := runChild(ctx, b.self, "watch")
	if err != nil {
		return 0, err
	}
	var share float64
	err = json.Unmarshal(u.output, &share)
	return share, err
}

// watch is that process. It prints the share.
func watch(out io.Writer) error {
	random := rand.New(rand.NewPCG(1, 1))
	begun := time.Now()
	due, seen, inTime := time.Duration(0), 0, 0
	for due < openSeconds*time.Second {
		now := time.Since(begun)
		for ; due <= now; seen++ {
			if now-due <= time.Millisecond {
				inTime++
			}
			due += time.Duration(random.ExpFloat64() / openRate * float64(time.Second))
		}
	}
	_, err := fmt.Fprintf(out, "%g\n", float64(inTime)/float64(seen))
	return err
}
