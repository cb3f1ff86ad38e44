package load

import (
	"net/netip"
	"testing"
)

func TestLocalIP(t *testing.T) {
	t.Parallel()
	var none Plan
	if got := none.LocalIP(3); got.IsValid() {
		t.Errorf("without addresses: %v, want none", got)
	}
	p := Plan{LocalIPs: []netip.Prefix{
		netip.MustParsePrefix("127.0.0.9/32"), netip.MustParsePrefix("127.1.0.77/23"), netip.MustParsePrefix("fd00::/8"),
	}}
	for i, want := range map[int]string{
		0: "127.0.0.9", 1: "127.1.0.0", 256: "127.1.0.255", 257: "127.1.1.0", 512: "127.1.1.255",
		513: "fd00::", 514: "fd00::1", 512 + 1<<17: "fd00::1:ffff", 513 + 1<<17: "127.0.0.9",
	} {
		if got := p.LocalIP(i); got != netip.MustParseAddr(want) {
			t.Errorf("connection %d comes from %v, want %s", i, got, want)
		}
	}
}

func TestParsePrefix(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"127.0.0.2": "127.0.0.2/32", "127.1.0.0/20": "127.1.0.0/20", "::1": "::1/128",
		"127.0.0.300": "", "127.0.0.1/33": "", "localhost": "", "": "",
	} {
		got, err := ParsePrefix(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v and %v, want %q", text, got, err, want)
		}
	}
}
