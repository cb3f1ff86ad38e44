package network

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// testNumber is a network that no run takes first.
const testNumber = 250

func open(t *testing.T) *Network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make networks; CI is root")
	}
	n, err := Open(testNumber)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if _, err := net.InterfaceByName(n.hostLink()); err == nil {
			t.Errorf("the host still has %s", n.hostLink())
		}
	})
	return n
}

func space(t *testing.T, n *Network, i int, hosts map[string]netip.Addr) *Space {
	t.Helper()
	files, err := n.Files(t.TempDir(), hosts)
	if err != nil {
		t.Fatal(err)
	}
	s, err := n.Space(i, files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t *testing.T, s *Space, argv ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := s.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%q: %v: %s", argv, err, &out)
	}
	return out.String()
}

func TestInstancesFindEachOther(t *testing.T) {
	n := open(t)
	err := n.ServeNames(func(name string) []netip.Addr {
		if name == "several" {
			return []netip.Addr{n.Address(0), n.Address(1)}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	hosts := map[string]netip.Addr{"one": n.Address(0), "two": n.Address(1)}
	one, two := space(t, n, 0, hosts), space(t, n, 1, hosts)

	before := run(t, two, "cat", "/etc/hosts")
	if !strings.Contains(before, n.Address(0).String()+" one\n") {
		t.Errorf("its /etc/hosts: %s", before)
	}
	if host, err := os.ReadFile("/etc/hosts"); err != nil || bytes.Contains(host, []byte(n.Address(0).String())) {
		t.Errorf("the host's /etc/hosts: %s, %v", host, err)
	}

	// Both listen on the same port of all addresses.
	for _, s := range []*Space{one, two} {
		var l net.Listener
		if err := s.thread.Do(func() (err error) { l, err = net.Listen("tcp", ":8890"); return err }); err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	for _, a := range []string{"one", "two", "several"} {
		if got := run(t, two, "getent", "ahostsv4", a); !strings.Contains(got, "198.18.250.") {
			t.Errorf("%s: %s", a, got)
		}
	}
	// From the host, and from one to the other.
	for i := range 2 {
		conn, err := net.Dial("tcp", fmt.Sprintf("%s:8890", n.Address(i)))
		if err != nil {
			t.Error(err)
			continue
		}
		_ = conn.Close()
	}
	var conn net.Conn
	if err := two.thread.Do(func() (err error) { conn, err = net.Dial("tcp4", n.Address(0).String()+":8890"); return err }); err != nil {
		t.Error(err)
	} else {
		_ = conn.Close()
	}
	if out := run(t, one, "cat", "/proc/net/route"); strings.Contains(out, "eth0\t00000000") {
		t.Errorf("there is a way out: %s", out)
	}
}

// What is bounded takes at least the time that its bytes take at that rate, but for what it
// may save up.
func TestABoundLinkIsSlow(t *testing.T) {
	n := open(t)
	sender := space(t, n, 0, nil)
	const rate, size = 1 << 20, 512 << 10
	if err := n.Shape(sender, 0, Shape{Bandwidth: rate}); err != nil {
		t.Fatal(err)
	}
	var l net.Listener
	if err := sender.thread.Do(func() (err error) { l, err = net.Listen("tcp", ":8890"); return err }); err != nil {
		t.Fatal(err)
	}
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = conn.Write(make([]byte, size))
			_ = conn.Close()
		}
	}()
	began := time.Now()
	conn, err := net.Dial("tcp", n.Address(0).String()+":8890")
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.Copy(io.Discard, conn)
	if least := time.Duration(float64(size-leastBurst) / rate * float64(time.Second)); got != size || err != nil || time.Since(began) < least {
		t.Errorf("%d bytes in %v, %v; want %d in %v at least", got, time.Since(began), err, size, least)
	}
	if err := errors.Join(conn.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}

// Where the kernel cannot delay packets, the error says so.
func TestDelay(t *testing.T) {
	n := open(t)
	s := space(t, n, 0, nil)
	const delay = 20 * time.Millisecond
	err := n.Shape(s, 0, Shape{Delay: delay, Bandwidth: 1 << 30})
	if err != nil {
		if !strings.Contains(err.Error(), "CONFIG_NET_SCH_NETEM") {
			t.Error(err)
		}
		return
	}
	var l net.Listener
	if err := s.thread.Do(func() (err error) { l, err = net.Listen("tcp", ":8890"); return err }); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	conn, err := net.Dial("tcp", n.Address(0).String()+":8890")
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < delay {
		t.Errorf("connected in %v, want %v at least", took, delay)
	}
	if err := errors.Join(conn.Close(), l.Close()); err != nil {
		t.Error(err)
	}
}

func TestTheNameServerTakesTurns(t *testing.T) {
	a, b := netip.MustParseAddr("198.18.1.1"), netip.MustParseAddr("198.18.1.2")
	s := &names{turns: map[string]int{}, lookup: func(name string) []netip.Addr {
		if name == "several" {
			return []netip.Addr{a, b}
		}
		return nil
	}}
	ask := func(name string, typ dnsmessage.Type) (dnsmessage.RCode, []netip.Addr) {
		t.Helper()
		q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: typ, Class: dnsmessage.ClassINET}}}
		packed, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.answer(packed)
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(text); err != nil || m.ID != 7 || !m.Response {
			t.Fatalf("%+v, %v", m, err)
		}
		var all []netip.Addr
		for _, r := range m.Answers {
			if body, ok := r.Body.(*dnsmessage.AResource); ok {
				all = append(all, netip.AddrFrom4(body.A))
			}
		}
		return m.RCode, all
	}
	for i, want := range [][]netip.Addr{{a, b}, {b, a}, {a, b}} {
		if _, got := ask("Several.", dnsmessage.TypeA); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("question %d: got %v, want %v", i, got, want)
		}
		if code, got := ask("several.", dnsmessage.TypeAAAA); code != dnsmessage.RCodeSuccess || len(got) > 0 {
			t.Errorf("AAAA: got %v, %v, want success without an address", code, got)
		}
	}
	if code, _ := ask("elsewhere.", dnsmessage.TypeA); code != dnsmessage.RCodeNameError {
		t.Errorf("a name that there is not: got %v", code)
	}
	if _, err := s.answer([]byte("no question")); err == nil {
		t.Error("what is no question was answered")
	}
}

