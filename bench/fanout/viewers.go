package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	bytes   atomic.Int64
	stopped atomic.Bool
	ended   chan error
}

// connect opens the connections.
func connect(address string, n int) (*viewers, error) {
	v := &viewers{address: address, ended: make(chan error, 1)}
	for range n {
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
	for _, c := range v.conns {
		fd, err := httpserver.Descriptor(c)
		if err != nil {
			return err
		}
		v.fds = append(v.fds, fd)
		if err := v.poller.Watch(fd, 0); err != nil {
			return err
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
				if n < len(buffer) || err != nil {
					break
				}
			}
		}
	}
	return nil
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

// greetCentrifuge has all viewers do what centrifuge's clients do first.
func greetCentrifuge(v *viewers) error {
	command := []byte(`{"id":1,"connect":{}}`)
	frame := websocket.AppendHeader(nil, websocket.Text, len(command))
	frame[1] |= 0x80
	frame = append(append(frame, 0, 0, 0, 0), command...) // a mask of zeros
	for _, c := range v.conns {
		_, err := fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", v.address)
		if err != nil {
			return err
		}
		in := bufio.NewReader(c)
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if _, err := c.Write(frame); err != nil {
			return err
		}
		reply := make([]byte, 512)
		n, err := in.Read(reply)
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols || !bytes.Contains(reply[:n], []byte(`"connect"`)) {
			return fmt.Errorf("centrifuge answers with status %d and %q: %w", response.StatusCode, reply[:n], err)
		}
	}
	return nil
}
