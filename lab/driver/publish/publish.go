// Package publish offers a service's port at a port of the host, as Docker
// does, when its instances are local processes with addresses of their own.
//
// It forwards TCP connections, in turn over the instances, and knows nothing of
// what they carry. A connection costs CPU here that a container's would cost in
// the kernel, so it is for people who look at a system, not for experiments:
// those send their load to the instances themselves.
//
// An instance sees connections come from the host's own loopback address; where
// they really came from is lost, as it is behind Docker's user-land proxy.
package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Config says what to offer where.
type Config struct {
	// Listen is the address of the host; port 0 is any that is free.
	Listen netip.AddrPort
	// MaxConnections bounds the connections that are forwarded at a time. One
	// more is closed at once and counted as refused: a client that is told so
	// can do something, one that waits in a queue cannot. Each takes up to six
	// file descriptors: two sockets and, while bytes move, two pipes.
	MaxConnections int
	// DialWithin bounds the connection to one instance.
	DialWithin time.Duration
	// ProcRoot is /proc but in tests: it tells who holds a port that is taken.
	ProcRoot string
}

// DefaultConfig has what is the same for every port.
func DefaultConfig() Config {
	return Config{
		MaxConnections: 4096,
		// An instance on the same machine answers at once or its queue is full;
		// then another one may not be.
		DialWithin: 2 * time.Second,
		ProcRoot:   "/proc",
	}
}

// Validate returns all that is wrong with c.
func (c *Config) Validate() error {
	var errs []error
	if !c.Listen.Addr().IsValid() {
		errs = append(errs, errors.New("publish: no address to listen on is given"))
	}
	if c.MaxConnections < 1 {
		errs = append(errs, fmt.Errorf("publish: %d connections is not above 0", c.MaxConnections))
	}
	if c.DialWithin <= 0 {
		errs = append(errs, fmt.Errorf("publish: %v to connect is not above 0", c.DialWithin))
	}
	if c.ProcRoot == "" {
		errs = append(errs, errors.New("publish: no root of proc is given"))
	}
	return errors.Join(errs...)
}

// Hosts are the addresses of this machine that a port with the host ip of a
// Compose file is offered at. Without an ip that is the loopback address alone:
// Compose's default would be all addresses, but a system that is tried on a
// developer's machine has sample passwords. With all, or where the file itself
// says 0.0.0.0 or ::, it is every address that the machine has now.
//
// That is a list and not the wildcard, because a port taken at the wildcard is
// taken at the addresses of all instances as well.
func Hosts(ip string, all bool) ([]netip.Addr, error) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if ip == "" && !all {
		return []netip.Addr{loopback}, nil
	}
	if ip != "" {
		a, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, fmt.Errorf("publish: %q is no IP address; write for example 127.0.0.1", ip)
		}
		if !a.IsUnspecified() {
			return []netip.Addr{a}, nil
		}
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("publish: find this machine's addresses: %w", err)
	}
	hosts := []netip.Addr{loopback}
	for _, i := range interfaces {
		n, ok := i.(*net.IPNet)
		if !ok {
			continue
		}
		// Addresses of one link only need its name beside them.
		if a, ok := netip.AddrFromSlice(n.IP); ok && !a.Unmap().IsLinkLocalUnicast() && !slices.Contains(hosts, a.Unmap()) {
			hosts = append(hosts, a.Unmap())
		}
	}
	return hosts, nil
}

// Counts are of connections since the port was opened.
type Counts struct {
	Open      int64 // now
	Forwarded uint64
	// Refused were closed because there were too many, or none of the instances
	// took them.
	Refused uint64
}

// Port is one port of the host. Its methods may be called from several
// goroutines.
type Port struct {
	config   Config
	listener *net.TCPListener
	targets  atomic.Pointer[[]string]
	next     atomic.Uint64

	open               atomic.Int64
	forwarded, refused atomic.Uint64
}