func TestHostsAreSwitchedToFilesAndDNS(t *testing.T) {
	got := switchHosts("passwd: files\nhosts: files resolve [!UNAVAIL=return] dns")
	if want := "passwd: files\nhosts: files dns\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNetworksCanBeMadeHere(t *testing.T) {
	if err := Available(); os.Geteuid() == 0 && err != nil {
		t.Error(err)
	}
}

// An interface of the same name that nobody here has made is not removed.
func TestAnotherInterfaceOfTheNameStays(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make networks; CI is root")
	}
	thread := NewThread() // in a network name space of its own, so that nothing is left
	defer thread.Close()
	err := thread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		n := &Network{number: testNumber, half: halves[0]}
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: n.hostLink()}}); err != nil {
			return err
		}
		if err := n.removeHostLink(); err == nil || !strings.Contains(err.Error(), "is somebody else's (bridge)") {
			t.Errorf("got %v", err)
		}
		_, err := netlink.LinkByName(n.hostLink())
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Where another network has the addresses, a run's own is elsewhere; where it has them all,
// that is an error which says so. The way to everywhere is no such network.
func TestOtherNetworksKeepTheirAddresses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make networks; CI is root")
	}
	thread := NewThread() // in a network name space of its own, so that nothing is left
	defer thread.Close()
	n := &Network{number: testNumber}
	settle := func(want string) {
		t.Helper()
		taken, err := prefixes()
		if err != nil {
			t.Error(err)
		}
		switch err := n.settle(taken); {
		case err != nil && !strings.HasPrefix(err.Error(), want):
			t.Errorf("got %v, want %s", err, want)
		case err == nil && n.Address(0).String() != want:
			t.Errorf("got %s, want %s", n.Address(0), want)
		}
	}
	err := thread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		settle("198.18.250.1")
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "vpn"}}); err != nil {
			return err
		}
		if err := configure("vpn", netip.MustParsePrefix("192.0.2.1/24")); err != nil {
			return err
		}
		route := func(to string) error {
			link, err := netlink.LinkByName("vpn")
			if err != nil {
				return err
			}
			return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to)})
		}
		for _, wide := range []string{"0.0.0.0/0", "128.0.0.0/1", "198.16.0.0/12"} {
			if err := route(wide); err != nil {
				return err
			}
		}
		if err := route("198.18.7.0/24"); err != nil { // of another number
			return err
		}
		settle("198.18.250.1")
		if err := configure("vpn", netip.MustParsePrefix("198.18.0.1/16")); err != nil {
			return err
		}
		settle("198.19.250.1")
		if err := route("198.19.250.128/25"); err != nil {
			return err
		}
		settle("this machine already has a network where the instances' own would be (198.18.0.0/16 has addresses of 198.18.250.0/24, 198.19.250.128/25 has addresses of 198.19.250.0/24); remove it")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func ipNet(text string) *net.IPNet {
	p := netip.MustParsePrefix(text)
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
