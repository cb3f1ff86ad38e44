package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// measureStalled measures how late messages are for viewers that read, beside none and beside
// three more for each seven that read nothing: 30 % of all. Both take turns.
func measureStalled(ctx context.Context, out io.Writer, hub server, o offer, rounds int) error {
	o.stamped = true
	args := hub.args
	hub.args = func(o offer) []string { return append(args(o), stamping) }
	o.messages *= 2 // the first half fills the sockets of those that are stalled
	names := []string{"none stalled", "30 % stalled"}
	p99, p50, growth := make([][]time.Duration, 2), make([][]time.Duration, 2), make([][]int64, 2)
	for range rounds {
		for i := range names {
			o.stalled = i * o.viewers * 3 / 7
			u, err := measure(ctx, hub, o)
			if err != nil {
				return err
			}
			if o.stalled > 0 && u.Blocked == 0 {
				return errors.New("no socket was ever full: say more messages")
			}
			p50[i], p99[i] = append(p50[i], u.late.quantile(0.5)), append(p99[i], u.late.quantile(0.99))
			growth[i] = append(growth[i], (u.RSS[1]-u.RSS[0])>>10)
		}
	}
	_, _ = fmt.Fprintf(out, "%d viewers that read, %d messages a second, %d rounds: medians of how late messages are, and how much memory grew\n\n", o.viewers, o.rate, rounds)
	for i, name := range names {
		for _, all := range [][]time.Duration{p50[i], p99[i]} {
			slices.Sort(all)
		}
		slices.Sort(growth[i])
		middle := rounds / 2
		_, _ = fmt.Fprintf(out, "%-14s p50 %8v  p99 %8v  %6d KiB\n", name, p50[i][middle].Round(time.Microsecond), p99[i][middle].Round(time.Microsecond), growth[i][middle])
	}
	return nil
}
