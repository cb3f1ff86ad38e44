// Package network gives the instances of a run a network of their own: each lives in
// a network name space with one interface, eth0, and finds the others by their services'
// names. A program that listens on a fixed port of all addresses, and calls
// http://logs:8890/, runs in it as it is, in as many instances as one likes.
//
//	host ── lsN ═ host ┐
//	                   ├─ bridge          instance 1: eth0 ═ i1 ┐
//	   (a name space of its own) ├──────────────────────────────┤
//	                   └─ names (DNS)     instance 2: eth0 ═ i2 ┘
//
// ═ is a veth pair. The bridge is in a name space of its own, too: there neither the
// host's packet filter nor Docker's meets the packets, and there is no way out of it but
// to the host's own address. No instance has a default route.
//
// # Nothing is left behind
//
// A name space lives as long as a thread or a process is in it, and its interfaces go
// with it, also those at the other end of a pair. Here each is held by a thread of this
// process. So Close, the end of the lab and SIGKILL come to the same: once the instances
// have ended, the kernel removes everything. Nothing is named in a file system.
//
// # Names
//
// Services of one instance, and all instances, are in /etc/hosts. A service of several
// has an answer of the name server: all its instances, beginning with the next one each
// time. An instance has /32 as its prefix, since a resolver of the C library would
// otherwise sort the answer by how much of an address it shares with its own.
package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// MaxInstances is how many a network has room for.
	MaxInstances = 250
	nameServer   = 253
	hostAddress  = 254
	// measurements is how long the prefix of both halves is together: 198.18.0.0/15.
	measurements = 15
	bridgeName   = "bridge"
	instanceLink = "eth0"
)

// Network is that of one run.
type Network struct {
	number int
	half   byte    // see halves
	bridge *Thread // in the bridge's name space; nil once closed
	names  *names

	mu     sync.Mutex
	spaces []*Space
}

// halves are those of the addresses set aside for measurements (RFC 2544). A network is
// in the first unless something else is there: some VPNs give names addresses of it.
var halves = [...]byte{18, 19}

// Open makes the network with a number from 1 to 254, which nobody else may use. Its
// addresses are 198.18.N.0/24 or, where some of these are taken, 198.19.N.0/24.
func Open(number int) (*Network, error) {
	n := &Network{number: number, half: halves[0], bridge: NewThread()}
	if err := n.open(); err != nil {
		return nil, fmt.Errorf("make a network: %w", errors.Join(err, n.Close()))
	}
	return n, nil
}

func (n *Network) open() error {
	if err := n.removeHostLink(); err != nil {
		return err
	}
	taken, err := prefixes()
	if err == nil {
		err = n.settle(taken)
	}
	if err != nil {
		return err
	}
	// The name space of this call's goroutine is that of the process.
	host, err := netns.GetFromPid(unix.Getpid())
	if err != nil {
		return fmt.Errorf("find the host's name space: %w", err)
	}
	defer host.Close() //nolint:errcheck // read only
	err = n.bridge.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network name space: %w", err)
		}
		return n.makeBridge(host)
	})
	if err != nil {
		return err
	}
	return configure(n.hostLink(), netip.PrefixFrom(n.address(hostAddress), 24))
}

// makeBridge makes the bridge, with the host's link in it.
func (n *Network) makeBridge(host netns.NsHandle) error {
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}); err != nil {
		return fmt.Errorf("make a bridge: %w", err)
	}
	if err := configure(bridgeName, netip.PrefixFrom(n.address(nameServer), 24)); err != nil {
		return err
	}
	return plug("host", n.hostLink(), host)
}

// plug makes a pair of which one end is in the bridge and the other, called peer, in
// another name space. It runs in that of the bridge.
func plug(port, peer string, space netns.NsHandle) error {
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return fmt.Errorf("find the bridge: %w", err)
	}
	pair := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: port, MasterIndex: bridge.Attrs().Index},
		PeerName:  peer, PeerNamespace: netlink.NsFd(space),
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("make a veth pair: %w", err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return fmt.Errorf("set %s up: %w", port, err)
	}
	return nil
}

// configure gives a link of this name space its address, and sets it up.
func configure(name string, prefix netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	mask := net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: mask}}); err != nil {
		return fmt.Errorf("give %s the address %s: %w", name, prefix, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

func (n *Network) hostLink() string { return fmt.Sprintf("ls%d", n.number) }

func (n *Network) address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, n.half, byte(n.number), byte(i)})
}

// prefix is that of all its addresses.
func (n *Network) prefix() netip.Prefix { return netip.PrefixFrom(n.address(0), 24) }

// settle chooses the half in which nothing of the network is among what is taken.
func (n *Network) settle(taken []netip.Prefix) error {
	var in []string
	for _, n.half = range halves {
		i := slices.IndexFunc(taken, n.prefix().Overlaps)
		if i < 0 {
			return nil
		}
		in = append(in, fmt.Sprintf("%s has addresses of %s", taken[i], n.prefix()))
	}
	return fmt.Errorf("this machine already has a network where the instances' own would be (%s); remove it while this runs, or write x-network: loopback and let the services listen on ${BIND_HOST:-0.0.0.0}", strings.Join(in, ", "))
}

// prefixes are the networks of this machine: of its addresses, and to which it has routes. One
// that has all addresses for measurements in it, and others, is none of them but the way to
// everywhere, or to much.
func prefixes() ([]netip.Prefix, error) {
	var found []*net.IPNet
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	for _, a := range addresses {
		found = append(found, a.IPNet)
	}
	routes, errRoutes := netlink.RouteList(nil, netlink.FAMILY_V4)
	for _, err := range []error{err, errRoutes} {
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // another run's network came or went
			return nil, fmt.Errorf("look which networks there are: %w", err)
		}
	}
	for i := range routes {
		found = append(found, routes[i].Dst)
	}
	var all []netip.Prefix
	for _, f := range found {
		if f == nil {
			continue
		}
		address, ok := netip.AddrFromSlice(f.IP)
		if bits, _ := f.Mask.Size(); ok && bits >= measurements {
			all = append(all, netip.PrefixFrom(address.Unmap(), bits).Masked())
		}
	}
	return all, nil
}

// Address is that of the i-th instance, from 0.
func (n *Network) Address(i int) netip.Addr { return n.address(i + 1) }

// removeHostLink removes the host's end of the pair. The kernel removes it by itself,
// but not before it gets to it. What has its name and is no end of a pair is somebody else's.
func (n *Network) removeHostLink() error {
	link, err := netlink.LinkByName(n.hostLink())
	if _, ok := errors.AsType[netlink.LinkNotFoundError](err); ok {
		return nil
	}
	if err == nil && link.Type() != "veth" {
		return fmt.Errorf("the interface %s is somebody else's (%s); rename it", n.hostLink(), link.Type())
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if errors.Is(err, unix.ENODEV) {
		return nil // the kernel got to it meanwhile
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", n.hostLink(), err)
	}
	return nil
}

// Close removes the network. Processes that are still in it find themselves alone.
func (n *Network) Close() error {
	if n.bridge == nil {
		return nil
	}
	var errs []error
	if n.names != nil {
		errs = append(errs, n.names.close())
	}
	n.mu.Lock()
	for _, s := range n.spaces {
		s.Close()
	}
	n.spaces = nil
	n.mu.Unlock()
	errs = append(errs, n.removeHostLink())
	n.bridge.Close()
	n.bridge = nil
	return errors.Join(errs...)
}
