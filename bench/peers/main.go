// Command peers compares the load generator with wrk, k6 and Go's best-known
// load tools in one run on one machine, and measures what the generator
// promises of itself: sends on time, latencies that a stall cannot hide, little
// memory. scripts/bench-load builds what it needs and runs it:
//
//	go run ./bench/peers [ROUNDS]
//
// Absolute figures are this machine's, and this hour's. What can be compared
// are figures of the same run: tools take turns, every server is a process of
// its own that counts the requests itself, and a tool's CPU time is what the
// kernel says that its process used.
//
// It is a program of the bench and no part of Loadstone.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// How often the tools take turns, unless the argument says otherwise.
const defaultRounds = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout) //nolint:forbidigo // a program of its own
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "peers:", err) // nobody left to tell
		os.Exit(1)                                    //nolint:forbidigo // a program of its own
	}
}

// run is the bench, or one of the processes that it starts.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 2 && args[0] == "serve" {
		return serve(ctx, args[1], in, out)
	}
	if len(args) == 1 && args[0] == "watch" {
		return watch(out)
	}
	rounds := defaultRounds
	if len(args) == 1 {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number of rounds; write one such as 10", args[0])
		}
		rounds = n
	}
	if len(args) > 1 {
		return errors.New("usage: peers [ROUNDS]")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b := &bench{self: self, rounds: rounds, out: &printer{w: out}}
	for _, part := range []func(context.Context) error{b.closed, b.open, b.delays, b.requestsHeld, b.usersHeld, b.socketsHeld} {
		if err := part(ctx); err != nil {
			return err
		}
		if err := errors.Join(ctx.Err(), b.out.err); err != nil {
			return err
		}
	}
	return nil
}

// bench is one run of the comparison.
type bench struct {
	self   string // this program
	rounds int
	out    *printer

	perSecond float64 // what the generator did in the closed model
}

// loadstone is the generator's program, as make build leaves it.
const loadstone = "bin/loadstone"

// most prints whether a figure is at most what was promised of it.
func (b *bench) most(what string, got, bar float64) {
	b.verdict(what, got, bar, got <= bar, "at most")
}

// least prints whether a figure is at least what was promised of it.
func (b *bench) least(what string, got, bar float64) {
	b.verdict(what, got, bar, got >= bar, "at least")
}

func (b *bench) verdict(what string, got, bar float64, met bool, word string) {
	verdict := "met"
	if !met {
		verdict = fmt.Sprintf("MISSED by %.3g %%", 100*math.Abs(got/bar-1))
	}
	b.out.printf("  %-54s %9.3f, %-8s %7.3f: %s\n", what, got, word, bar, verdict)
}

// near prints whether a figure is within 5 % of another.
func (b *bench) near(what string, got, want float64) {
	const bar = 5
	off, verdict := 100*(got/want-1), "met"
	if !(math.Abs(off) <= bar) {
		verdict = "MISSED"
	}
	b.out.printf("  %-54s %+8.1f %%, within   %7d %%: %s\n", what, off, bar, verdict)
}

// printer writes text and keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
