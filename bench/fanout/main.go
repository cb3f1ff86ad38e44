// Command fanout measures what it costs to tell many viewers what was said: Loadstone's hub
// beside a C program that writes the same frame to as many sockets in a loop, and beside
// centrifuge.
//
//	go run ./bench/fanout [VIEWERS [RATE [ROUNDS]]]
//	go run ./bench/fanout idle [VIEWERS]        // memory of viewers to whom nothing is said
//	go run ./bench/fanout joins [JOINS]         // CPU time of a join, with a token and 50 messages
//	go run ./bench/fanout stalled [VIEWERS [RATE [ROUNDS]]]  // others beside 30 % that read nothing
//
// It needs a C compiler, cc, and centrifuge, a module of its own, from the network or the
// module cache; ws and socket.io on node, uWebSockets in Bun, and nchan take part once
// scripts/setup fanout has installed them. The servers take turns, each a process of its own; all
// are sent messages at the same rate, and what is compared is the CPU time that the kernel says
// they used, for one message to one viewer. The viewers are one epoll loop, in the process of the bench.
//
// It is a program of the bench and no part of Loadstone.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"loadstone/system/chat"
	"loadstone/system/chat/analysis/corpus"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout) //nolint:forbidigo // a program of its own
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "fanout:", err) // nobody left to tell
		os.Exit(1)                                     //nolint:forbidigo // a program of its own
	}
}

// offer is what each server is to do.
type offer struct {
	viewers, messages, rate int
	tick                    time.Duration
	// stalled viewers come on top, and read nothing.
	stalled int
	// calm viewers look for messages once a millisecond. Else the thread that reads sleeps whenever it has
	// read what there is, and who writes to it pays for waking it up, often once for each message; a network card would
	// not have it do that.
	calm bool
	// deflate has messages compressed, of which viewers make what they were.
	deflate bool
	// stamped messages say when they were said, and some may not arrive.
	stamped bool
}

// used is what a server says of itself.
type used struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	Deliveries int64   `json:"deliveries"`
	// RSS is the resident memory of the hub before and after, in bytes.
	RSS [2]int64 `json:"rss"`
	// Blocked is how often a socket of the hub's took no more.
	Blocked int64 `json:"blocked"`
	// Frames are the writes that the hub made of the deliveries: fewer if it was behind. 0 of others.
	Frames int64 `json:"frames"`
	// late is how late messages were, for viewers that measure it.
	late latencies
}

