package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"loadstone/block/httpserver"
	"loadstone/system/chat"
	"loadstone/system/chat/hub"
)

// serveHub is the hub as a server of its own: a connection is a viewer, without a handshake.
func serveHub(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	o, err := parseOffer(args)
	if err != nil {
		return err
	}
	c := hub.DefaultConfig()
	registry := prometheus.NewRegistry()
	// One loop: one core, as the C program.
	c.Loops, c.Tick, c.Registerer, c.MaxPerAddress = 1, o.tick, registry, o.viewers
	c.Open = func(context.Context, int64) (*chat.Room, error) {
		return chat.NewRoom(chat.DefaultRoomConfig(), 0), nil
	}
	c.Receive = func(*hub.Conn, []byte) {}
	h, err := hub.New(c)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended, h.Close())
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is there at once
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	u := used{}
	u.RSS[0] = resident()
	_, _ = fmt.Fprintln(out, port)
	if err := welcomeAll(ctx, h, listener, o); err != nil {
		return err
	}
	lines := bufio.NewReader(in)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	if o.stamped {
		u.RSS[0] = resident()
	}
	said := make([][]byte, o.messages) // made before: it is no part of telling
	for i := range said {
		said[i] = message(uint64(i), someday)
	}
	before := cpu()
	publish(h, o, said)
	if !o.stamped { // else not all arrive
		if _, err := lines.ReadString('\n'); err != nil {
			return err
		}
		// They are counted after they were written.
		for want := float64(o.viewers) * float64(o.messages); counted(registry, "chat_deliveries_total") < want; {
			time.Sleep(time.Millisecond)
		}
	}
	u.CPUSeconds, u.Deliveries, u.Blocked = cpu()-before, int64(counted(registry, "chat_deliveries_total")), int64(counted(registry, "chat_writes_blocked_total"))
	u.Frames = int64(counted(registry, "chat_frames_sent_total"))
	if o.messages == 0 || o.stamped {
		runtime.GC()
		u.RSS[1] = resident()
	}
	line, err := json.Marshal(u)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%s\n", line)
	_, _ = io.Copy(io.Discard, lines) // the end of the input is ours
	return nil
}

// welcomeAll takes as many viewers in as there will be.
func welcomeAll(ctx context.Context, h *hub.Hub, listener net.Listener, o offer) error {
	for range o.viewers {
		if err := welcome(ctx, h, listener, o.deflate); err != nil {
			return err
		}
	}
	return nil
}

// publish says all messages at their times.
func publish(h *hub.Hub, o offer, said [][]byte) {
	next := time.Now()
	for i := range o.messages {
		if o.stamped {
			said[i] = message(uint64(i), time.Now().UnixNano())
		}
		h.Publish(1, uint64(i), said[i])
		next = next.Add(time.Second / time.Duration(o.rate))
		time.Sleep(time.Until(next))
	}
}

func parseOffer(args []string) (o offer, err error) {
	const parts = 4
	if len(args) < parts {
		return o, errors.New("usage: fanout hub|nchan VIEWERS MESSAGES RATE TICK [stamp] [deflate]")
	}
	o.stamped, o.deflate = slices.Contains(args[parts:], stamping), slices.Contains(args[parts:], deflating)
	var errs [parts]error
	o.viewers, errs[0] = strconv.Atoi(args[0])
	o.messages, errs[1] = strconv.Atoi(args[1])
	o.rate, errs[2] = strconv.Atoi(args[2])
	o.tick, errs[3] = time.ParseDuration(args[3])
	return o, errors.Join(errs[:]...)
}

// welcome makes the next connection a viewer.
func welcome(ctx context.Context, h *hub.Hub, listener net.Listener, deflate bool) error {
	c, err := listener.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // the descriptor lives on
	fd, err := httpserver.Descriptor(c)
	if err != nil {
		return err
	}
	return h.Join(ctx, fd, hub.Viewer{Room: 1, Address: netip.IPv4Unspecified(), Deflate: deflate, Hello: func(uint64, bool) []byte { return []byte("{}") }})
}

// counted is what a counter of the hub says.
func counted(from prometheus.Gatherer, name string) float64 {
	families, err := from.Gather()
	if err != nil {
		return 0
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return 0
}

// cpu is the CPU time that this process has used, in seconds.
func cpu() float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// resident is the memory of this process, in bytes.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64) // the kernel writes a number
	return pages * int64(os.Getpagesize())
}
