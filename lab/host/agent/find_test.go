package agent

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// seen is a process as a fake /proc has it.
type seen struct {
	space     string   // its network name space
	addresses []string // of that
	listens   []string
	container string // its pid name space
}

// fakeProc makes a /proc of processes by their ids. This one is in the name space host.
func fakeProc(t *testing.T, processes map[int]seen) *machine {
	t.Helper()
	root := t.TempDir()
	put := func(text string, path ...string) {
		t.Helper()
		file := filepath.Join(append([]string{root}, path...)...)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string, path ...string) {
		t.Helper()
		file := filepath.Join(append([]string{root}, path...)...)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, file); err != nil {
			t.Fatal(err)
		}
	}
	link("net host", "self", "ns", "net")
	link("outside", "self", "ns", "pid")
	tables := map[string]map[string]*strings.Builder{} // of sockets, by name space and file
	for pid, p := range processes {
		id := fmt.Sprint(pid)
		put(id+" (x) S 1 "+id+strings.Repeat(" 0", 20), id, "stat")
		put("x\n", id, "comm")
		link("net "+p.space, id, "ns", "net")
		if p.container != "" {
			link(p.container, id, "ns", "pid")
		}
		if tables[p.space] == nil {
			tables[p.space] = map[string]*strings.Builder{"tcp": {}, "tcp6": {}}
		}
		for i, text := range p.listens {
			at, inode := netip.MustParseAddrPort(text), 100*pid+i
			file, bytes := "tcp", at.Addr().AsSlice()
			if at.Addr().Is6() {
				file = "tcp6"
			}
			fmt.Fprintf(tables[p.space][file], " 0: ")
			for w := 0; w < len(bytes); w += 4 {
				fmt.Fprintf(tables[p.space][file], "%02X%02X%02X%02X", bytes[w+3], bytes[w+2], bytes[w+1], bytes[w])
			}
			fmt.Fprintf(tables[p.space][file], ":%04X 00000000:0000 0A 0:0 0:0 0 0 0 %d 1\n", at.Port(), inode)
			link(fmt.Sprintf("socket:[%d]", inode), id, "fd", fmt.Sprint(i+3))
		}
	}
	for pid, p := range processes {
		id := fmt.Sprint(pid)
		var trie, inet6 strings.Builder
		for _, text := range p.addresses {
			if a := netip.MustParseAddr(text); a.Is6() {
				fmt.Fprintf(&inet6, "%x 02 40 00 00     eth0\n", a.As16())
			} else {
				fmt.Fprintf(&trie, "     |-- %s\n        /32 host LOCAL\n", a)
			}
		}
		put(trie.String(), id, "net", "fib_trie")
		put(inet6.String(), id, "net", "if_inet6")
		for file, text := range tables[p.space] {
			put(text.String(), id, "net", file)
		}
	}
	m, err := look(root)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What is found may be limited, so another process than the one that a connection comes to
// is worse than none.
func TestWhoListensIsNoGuess(t *testing.T) {
	t.Parallel()
	host := []string{"10.0.0.5", "2001:db8::5"}
	m := fakeProc(t, map[int]seen{
		10: {space: "host", addresses: host, listens: []string{"127.0.0.1:8080", "[::]:9090"}},
		11: {space: "host", addresses: host, listens: []string{"0.0.0.0:8080", "0.0.0.0:9090", "[::]:7070", "10.0.0.5:6060"}},
		// Of a run of containers: all listen on all of their addresses.
		20: {space: "one", addresses: []string{"172.17.0.2", "10.0.2.100"}, listens: []string{"0.0.0.0:8080", "0.0.0.0:5050"}},
		21: {space: "two", addresses: []string{"172.17.0.3", "10.0.2.100"}, listens: []string{"0.0.0.0:8080", "0.0.0.0:5050"}},
		22: {space: "three", addresses: []string{"10.0.0.5"}, listens: []string{"0.0.0.0:6060", "0.0.0.0:4040"}},
	})
	for address, want := range map[string]struct {
		pid int
		why string
	}{
		"127.0.0.1:8080":     {10, ""},
		"10.0.0.5:8080":      {11, ""},
		"127.0.0.1:9090":     {11, ""},
		"[2001:db8::5]:9090": {10, ""},
		"[::1]:9090":         {10, ""},
		"127.0.0.1:7070":     {11, ""}, // both families
		"127.0.0.1:5050":     {0, "nobody that can be seen listens"},
		"10.0.0.5:6060":      {11, ""}, // here, and not where the address is another's
		"10.0.0.5:4040":      {0, "nobody that can be seen listens"},
		"172.17.0.2:8080":    {20, ""},
		"172.17.0.3:8080":    {21, ""},
		"10.0.2.100:8080":    {0, "processes [20 21] listen on 10.0.2.100:8080"},
		"192.0.2.1:80":       {0, "not a machine that has the address"},
		"localhost:80":       {0, "no IP address"},
	} {
		for range 20 { // whatever the order of maps
			if pid, why := m.listener(address); pid != want.pid || !strings.Contains(why, want.why) || (why == "") != (want.why == "") {
				t.Errorf("%s: got process %d, %q, want %d, %q", address, pid, why, want.pid, want.why)
				break
			}
		}
	}
}

// A pid that was used again while they were read may make a circle of parents.
func TestACircleOfParentsEnds(t *testing.T) {
	t.Parallel()
	m := &machine{parents: map[int]int{1: 0, 10: 11, 11: 10, 12: 11, 20: 1, 21: 20}}
	for pair, want := range map[[2]int]bool{{12, 10}: true, {10, 11}: true, {12, 20}: false, {21, 20}: true, {21, 1}: true, {20, 21}: false, {99, 20}: false} {
		if got := m.descends(pair[0], pair[1]); got != want {
			t.Errorf("%v: got %v, want %v", pair, got, want)
		}
	}
}

func TestWhatIsInOneContainerIsTogether(t *testing.T) {
	t.Parallel()
	m := fakeProc(t, map[int]seen{
		10: {container: "a"}, 11: {container: "a"}, 12: {container: "b"}, 20: {container: "outside"}, 21: {container: "outside"}, 30: {}, 31: {},
	})
	for pair, want := range map[[2]int]bool{{10, 11}: true, {10, 12}: false, {10, 20}: false, {20, 21}: false, {30, 31}: false} {
		if got := m.together(pair[0], pair[1]); got != want {
			t.Errorf("%v: got %v, want %v", pair, got, want)
		}
	}
}
