package forwarded_test

import (
	"net/netip"
	"strings"
	"testing"

	"loadstone/block/forwarded"
)

func proxies(tb testing.TB, texts ...string) forwarded.Proxies {
	tb.Helper()
	p, err := forwarded.Parse(texts...)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func lines(values ...string) [][]byte {
	all := make([][]byte, len(values))
	for i, v := range values {
		all[i] = []byte(v)
	}
	return all
}

func TestClient(t *testing.T) {
	t.Parallel()
	p := proxies(t, "10.0.0.0/8", "192.0.2.7", "fd00::/8")
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string
	}{
		"no header":                      {"10.1.1.1", nil, "10.1.1.1"},
		"a client that is no proxy":      {"203.0.113.5", []string{"1.1.1.1"}, "203.0.113.5"},
		"one proxy":                      {"10.1.1.1", []string{"203.0.113.5"}, "203.0.113.5"},
		"two proxies":                    {"10.1.1.1", []string{"203.0.113.5, 192.0.2.7"}, "203.0.113.5"},
		"spoofed on the left":            {"10.1.1.1", []string{"1.1.1.1, 203.0.113.5"}, "203.0.113.5"},
		"spoofed as a proxy":             {"10.1.1.1", []string{"1.1.1.1, 10.9.9.9, 203.0.113.5"}, "203.0.113.5"},
		"spoofed in a line of its own":   {"10.1.1.1", []string{"1.1.1.1", "203.0.113.5"}, "203.0.113.5"},
		"two lines, one proxy in each":   {"10.1.1.1", []string{"203.0.113.5", "192.0.2.7"}, "203.0.113.5"},
		"garbage on the left":            {"10.1.1.1", []string{"<script>, 203.0.113.5"}, "203.0.113.5"},
		"garbage on the right":           {"10.1.1.1", []string{"203.0.113.5, unknown"}, "10.1.1.1"},
		"garbage behind a proxy":         {"10.1.1.1", []string{"203.0.113.5, x, 192.0.2.7"}, "192.0.2.7"},
		"empty":                          {"10.1.1.1", []string{""}, "10.1.1.1"},
		"empty entry":                    {"10.1.1.1", []string{"203.0.113.5,"}, "10.1.1.1"},
		"only proxies":                   {"10.1.1.1", []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3"},
		"with a port":                    {"10.1.1.1", []string{"203.0.113.5:4711"}, "203.0.113.5"},
		"IPv6":                           {"10.1.1.1", []string{"2001:db8::5"}, "2001:db8::5"},
		"IPv6 in brackets":               {"10.1.1.1", []string{"[2001:db8::5]"}, "2001:db8::5"},
		"IPv6 in brackets with a port":   {"10.1.1.1", []string{"[2001:db8::5]:80"}, "2001:db8::5"},
		"IPv6 with half a bracket":       {"10.1.1.1", []string{"[2001:db8::5"}, "10.1.1.1"},
		"IPv4 within IPv6":               {"::ffff:10.1.1.1", []string{"::ffff:203.0.113.5"}, "203.0.113.5"},
		"IPv6 proxy":                     {"fd00::1", []string{" 203.0.113.5\t"}, "203.0.113.5"},
		"zones are dropped":              {"fd00::1%eth0", []string{"fe80::1%eth0"}, "fe80::1"},
		"more proxies than are believed": {"10.1.1.1", []string{"203.0.113.5" + strings.Repeat(", 10.0.0.1", 16)}, "10.0.0.1"},
		"an endless entry":               {"10.1.1.1", []string{strings.Repeat("1", 5000)}, "10.1.1.1"},
	} {
		if got := p.Client(netip.MustParseAddr(c.peer), lines(c.forwarded...)); got.String() != c.want {
			t.Errorf("%s: got %v, want %s", name, got, c.want)
		}
	}
}

func TestNobodyIsBelievedByDefault(t *testing.T) {
	t.Parallel()
	var p forwarded.Proxies
	for _, peer := range []string{"127.0.0.1", "10.0.0.1", "::1"} {
		if got := p.Client(netip.MustParseAddr(peer), lines("203.0.113.5")); got.String() != peer {
			t.Errorf("peer %s: got %v", peer, got)
		}
	}
}

func TestParseProxies(t *testing.T) {
	t.Parallel()
	p := proxies(t, "10.9.8.7/8", "192.0.2.7", "::ffff:192.0.2.8", "fd00::/8")
	if got, want := p.String(), "10.0.0.0/8,192.0.2.7/32,192.0.2.8/32,fd00::/8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for text, want := range map[string]string{
		"nginx":      "write an address",
		"":           "write an address",
		"10.0.0.0/x": "write an address",
		"0.0.0.0/0":  "every client",
		"::/0":       "every client",
	} {
		if _, err := forwarded.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// Whatever a client writes left of the hop that the proxy added, its address is
// that hop.
func FuzzClient(f *testing.F) {
	f.Add("1.1.1.1", "2.2.2.2")
	f.Add("10.0.0.1, 10.0.0.2", "")
	f.Add(",,,[::1", "unknown")
	f.Add("\x00\xff", "[fe80::1%x]:1")
	p := proxies(f, "10.0.0.0/8")
	peer := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, first, second string) {
		if got := p.Client(peer, lines(first, second+", 203.0.113.5")); got.String() != "203.0.113.5" {
			t.Errorf("got %v, want the hop that the proxy added", got)
		}
		if got := p.Client(peer, lines(first, second)); !got.IsValid() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("got %v, want a plain address", got)
		}
	})
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:0:1:2::3": "2001:db8:0:1::", "fe80::1%eth0": "fe80::"} {
		if got := forwarded.Network(netip.MustParseAddr(address)).String(); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
	if got := forwarded.Network(netip.Addr{}); got.IsValid() {
		t.Errorf("no address: got %s", got)
	}
}
