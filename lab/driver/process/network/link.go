package network

import (
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Shape is what a link is made worse by. Zero values change nothing.
type Shape struct {
	// Delay is added to every packet that an instance sends, and Loss is the share of
	// them that is lost, from 0 to 1.
	Delay time.Duration
	Loss  float64
	// Bandwidth bounds what it sends and what it receives, in bytes a second each.
	Bandwidth uint64
}

const (
	// burstTime is for how long a link may send at once what it has saved up, and
	// queueTime for how long a packet may wait; one that would wait longer is lost.
	burstTime = 10 * time.Millisecond
	queueTime = 100 * time.Millisecond
	// leastBurst lets the largest packet of a veth pair through: 64 KiB and headers.
	leastBurst = 66 << 10
	// netemLimit is how many packets may be delayed at a time.
	netemLimit = 100_000
)

// Shape makes the link of the i-th instance worse, from now on.
func (n *Network) Shape(s *Space, i int, shape Shape) error {
	err := s.thread.Do(func() error { return shape.of(instanceLink, true) })
	if err == nil {
		err = n.bridge.Do(func() error { return shape.of(port(i), false) })
	}
	return err
}

// of shapes what a link of this thread's name space sends.
func (s Shape) of(name string, delayed bool) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	attrs := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	if delayed && (s.Delay > 0 || s.Loss > 0) {
		err := netlink.QdiscReplace(netlink.NewNetem(attrs, netlink.NetemQdiscAttrs{
			Latency: uint32(s.Delay.Microseconds()), Loss: float32(100 * s.Loss), Limit: netemLimit,
		}))
		if errors.Is(err, unix.ENOENT) {
			return errors.New("this kernel cannot delay or lose packets (CONFIG_NET_SCH_NETEM); only bandwidth can be bounded here")
		}
		if err != nil {
			return fmt.Errorf("delay packets: %w", err)
		}
		attrs.Handle, attrs.Parent = netlink.MakeHandle(2, 0), netlink.MakeHandle(1, 1)
	}
	if s.Bandwidth == 0 {
		return nil
	}
	burst := max(uint64(float64(s.Bandwidth)*burstTime.Seconds()), leastBurst)
	tbf := &netlink.Tbf{
		QdiscAttrs: attrs, Rate: s.Bandwidth, Buffer: tokens(s.Bandwidth, burst),
		Limit: uint32(float64(s.Bandwidth)*queueTime.Seconds()) + uint32(burst),
	}
	if err := netlink.QdiscReplace(tbf); err != nil {
		return fmt.Errorf("bound the bandwidth: %w", err)
	}
	return nil
}

// tokens is the time that a burst takes at a rate, in the kernel's ticks.
func tokens(rate, burst uint64) uint32 {
	return netlink.Xmittime(rate, uint32(burst))
}
