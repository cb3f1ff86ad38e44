package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// listening reads a table of TCP sockets.
func listening(t *testing.T, table string) map[string]netip.AddrPort {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tcp"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	return Listening(dir)
}

func TestListening(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(listening(t, `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 02014D7F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 42 1 0000000000000000 100 0 0 10 0
   2: 02014D7F:1F90 0100007F:C000 01 00000000:00000000 00:00000000 00000000  1000        0 43 1 0000000000000000 20 4 30 10 -1
   3: 00000000000000000000000000000000:2382 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 44 1
   4: 0000000000000000FFFF00000100007F:2383 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 45 1
   5: XX:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 46 1
`))
	if want := "map[41:127.77.1.2:8080 42:127.0.0.1:8081 44:[::]:9090 45:127.0.0.1:9091]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestConnected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	table := `0: 02014D7F:1F90 0100007F:C000 01 00000000:00000000 00:00000000 00000000  1000        0 43 1 0000000000000000 20 4 30 10 -1
1: 0100007F:C000 02014D7F:1F90 06 00000000:00000000 00:00000000 00000000  1000        0 0 1 0000000000000000 20 4 30 10 -1
2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 42 1 0000000000000000 100 0 0 10 0
`
	if err := os.WriteFile(filepath.Join(dir, "tcp"), []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	_, connected := Tables(dir)
	if got, want := fmt.Sprint(connected), "map[43:{127.77.1.2:8080 127.0.0.1:49152}]"; got != want {
		t.Errorf("got %s, want %s: neither who waits for the end nor who listens", got, want)
	}
}

// Of a process and the child that it has while it starts a program the first holds what both
// have open.
func TestHolder(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	process := func(pid int, start uint64, open string) {
		dir := filepath.Join(root, fmt.Sprint(pid))
		stat := fmt.Sprintf("%d (shop %d) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0", pid, pid, start)
		err := errors.Join(os.MkdirAll(filepath.Join(dir, "fd"), 0o755), os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o600),
			os.Symlink("socket:["+open+"]", filepath.Join(dir, "fd", "3")))
		if err != nil {
			t.Fatal(err)
		}
	}
	process(13646, 900, "41") // in the order of a directory it comes first
	process(8019, 100, "41")
	process(77, 50, "42")
	if by, ok := Holder(root, func(inode string) bool { return inode == "41" }); !ok || by.PID != 8019 || by.Name != "shop 8019" {
		t.Errorf("got %+v, %v, want process 8019", by, ok)
	}
	if by, ok := Holder(root, func(inode string) bool { return inode == "43" }); ok {
		t.Errorf("got %+v of a socket that nobody has", by)
	}
}

// A socket of this process is found by what it has open.
func TestOpen(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	own := Open("/proc/self/fd")
	for inode, address := range Listening("/proc/net") {
		if own[inode] && address.String() == l.Addr().String() {
			return
		}
	}
	t.Errorf("%s is not among the sockets that this process has open: %v", l.Addr(), own)
}

func FuzzListening(f *testing.F) {
	f.Add("  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0 100 0 0 10 0\n")
	f.Add("0: 00000000000000000000000000000000:1F90 0:0 0A 0 0 0 0 0 7\n")
	f.Add(": :: 0A")
	f.Fuzz(func(t *testing.T, table string) {
		for inode, address := range listening(t, table) {
			if !address.IsValid() {
				t.Errorf("socket %s: got no address", inode)
			}
		}
	})
}
