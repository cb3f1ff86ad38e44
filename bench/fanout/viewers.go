package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/epoll"
	"loadstone/block/httpserver"
	"loadstone/block/websocket"
)

// viewers read what they are sent, and count the messages.
type viewers struct {
	address string
	conns   []net.Conn
	fds     []int
	poller  *epoll.Poller
	reading int // the first so many read; the others are stalled
	calm    bool
	inflate bool
	tallies []tally
	total   atomic.Int64 // of the tallies
	stopped atomic.Bool
	ended   chan error
	late    latencies // of the reading thread until it has ended
}

// latencies are times from when something was said to when it was read.
type latencies []time.Duration

// quantile is that of latencies that are sorted.
func (l latencies) quantile(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(q*float64(len(l))))]
}

// connect opens the connections.
func connect(address string, o offer) (*viewers, error) {
	v := &viewers{address: address, reading: o.viewers, calm: o.calm, inflate: o.deflate, ended: make(chan error, 1)}
	for range o.viewers + o.stalled {
		c, err := net.Dial("tcp", address) //nolint:noctx // a program that is ended by hand
		if err != nil {
			return nil, errors.Join(err, v.close())
		}
		v.conns = append(v.conns, c)
	}
	return v, nil
}

// start reads from here on, on one thread.
func (v *viewers) start() error {
	var err error
	if v.poller, err = epoll.Open(); err != nil {
		return err
	}
	for i, c := range v.conns {
		fd, err := httpserver.Descriptor(c)
		if err != nil {
			return err
		}
		v.fds = append(v.fds, fd)
		if i < v.reading {
			if err := v.poller.Watch(fd, int32(i)); err != nil {
				return err
			}
		}
		_ = c.Close() // the descriptor is our own
	}
	v.conns = nil
	v.tallies = make([]tally, v.reading)
	for i := range v.tallies {
		v.tallies[i].inflate = v.inflate
	}
	go func() { v.ended <- v.read() }()
	return nil
}

func (v *viewers) read() error {
	buffer := make([]byte, 64<<10)
	for !v.stopped.Load() {
		events, err := v.poller.Wait(time.Second)
		if err != nil {
			return err
		}
		for i := range events {
			for {
				n, err := unix.Read(int(events[i].Fd), buffer)
				text := buffer[:max(n, 0)]
				v.total.Add(v.tallies[events[i].Pad].add(text))
				v.look(text)
				if n < len(buffer) || err != nil {
					break
				}
			}
		}
		if v.calm && len(events) < many {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// many events at once mean that there are more.
const many = 100

// look notes how late the first message of what was read is, where it says when it was said:
// in nanoseconds, which the hub does where some are stalled.
func (v *viewers) look(text []byte) {
	const digits = 19
	at := []byte(`"at":`)
	i := bytes.Index(text, at) + len(at)
	if i < len(at) || i+digits > len(text) {
		return
	}
	if at, err := strconv.ParseInt(string(text[i:i+digits]), 10, 64); err == nil {
		v.late = append(v.late, time.Since(time.Unix(0, at)))
	}
}

// stop ends the reading, and returns the latencies, sorted.
func (v *viewers) stop() latencies {
	v.stopped.Store(true)
	v.poller.Wake()
	err := <-v.ended
	v.ended <- err // for close
	slices.Sort(v.late)
	return v.late
}

// arrive waits until so many messages have arrived at each viewer, and gives up when none has for a while, or after
// most.
func (v *viewers) arrive(messages int, patience, most time.Duration) error {
	want := int64(v.reading) * int64(messages)
	began := time.Now()
	seen, last := int64(0), began
	for ; seen < want; time.Sleep(time.Millisecond) {
		if now := v.total.Load(); now > seen {
			seen, last = now, time.Now()
		}
		if seen < want && (time.Since(last) > patience || time.Since(began) > most) {
			return fmt.Errorf("%d of %d messages arrived", seen, want)
		}
	}
	return nil
}

// each reports whether exactly so many messages arrived at each viewer. It is asked once they have stopped.
func (v *viewers) each(messages int) error {
	for i := range v.tallies {
		if n := v.tallies[i].n; n != int64(messages) {
			return fmt.Errorf("%d of %d messages arrived at viewer %d", n, messages, i)
		}
	}
	return nil
}

// tally counts the messages in what a viewer reads, wherever that is cut.
type tally struct {
	n    int64
	tail []byte // the end of what was read, shorter than mark; where frames are compressed, the beginning of one

	inflate bool // frames are compressed
	parser  websocket.Parser
}

// mark is in each message once, however a server wraps it: the sender's name.
const mark = "Noor"

func (t *tally) add(text []byte) (found int64) {
	if t.inflate {
		return t.addFrames(text)
	}
	const most = len(mark) - 1
	cut := slices.Concat(t.tail, text[:min(most, len(text))])
	found = int64(bytes.Count(cut, []byte(mark)) + bytes.Count(text, []byte(mark)))
	end := text
	if len(text) < most {
		end = cut
	}
	t.tail = append(t.tail[:0], end[max(0, len(end)-most):]...)
	t.n += found
	return found
}

// addFrames is add where frames may be compressed.
func (t *tally) addFrames(data []byte) (found int64) {
	const longest = 1 << 20
	t.parser.OfServer, t.parser.Deflate = true, true
	t.tail = append(t.tail, data...)
	rest := t.tail
	for {
		m, n, err := t.parser.Next(rest, longest)
		if err != nil || n == 0 {
			break // who sends what is no frame has too few messages in the end
		}
		found += int64(bytes.Count(m.Payload, []byte(mark)))
		rest = rest[n:]
	}
	t.tail = append(t.tail[:0], rest...)
	t.n += found
	return found
}

func (v *viewers) close() error {
	var errs []error
	if v.poller != nil {
		v.stopped.Store(true)
		v.poller.Wake()
		if v.fds != nil && v.conns == nil {
			errs = append(errs, <-v.ended)
		}
		errs = append(errs, v.poller.Close())
	}
	for _, c := range v.conns {
		errs = append(errs, c.Close())
	}
	for _, fd := range v.fds {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// greeting is what a viewer does before it is one: a handshake, and perhaps a message that is answered.
type greeting struct{ path, says, expects string }

var centrifuge = &greeting{path: "/ws", says: `{"id":1,"connect":{}}`, expects: `"connect"`}

// greet has all viewers do it, one after the other.
func (v *viewers) greet(g *greeting) error {
	says := websocket.AppendHeader(nil, websocket.Text, len(g.says))
	says[1] |= 0x80
	says = append(append(says, 0, 0, 0, 0), g.says...) // a mask of zeros
	for _, c := range v.conns {
		in, err := handshake(c, v.address, g.path)
		if err != nil {
			return err
		}
		if g.says == "" {
			continue
		}
		if _, err := c.Write(says); err != nil {
			return err
		}
		if err := await(c, in, g.expects); err != nil {
			return err
		}
	}
	return nil
}

// handshake makes a connection one for WebSocket, and returns what follows.
func handshake(c net.Conn, host, path string) (*bufio.Reader, error) {
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path, host)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(c)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // there is none
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("GET %s: status %d", path, response.StatusCode)
	}
	return in, nil
}

// await reads until it has seen a text.
func await(c net.Conn, in *bufio.Reader, text string) error {
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	var all []byte
	for part := make([]byte, 4<<10); !bytes.Contains(all, []byte(text)); {
		n, err := in.Read(part)
		if all = append(all, part[:n]...); err != nil {
			return fmt.Errorf("%q is not in the answer %.500q: %w", text, all, err)
		}
	}
	return nil
}
