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

// viewers read what they are sent, and look at nothing but how much it is.
type viewers struct {
	address string
	conns   []net.Conn
	fds     []int
	poller  *epoll.Poller
	reading int // the first so many read; the others are stalled
	bytes   atomic.Int64
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
	v := &viewers{address: address, reading: o.viewers, ended: make(chan error, 1)}
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
			if err := v.poller.Watch(fd, 0); err != nil {
				return err
			}
		}
		_ = c.Close() // the descriptor is our own
	}
	v.conns = nil
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
				v.bytes.Add(int64(max(n, 0)))
				v.look(buffer[:max(n, 0)])
				if n < len(buffer) || err != nil {
					break
				}
			}
		}
	}
	return nil
}

// look notes how late the first message of what was read is, where it says when it was said:
// in nanoseconds, which the hub does where some are stalled.
func (v *viewers) look(text []byte) {
	const digits = 19
	mark := []byte(`"at":`)
	i := bytes.Index(text, mark) + len(mark)
	if i < len(mark) || i+digits > len(text) {
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

func (v *viewers) received() int64 { return v.bytes.Load() }

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
