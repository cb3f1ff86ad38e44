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

const (
	// mostConnections bounds the connections that a port forwards at a time. One
	// more is closed at once: a client that is told so can do something, one that
	// waits in a queue cannot. Each takes up to six file descriptors: two sockets
	// and, while bytes move, two pipes.
	mostConnections = 4096
	// dialWithin bounds the connection to one instance. One on the same machine
	// answers at once or its queue is full; then another one may not be.
	dialWithin = 2 * time.Second
)

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

// Port is one port of the host. Its methods may be called from several
// goroutines.
type Port struct {
	listen   netip.AddrPort
	listener *net.TCPListener
	targets  atomic.Pointer[[]string]
	next     atomic.Uint64
	most     int64         // connections
	open     atomic.Int64  // of them
	patience time.Duration // dialWithin
}

// Open takes a port of the host, any that is free if its number is 0, so that
// nobody else can, and forwards nothing until Run. If the port is taken the error
// is a *TakenError.
func Open(ctx context.Context, listen netip.AddrPort) (*Port, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen.String())
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, &TakenError{Address: listen, Holder: WhoHolds(listen), cause: err}
	case errors.Is(err, unix.EACCES):
		return nil, fmt.Errorf("port %d needs the rights of root; publish one from 1024 on: %w", listen.Port(), err)
	case err != nil:
		return nil, fmt.Errorf("publish at %s: %w", listen, err)
	}
	listener, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("publish at %s: %T is no TCP listener", listen, l), l.Close())
	}
	return &Port{listen: listen, listener: listener, most: mostConnections, patience: dialWithin}, nil
}

// Address is where the port is offered, with its number if any was asked for.
func (p *Port) Address() netip.AddrPort {
	if a, ok := p.listener.Addr().(*net.TCPAddr); ok {
		return netip.AddrPortFrom(p.listen.Addr(), a.AddrPort().Port())
	}
	return p.listen
}

// Forward sets the instances, as host:port, that connections are forwarded to
// from now on. Before the first call, and after one with none, every connection
// is refused.
func (p *Port) Forward(targets []string) { p.targets.Store(&targets) }

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
		if p.open.Add(1) > p.most {
			p.open.Add(-1)
			refuse(client)
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
func refuse(client *net.TCPConn) {
	_ = client.SetLinger(0) // closing is what matters, and that it can do anyway
	_ = client.Close()
}

// serve forwards one connection both ways.
func (p *Port) serve(ctx context.Context, client *net.TCPConn) {
	instance := p.dial(ctx)
	if instance == nil {
		refuse(client)
		return
	}
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
	d := net.Dialer{Timeout: p.patience}
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
