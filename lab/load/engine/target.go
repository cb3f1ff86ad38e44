package engine

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
)

// target is one base URL and where it is.
type target struct {
	index     int
	base      *url.URL
	address   string           // host:port, for messages
	addresses []netip.AddrPort // connections are dealt to them in turn
}

// newTarget finds out where a base URL leads. Names are looked up once, before
// the load begins: a look-up in the middle would be part of what is measured.
// Validate has looked at the URL before.
func newTarget(ctx context.Context, index int, raw string) (target, error) {
	base, err := url.Parse(raw)
	if err != nil {
		return target{}, err
	}
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ws": "80", "https": "443", "wss": "443"}[base.Scheme]
	}
	t := target{index: index, base: base, address: net.JoinHostPort(base.Hostname(), port)}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return target{}, fmt.Errorf("port %q: give a number from 1 to 65535", port)
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", base.Hostname())
	if err != nil {
		return target{}, fmt.Errorf("look up %s: %w", base.Hostname(), err)
	}
	for _, ip := range found {
		t.addresses = append(t.addresses, netip.AddrPortFrom(ip.Unmap(), uint16(number)))
	}
	t.addresses = oneFamily(t.addresses)
	return t, nil
}

// oneFamily keeps the IPv4 addresses, or the others if there are none: a machine
// without a way to one family would fail the requests that go there.
func oneFamily(all []netip.AddrPort) []netip.AddrPort {
	var v4, v6 []netip.AddrPort
	for _, a := range all {
		if a.Addr().Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	if len(v4) > 0 {
		return v4
	}
	return v6
}
