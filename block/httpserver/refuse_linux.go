package httpserver

import (
	"math"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// gate is a listening socket that no longer takes new connections.
type gate struct{ raw syscall.RawConn }

// refuse makes the kernel turn away attempts to connect to l from now on, without
// touching those that have got as far as their first packet. It reports false
// if the socket does not allow it; then nothing has changed.
func refuse(l net.Listener) (*gate, bool) {
	sc, ok := l.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, false
	}
	g := &gate{raw}
	return g, g.set(bindNowhere) || g.set(dropSYN)
}

// set applies a means to the socket and reports whether that took effect.
func (g *gate) set(means func(fd int) error) bool {
	var failed error
	err := g.raw.Control(func(fd uintptr) { failed = means(int(fd)) })
	return err == nil && failed == nil
}

// bindNowhere has new clients refused at once, as by a closed port.
//
// A listening socket that is bound to a network device is found only for packets
// from that device, and here it is one that does not exist. So the kernel finds nobody
// for a segment that opens a connection, and answers it with a reset. A handshake
// under way is an entry of its own, which has kept that it came from any device, and
// so has the connection that it becomes.
//
// What a listener under a SYN flood has answered with a cookie is no such entry, and
// is refused. Linux has the option since 5.0. It needs no privilege for a socket that
// is bound to no device, as Go's are.
func bindNowhere(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, math.MaxInt32)
}

// dropSYN is for older kernels. New clients get no answer: they try again after a
// second, and the closed port refuses them then. So each of them loses that second.
//
// The means is a classic socket filter. For a TCP socket it is given the
// segment from its TCP header on; byte 13 holds the flags. A segment with SYN
// and without ACK opens a connection: drop it, keep all others. Accepted
// sockets inherit the filter, which does them no harm: they get no such segment.
func dropSYN(fd int) error {
	const flags, syn, synAck, dropAll, keepAll = 13, 0x02, 0x12, 0, 0xffffffff
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: synAck},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: dropAll},
		{Code: unix.BPF_RET | unix.BPF_K, K: keepAll},
	}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// backlog is how many completed connections wait to be accepted. For a
// listening socket, TCP_INFO carries the length of that queue in the field
// that otherwise counts unacknowledged segments. If it cannot be read, there is
// nothing to wait for: 0.
func (g *gate) backlog() int {
	n := 0
	err := g.raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int(info.Unacked)
		}
	})
	if err != nil {
		return 0
	}
	return n
}
