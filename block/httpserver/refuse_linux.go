package httpserver

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// gate is a listening socket that no longer takes new connections.
type gate struct{ raw syscall.RawConn }

// refuse makes the kernel ignore attempts to connect to l from now on, without
// touching those that have got as far as their first packet. It reports false
// if the socket does not allow it; then nothing has changed.
//
// The means is a classic socket filter. For a TCP socket it is given the
// segment from its TCP header on; byte 13 holds the flags. A segment with SYN
// and without ACK opens a connection: drop it, keep all others. Accepted
// sockets inherit the filter, which does them no harm: they get no such segment.
func refuse(l net.Listener) (*gate, bool) {
	const flags, syn, synAck, dropAll, keepAll = 13, 0x02, 0x12, 0, 0xffffffff
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: synAck},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: dropAll},
		{Code: unix.BPF_RET | unix.BPF_K, K: keepAll},
	}
	sc, ok := l.(syscall.Conn)
	if !ok {
		return nil, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, false
	}
	var attached error
	err = raw.Control(func(fd uintptr) {
		attached = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
	return &gate{raw}, err == nil && attached == nil
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