// server is one that takes part.
type server struct {
	name string
	tick time.Duration
	// greet is what a viewer does before it is one; nil for nothing.
	greet *greeting
	// counts says that it counts its frames.
	counts bool
	// calm says that its viewers are.
	calm bool
	// deflate says that its messages are compressed.
	deflate bool
	// peer says that it is somebody else's, who may fail.
	peer bool
	// command is how it is started, without what is offered.
	command []string
	args    func(o offer) []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 {
		switch args[0] { // the servers, which the bench starts
		case "hub":
			return serveHub(ctx, args[1:], os.Stdin, out)
		case "nchan":
			return serveNchan(ctx, args[1:], os.Stdin, out)
		case "chat":
			return serveChat(ctx, args[1:], out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	hub := server{name: "hub", counts: true, command: []string{self, "hub"}, args: offer.args}
	mode := ""
	if len(args) > 0 && slices.Contains([]string{"idle", "joins", "stalled"}, args[0]) {
		mode, args = args[0], args[1:]
	}
	o, rounds := offer{viewers: 500, rate: 250}, 3
	joins := 20_000
	places := map[string][]*int{"": {&o.viewers, &o.rate, &rounds}, "idle": {&o.viewers}, "joins": {&joins}, "stalled": {&o.viewers, &o.rate, &rounds}}
	if err := numbers(args, places[mode]...); err != nil {
		return err
	}
	const seconds = 5 // that each server is measured for
	o.messages = seconds * o.rate
	dir, err := os.MkdirTemp("", "fanout")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is temporary either way
	switch mode {
	case "idle":
		return measureIdle(ctx, out, hub, o)
	case "joins":
		return measureJoins(ctx, out, dir, joins)
	case "stalled":
		return measureStalled(ctx, out, hub, o, rounds)
	}
	all, missing, err := build(ctx, dir, hub)
	if err != nil {
		return err
	}
	for _, why := range missing {
		_, _ = fmt.Fprintln(out, "left out:", why)
	}
	return compare(ctx, out, all, o, rounds)
}

// numbers reads the arguments into places, in their order; those that are missing stay as they are.
func numbers(args []string, places ...*int) error {
	if len(args) > len(places) {
		return errors.New("usage: fanout [stalled] [VIEWERS [RATE [ROUNDS]]], fanout idle [VIEWERS] or fanout joins [JOINS]")
	}
	for i, text := range args {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is no number of 1 or more", text)
		}
		*places[i] = n
	}
	return nil
}

func (o offer) args() []string {
	args := []string{strconv.Itoa(o.viewers + o.stalled), strconv.Itoa(o.messages), strconv.Itoa(o.rate), o.tick.String()}
	if o.deflate {
		args = append(args, deflating)
	}
	return args
}

// talk is what people say, of much the same length.
var talk = sync.OnceValue(func() (texts []string) {
	const length = 60
	var text string
	for _, m := range corpus.Invent(&chat.Stream{ID: 1}, 5000) {
		if text += m.Text + " "; len(text) > length {
			texts = append(texts, strings.ToValidUTF8(text[:length], ""))
			text = ""
		}
	}
	return texts
})

// message is what is said, at a time, by one of many.
func message(offset uint64, at int64) []byte {
	const people = 300
	who := sha256.Sum256(binary.LittleEndian.AppendUint64(nil, offset*7919%people))
	m := chat.Message{
		Offset: offset, At: at, Sender: "guest-" + base32.StdEncoding.EncodeToString(who[:])[:26], Name: "Noor",
		ID: strconv.FormatUint(offset, 36), Text: talk()[offset%uint64(len(talk()))],
	}
	return m.Append(nil)
}

// stamping and deflating are what comes after the numbers in what a hub is told.
const stamping, deflating = "stamp", "deflate"

const someday = 1_800_000_000_000

// tried is what a server did in its turns.
type tried struct {
	costs  []float64 // microseconds
	merged float64   // the sum of messages in a frame
	failed error     // why it has no more turns
}

// compare has all take turns, and prints the medians. Who does not bring all messages to all viewers in time is
// said to, and has no more turns; the hub and the C program have to.
func compare(ctx context.Context, out io.Writer, all []server, o offer, rounds int) error {
	results := make([]tried, len(all))
	for range rounds {
		for i, s := range all {
			r := &results[i]
			if r.failed != nil || ctx.Err() != nil {
				continue
			}
			o.tick, o.calm, o.deflate = s.tick, s.calm, s.deflate
			u, err := measure(ctx, s, o)
			if err != nil {
				r.failed = fmt.Errorf("%s: %w", s.name, err)
				continue
			}
			r.costs = append(r.costs, u.CPUSeconds/float64(u.Deliveries)*1e6)
			r.merged += float64(u.Deliveries) / float64(max(u.Frames, 1))
		}
	}
	_, _ = fmt.Fprintf(out, "%d viewers, %d messages a second, %d rounds: CPU for one message to one viewer\n\n", o.viewers, o.rate, rounds)
	_, _ = fmt.Fprintf(out, "%-26s %6s %10s %20s %14s %8s\n", "", "tick", "median us", "all", "per core and s", "a frame")
	var errs []error
	for i, s := range all {
		r := &results[i]
		if r.failed != nil {
			_, _ = fmt.Fprintln(out, r.failed)
			if !s.peer {
				errs = append(errs, r.failed)
			}
			continue
		}
		r.print(out, &s)
	}
	return errors.Join(append(errs, context.Cause(ctx))...)
}

// print prints a line of the table.
func (r *tried) print(out io.Writer, s *server) {
	if len(r.costs) == 0 {
		return
	}
	text := make([]string, 0, len(r.costs))
	for _, c := range r.costs {
		text = append(text, fmt.Sprintf("%.2f", c))
	}
	slices.Sort(r.costs)
	median := r.costs[len(r.costs)/2]
	inFrame := "" // who does not say merges nothing at tick 0
	if s.counts {
		inFrame = fmt.Sprintf("%.1f", r.merged/float64(len(r.costs)))
	}
	_, _ = fmt.Fprintf(out, "%-26s %6v %10.2f %20s %14.0f %8s\n", s.name, s.tick, median, strings.Join(text, " "), 1e6/median, inFrame)
}

// measure runs a server once.
func measure(ctx context.Context, s server, o offer) (used, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(o.messages/o.rate)*time.Second+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.command[0], append(s.command[1:], s.args(o)...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return used{}, err
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return used{}, err
	}
	if err := cmd.Start(); err != nil {
		return used{}, err
	}
	u, err := converse(bufio.NewReader(pipe), in, s, o)
	return u, errors.Join(err, in.Close(), cmd.Wait())
}

// converse connects the viewers, has the server begin, and reads what it says.
func converse(from *bufio.Reader, to io.Writer, s server, o offer) (u used, err error) {
	port, err := from.ReadString('\n')
	if err != nil {
		return u, fmt.Errorf("read its port: %w", err)
	}
	v, err := connect("127.0.0.1:"+strings.TrimSpace(port), o)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	if s.greet != nil {
		if err := v.greet(s.greet); err != nil {
			return u, err
		}
	}
	if err := v.start(); err != nil {
		return u, err
	}
	if _, err := io.WriteString(to, "\n"); err != nil {
		return u, err
	}
	if !o.stamped {
		// The CPU time is asked for when all have arrived: who loses or delays messages is not the faster for it.
		if err := v.arrive(o.messages, 10*time.Second, 3*time.Duration(o.messages/o.rate)*time.Second+10*time.Second); err != nil {
			return u, err
		}
		if _, err := io.WriteString(to, "\n"); err != nil {
			return u, err
		}
	}
	line, err := from.ReadBytes('\n')
	if err != nil {
		return u, fmt.Errorf("read what it used: %w", err)
	}
	if err := json.Unmarshal(line, &u); err != nil {
		return u, err
	}
	if u.late = v.stop(); o.stamped {
		return u, nil
	}
	if want := int64(o.viewers) * int64(o.messages); u.Deliveries != want {
		return u, fmt.Errorf("%d of %d messages were sent", u.Deliveries, want)
	}
	return u, v.each(o.messages)
}

func measureIdle(ctx context.Context, out io.Writer, hub server, o offer) error {
	o.messages = 0
	u, err := measure(ctx, hub, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d idle viewers: %.0f bytes of resident memory each (%d KiB without them, %d KiB with them)\n",
		o.viewers, float64(u.RSS[1]-u.RSS[0])/float64(o.viewers), u.RSS[0]>>10, u.RSS[1]>>10)
	return err
}