// Open takes the port, so that nobody else can, and forwards nothing until Run.
// If the port is taken the error is a *TakenError.
func Open(ctx context.Context, c Config) (*Port, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.Listen.String())
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, &TakenError{Address: c.Listen, Holder: holder(c.ProcRoot, c.Listen), cause: err}
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("port %d needs the rights of root; publish one from 1024 on: %w", c.Listen.Port(), err)
	case err != nil:
		return nil, fmt.Errorf("publish at %s: %w", c.Listen, err)
	}
	listener, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("publish at %s: %T is no TCP listener", c.Listen, l), l.Close())
	}
	return &Port{config: c, listener: listener}, nil
}

// Address is where the port is offered, with its number if any was asked for.
func (p *Port) Address() netip.AddrPort {
	if a, ok := p.listener.Addr().(*net.TCPAddr); ok {
		return netip.AddrPortFrom(p.config.Listen.Addr(), a.AddrPort().Port())
	}
	return p.config.Listen
}

// Forward sets the instances, as host:port, that connections are forwarded to
// from now on. Before the first call, and after one with none, every connection
// is refused.
func (p *Port) Forward(targets []string) { p.targets.Store(&targets) }

// Counts are the port's figures.
func (p *Port) Counts() Counts {
	return Counts{Open: p.open.Load(), Forwarded: p.forwarded.Load(), Refused: p.refused.Load()}
}

// Close gives the port back if Run has not been called; Run does it otherwise.
func (p *Port) Close() error { return p.listener.Close() }

// Run forwards until ctx ends; then it closes the port and all connections, and
// returns nil when the last is gone. Any other end is an error.
func (p *Port) Run(ctx context.Context) error {
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.listener.Close() })
	defer stop()
	for {
		client, err := p.accept(ctx)
		if ctx.Err() != nil {
			if client != nil {
				_ = client.Close()
			}
			return nil
		}
		if err != nil {
			return errors.Join(fmt.Errorf("publish at %s: %w", p.Address(), err), p.listener.Close())
		}
		if p.open.Add(1) > int64(p.config.MaxConnections) {
			p.open.Add(-1)
			p.refuse(client)
			continue
		}
		connections.Go(func() {
			defer p.open.Add(-1)
			p.serve(ctx, client)
		})
	}
}

// accept waits out what passes: a client that has gone again, and too few file
// descriptors.
func (p *Port) accept(ctx context.Context) (*net.TCPConn, error) {
	const pause = 20 * time.Millisecond
	for {
		c, err := p.listener.AcceptTCP()
		passes := errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOBUFS)
		if !passes {
			return c, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// refuse closes a connection so that the client sees a reset, not an answer
// without content.
func (p *Port) refuse(client *net.TCPConn) {
	p.refused.Add(1)
	_ = client.SetLinger(0) // closing is what matters, and that it can do anyway
	_ = client.Close()
}

// serve forwards one connection both ways.
func (p *Port) serve(ctx context.Context, client *net.TCPConn) {
	instance := p.dial(ctx)
	if instance == nil {
		p.refuse(client)
		return
	}
	p.forwarded.Add(1)
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = instance.Close()
	})
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { pass(client, instance) })
	pass(instance, client)
	back.Wait()
	_ = instance.Close()
	_ = client.Close()
}

// pass moves bytes one way until that way ends. An orderly end is passed on and
// the other way goes on, as HTTP/1.0 clients and databases' dumps need; an error
// ends both. Between two TCP connections io.Copy splices: the bytes stay in the
// kernel.
func pass(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err == nil && to.CloseWrite() == nil {
		return
	}
	_ = to.SetLinger(0) // what failed must not look like an orderly end
	_ = to.Close()
	_ = from.Close()
}

// dial connects to the instance whose turn it is, or to the next that answers;
// nil if none does.
func (p *Port) dial(ctx context.Context) *net.TCPConn {
	targets := p.targets.Load()
	if targets == nil || len(*targets) == 0 {
		return nil
	}
	d := net.Dialer{Timeout: p.config.DialWithin}
	n := uint64(len(*targets))
	first := p.next.Add(1) - 1
	for i := range n {
		c, err := d.DialContext(ctx, "tcp", (*targets)[(first+i)%n])
		if err != nil {
			continue
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			return tcp
		}
		_ = c.Close()
	}
	return nil
}
