// Package forwarded says who asks when proxies stand between: whose X-Forwarded-For counts, and
// how far. It does not listen and keeps nothing.
package forwarded

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the addresses whose X-Forwarded-For is believed. The zero value
// believes nobody.
type Proxies struct{ prefixes []netip.Prefix }

// maxHops bounds the entries of X-Forwarded-For that are read. More proxies in a
// row than this are a mistake or an attack.
const maxHops = 16

// Parse reads addresses and prefixes: 10.0.0.7, 10.0.0.0/8, fd00::/8. A
// prefix of all addresses is refused, for then clients could write their own
// address.
func Parse(texts ...string) (Proxies, error) {
	var p Proxies
	for _, text := range texts {
		prefix, err := parsePrefix(text)
		if err != nil {
			return Proxies{}, fmt.Errorf("proxy %q: write an address like 10.0.0.7 or a prefix like 10.0.0.0/8", text)
		}
		if prefix.Bits() == 0 {
			return Proxies{}, fmt.Errorf("proxy %q would believe every client: name your proxies' own addresses", text)
		}
		p.prefixes = append(p.prefixes, prefix.Masked())
	}
	return p, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	addr = addr.Unmap().WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// String lists the prefixes, comma-separated.
func (p Proxies) String() string {
	texts := make([]string, len(p.prefixes))
	for i, prefix := range p.prefixes {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ",")
}

// Trusts reports whether the peer is one of the proxies.
func (p Proxies) Trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, prefix := range p.prefixes {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// Client returns the client's address: the right-most hop that is no proxy. Peer
// is who opened the connection; forwarded are the values of X-Forwarded-For, one
// for each header line in the order of the lines.
//
// Each proxy appends who connected to it, so the list is true from its right end
// up to the first hop that is no proxy; what stands left of that the client may
// have made up. An entry that is no address ends the reading as well: the hop
// that wrote it is then the best that is known.
func (p Proxies) Client(peer netip.Addr, forwarded [][]byte) netip.Addr {
	client := peer.Unmap().WithZone("")
	hops := 0
	for _, line := range slices.Backward(forwarded) {
		for rest, more := line, true; more; hops++ {
			if hops == maxHops || !p.Trusts(client) {
				return client
			}
			var last []byte
			rest, last, more = cutLast(rest)
			addr, ok := parseHop(last)
			if !ok {
				return client
			}
			client = addr
		}
	}
	return client
}

// cutLast splits off what follows the last comma.
func cutLast(list []byte) (rest, last []byte, more bool) {
	if comma := bytes.LastIndexByte(list, ','); comma >= 0 {
		return list[:comma], list[comma+1:], true
	}
	return nil, list, false
}

// maxHopBytes is longer than any address with brackets and port.
const maxHopBytes = 64

// parseHop reads an entry: an address, perhaps with brackets, perhaps with a port.
func parseHop(text []byte) (netip.Addr, bool) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || len(text) > maxHopBytes {
		return netip.Addr{}, false
	}
	hop := string(text)
	if addr, err := netip.ParseAddr(hop); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if with, err := netip.ParseAddrPort(hop); err == nil {
		return with.Addr().Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(hop, "["); ok {
		if addr, err := netip.ParseAddr(strings.TrimSuffix(inner, "]")); err == nil && strings.HasSuffix(inner, "]") {
			return addr.Unmap().WithZone(""), true
		}
	}
	return netip.Addr{}, false
}

// Network is what counts as one address: an IPv6 host has all of its /64, and is the first of
// them. The zero address is itself.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	return netip.PrefixFrom(a, 64).Masked().Addr()
}
