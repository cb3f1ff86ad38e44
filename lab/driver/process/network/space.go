package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Space is where one instance lives: a network name space with eth0, and a mount name
// space in which /etc/hosts and the resolver's files are its own.
type Space struct {
	thread *Thread
	closed bool
}

// Space makes that of the i-th instance, from 0. The directory of its files stays
// the caller's.
func (n *Network) Space(i int, files Files) (*Space, error) {
	s := &Space{thread: NewThread()}
	if err := n.furnish(s, i, files); err != nil {
		s.Close()
		return nil, fmt.Errorf("make a network for it: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spaces = append(n.spaces, s)
	return s, nil
}

func (n *Network) furnish(s *Space, i int, files Files) error {
	err := s.thread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make name spaces: %w", err)
		}
		// What is mounted here stays here; what the host mounts is seen.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("make a mount name space: %w", err)
		}
		return files.mount()
	})
	if err != nil {
		return err
	}
	inside, err := netns.GetFromThread(unix.Getpid(), s.thread.tid)
	if err != nil {
		return fmt.Errorf("find its name space: %w", err)
	}
	defer inside.Close() //nolint:errcheck // read only
	if err := n.bridge.Do(func() error { return plug(port(i), instanceLink, inside) }); err != nil {
		return err
	}
	return s.thread.Do(func() error { return n.connect(n.Address(i)) })
}

// port is the bridge's end of an instance's pair.
func port(i int) string { return fmt.Sprintf("i%d", i+1) }

// connect sets up the interfaces of an instance. It runs in its name space.
func (n *Network) connect(address netip.Addr) error {
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	if err := configure(instanceLink, netip.PrefixFrom(address, address.BitLen())); err != nil {
		return err
	}
	link, err := netlink.LinkByName(instanceLink)
	if err != nil {
		return fmt.Errorf("find eth0: %w", err)
	}
	all := &net.IPNet{IP: n.address(0).AsSlice(), Mask: net.CIDRMask(24, 32)}
	route := &netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: all}
	if err := netlink.RouteAdd(route); err != nil {
		return fmt.Errorf("add a route: %w", err)
	}
	return nil
}

// Start is cmd.Start in the space.
func (s *Space) Start(cmd *exec.Cmd) error { return s.thread.Do(cmd.Start) }

// Close gives the space up; it goes when the last process in it has ended.
func (s *Space) Close() {
	if !s.closed {
		s.closed = true
		s.thread.Close()
	}
}

// Available says why no networks can be made here; nil if they can. It tries, and
// leaves nothing.
func Available() error {
	for _, file := range mounted[:2] {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("there is no %s to mount an instance's own over", file)
		}
	}
	t := NewThread()
	defer t.Close()
	return t.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
			if errors.Is(err, unix.EPERM) {
				return errors.New("only root can make network name spaces")
			}
			return fmt.Errorf("make name spaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("make a mount name space: %w", err)
		}
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}); err != nil {
			return fmt.Errorf("make a bridge: %w", err)
		}
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}); err != nil {
			return fmt.Errorf("make a veth pair: %w", err)
		}
		return nil
	})
}
