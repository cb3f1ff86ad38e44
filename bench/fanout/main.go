// Command fanout measures what it costs to tell many viewers what was said: Loadstone's hub
// beside a C program that writes the same frame to as many sockets in a loop, and beside
// centrifuge.
//
//	go run ./bench/fanout [VIEWERS [RATE [ROUNDS]]]
//	go run ./bench/fanout idle 20000
//
// It needs a C compiler, cc, and centrifuge, a module of its own, from the network or the
// module cache. The servers take turns, each a process of its own; all are sent messages at the
// same rate, and what is compared is the CPU time that the kernel says they used, for one
// message to one viewer. The viewers are one epoll loop, in the process of the bench.
//
// It is a program of the bench and no part of Loadstone.
package main

import (
	"bufio"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"loadstone/system/chat"
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
}

// used is what a server says of itself.
type used struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	Deliveries int64   `json:"deliveries"`
	// RSS is the resident memory without viewers and with all of them, in bytes, of the hub.
	RSS [2]int64 `json:"rss"`
}

// server is one that takes part.
type server struct {
	name string
	tick time.Duration
	// greet is what a viewer does before it is one; nil for nothing.
	greet func(*viewers) error
	// command is how it is started, without what is offered.
	command []string
	args    func(o offer) []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == "hub" {
		return serveHub(ctx, args[1:], os.Stdin, out)
	}
	const seconds = 5 // that each server is measured for
	o, rounds := offer{viewers: 500, rate: 250}, 3
	idle := len(args) > 0 && args[0] == "idle"
	if idle {
		args = args[1:]
	}
	if err := numbers(args, &o.viewers, &o.rate, &rounds); err != nil {
		return err
	}
	o.messages = seconds * o.rate
	dir, err := os.MkdirTemp("", "fanout")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is temporary either way
	self, err := os.Executable()
	if err != nil {
		return err
	}
	hub := server{name: "hub", command: []string{self, "hub"}, args: offer.args}
	if idle {
		return measureIdle(ctx, out, hub, o)
	}
	all, err := build(ctx, dir, hub)
	if err != nil {
		return err
	}
	return compare(ctx, out, all, o, rounds)
}

// numbers reads the arguments into places, in their order; those that are missing stay as they are.
func numbers(args []string, places ...*int) error {
	if len(args) > len(places) {
		return errors.New("usage: fanout [idle] [VIEWERS [RATE [ROUNDS]]]")
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
	return []string{strconv.Itoa(o.viewers), strconv.Itoa(o.messages), strconv.Itoa(o.rate), o.tick.String()}
}

// message is what is said.
func message(offset uint64) []byte {
	m := chat.Message{Offset: offset, At: 1_800_000_000_000, Sender: "guest-ABCDEFGHIJKLMNOPQRSTUVWXYZ", Name: "Noor", ID: "c-1", Text: strings.Repeat("hello ", 10)}
	return m.Append(nil)
}

// peers are the sources of the other servers: a module of its own, whose files have names that
// keep it out of this one.
//
//go:embed peers
var peers embed.FS

// build makes the servers that take part, in the order of their turns.
func build(ctx context.Context, dir string, hub server) ([]server, error) {
	c, peer, frame := filepath.Join(dir, "c"), filepath.Join(dir, "centrifuge"), filepath.Join(dir, "frame")
	room := chat.NewRoom(chat.DefaultRoomConfig(), 0)
	room.Append(0, message(0))
	if err := os.WriteFile(frame, room.Newest(0).Bytes, 0o600); err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, peers); err != nil {
		return nil, err
	}
	source := filepath.Join(dir, "peers")
	for from, to := range map[string]string{"centrifuge.go.txt": "main.go", "go.mod.txt": "go.mod", "go.sum.txt": "go.sum"} {
		if err := os.Rename(filepath.Join(source, from), filepath.Join(source, to)); err != nil {
			return nil, err
		}
	}
	for _, argv := range [][]string{{"cc", "-O2", "-o", c, "loop.c"}, {"go", "build", "-o", peer, "."}} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") //nolint:forbidigo // a program of its own; there is C in the directory
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, text)
		}
	}
	const tick = 50 * time.Millisecond
	slow := hub
	slow.tick = tick
	return []server{
		{name: "C, writes in a loop", command: []string{c}, args: func(o offer) []string { return append(o.args()[:3], frame) }},
		hub, slow,
		{name: "centrifuge", command: []string{peer}, args: offer.args, greet: greetCentrifuge},
		{name: "centrifuge", command: []string{peer}, args: offer.args, greet: greetCentrifuge, tick: tick},
	}, nil
}

// compare has all take turns, and prints the medians.
func compare(ctx context.Context, out io.Writer, all []server, o offer, rounds int) error {
	costs := make([][]float64, len(all)) // microseconds
	for range rounds {
		for i, s := range all {
			o.tick = s.tick
			u, err := measure(ctx, s, o)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			costs[i] = append(costs[i], u.CPUSeconds/float64(u.Deliveries)*1e6)
		}
	}
	_, _ = fmt.Fprintf(out, "%d viewers, %d messages a second, %d rounds: CPU for one message to one viewer\n\n", o.viewers, o.rate, rounds)
	_, _ = fmt.Fprintf(out, "%-22s %6s %10s %20s %14s\n", "", "tick", "median us", "all", "per core and s")
	for i, s := range all {
		text := make([]string, 0, rounds)
		for _, c := range costs[i] {
			text = append(text, fmt.Sprintf("%.2f", c))
		}
		slices.Sort(costs[i])
		median := costs[i][len(costs[i])/2]
		_, _ = fmt.Fprintf(out, "%-22s %6v %10.2f %20s %14.0f\n", s.name, s.tick, median, strings.Join(text, " "), 1e6/median)
	}
	return nil
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
	v, err := connect("127.0.0.1:"+strings.TrimSpace(port), o.viewers)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, v.close()) }()
	if s.greet != nil {
		if err := s.greet(v); err != nil {
			return u, err
		}
	}
	if err := v.start(); err != nil {
		return u, err
	}
	if _, err := io.WriteString(to, "\n"); err != nil {
		return u, err
	}
	line, err := from.ReadBytes('\n')
	if err != nil {
		return u, fmt.Errorf("read what it used: %w", err)
	}
	if err := json.Unmarshal(line, &u); err != nil {
		return u, err
	}
	if want := int64(o.viewers) * int64(o.messages); u.Deliveries != want {
		return u, fmt.Errorf("%d of %d messages were sent", u.Deliveries, want)
	}
	// What a server says that it sent has arrived, too.
	least := u.Deliveries * int64(len(message(0)))
	for end := time.Now().Add(10 * time.Second); v.received() < least; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return u, fmt.Errorf("%d bytes arrived, want %d or more", v.received(), least)
		}
	}
	return u, nil
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
