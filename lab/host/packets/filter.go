package packets

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// snapLength is how much of each packet is read: headers of IP and TCP with options.
const snapLength = 120

// Where things are in the headers of IPv4 and TCP, in bytes.
const (
	ipLength   = 2  // of 2 bytes
	ipFragment = 6  // of 2 bytes, with flags
	ipProtocol = 9  // of 1 byte
	tcpOffset  = 12 // in its upper 4 bits, of words of 4 bytes
	tcpFlags   = 13
)

// The flags of a TCP segment.
const (
	flagFIN = 1 << iota
	flagSYN
	flagRST
	_
	flagACK
)

// program passes what came in over TCP with IPv4 and has a payload, or begins or ends a
// connection; acknowledgements alone are most of all packets. It sees a packet from its IP
// header on. The kernel shows what passes the loopback interface twice, on its way out
// and in; the first is not passed.
func program() ([]unix.SockFilter, error) {
	const yes, no = 16, 17 // of the instructions below
	skip := func(at, to int) uint8 { return uint8(to - at - 1) }
	raw, err := bpf.Assemble([]bpf.Instruction{
		0:   bpf.LoadExtension{Num: bpf.ExtType},
		1:   bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: skip(1, no)},
		2:   bpf.LoadAbsolute{Off: ipProtocol, Size: 1},
		3:   bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_TCP, SkipFalse: skip(3, no)},
		4:   bpf.LoadAbsolute{Off: ipFragment, Size: 2},
		5:   bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: skip(5, no)},
		6:   bpf.LoadMemShift{Off: 0}, // X is the length of the IP header
		7:   bpf.LoadIndirect{Off: tcpFlags, Size: 1},
		8:   bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: flagFIN | flagSYN | flagRST, SkipTrue: skip(8, yes)},
		9:   bpf.LoadIndirect{Off: tcpOffset, Size: 1},
		10:  bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf0},
		11:  bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 2},
		12:  bpf.ALUOpX{Op: bpf.ALUOpAdd},
		13:  bpf.TAX{},
		14:  bpf.LoadAbsolute{Off: ipLength, Size: 2},
		15:  bpf.JumpIfX{Cond: bpf.JumpGreaterThan, SkipFalse: skip(15, no)},
		yes: bpf.RetConstant{Val: snapLength},
		no:  bpf.RetConstant{Val: 0},
	})
	if err != nil {
		return nil, err
	}
	out := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		out[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	return out, nil
}
