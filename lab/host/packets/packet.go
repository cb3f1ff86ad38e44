package packets

import (
	"encoding/binary"
	"net/netip"
)

// endpoint is an IPv4 address with a port.
type endpoint struct {
	ip   uint32
	port uint16
}

func (e endpoint) address() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, e.ip))), e.port)
}

// packet is what is read of a TCP segment.
type packet struct {
	at       int64 // nanoseconds since 1970
	from, to endpoint
	payload  int // bytes
	flags    byte
}

const (
	leastIP, leastTCP = 20, 20
	protocolTCP       = 6
)

// parse reads the headers of an IPv4 packet with a TCP segment. What is behind them need
// not be there. ok is false if it is none.
func parse(b []byte) (p packet, ok bool) {
	if len(b) < leastIP || b[0]>>4 != 4 || b[ipProtocol] != protocolTCP {
		return p, false
	}
	ip := 4 * int(b[0]&0xf)
	if ip < leastIP || len(b) < ip+leastTCP {
		return p, false
	}
	tcp := b[ip:]
	p.from = endpoint{binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint16(tcp)}
	p.to = endpoint{binary.BigEndian.Uint32(b[16:]), binary.BigEndian.Uint16(tcp[2:])}
	p.flags = tcp[tcpFlags]
	p.payload = max(0, int(binary.BigEndian.Uint16(b[ipLength:]))-ip-4*int(tcp[tcpOffset]>>4))
	return p, true
}
