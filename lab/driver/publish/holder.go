package publish

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// TakenError is a port of the host that somebody else listens on.
type TakenError struct {
	Address netip.AddrPort
	// Holder is who listens there; nil if that cannot be known, as with another
	// user's process.
	Holder *Holder

	cause error
}

// Holder is a process.
type Holder struct {
	PID     int
	Program string // its name, as in ps
}

func (e *TakenError) Error() string {
	who := "by a process of another user, or of another container"
	if e.Holder != nil {
		who = fmt.Sprintf("by %s (pid %d)", e.Holder.Program, e.Holder.PID)
	}
	return fmt.Sprintf("port %d of %s is taken %s; stop that, or publish another port", e.Address.Port(), e.Address.Addr(), who)
}

func (e *TakenError) Unwrap() error { return e.cause }

// WhoHolds is who listens where address cannot be bound; nil if it is not known.
func WhoHolds(address netip.AddrPort) *Holder { return holder(DefaultConfig().ProcRoot, address) }

// listening is a TCP socket's state in /proc/net/tcp.
const listening = "0A"

// holder is who listens where address cannot be bound; nil if it is not known.
func holder(procRoot string, address netip.AddrPort) *Holder {
	var sockets []string
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join(procRoot, "net", table))
		if err != nil {
			continue // no IPv6, or no right to look
		}
		sockets = append(sockets, listeners(string(text), address)...)
	}
	if len(sockets) == 0 {
		return nil
	}
	processes, err := os.ReadDir(procRoot)
	if err != nil {
		return nil
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || !holds(filepath.Join(procRoot, p.Name(), "fd"), sockets) {
			continue
		}
		name, err := os.ReadFile(filepath.Join(procRoot, p.Name(), "comm"))
		if err != nil {
			return nil // it has just ended
		}
		return &Holder{PID: pid, Program: string(bytes.TrimSpace(name))}
	}
	return nil
}

// listeners are the sockets of a table that listen at address, or at all
// addresses, or at any if address is all: the names of their files.
func listeners(table string, address netip.AddrPort) []string {
	var sockets []string
	for line := range strings.Lines(table) {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listening {
			continue
		}
		local, ok := parseAddress(f[1])
		if !ok || local.Port() != address.Port() {
			continue
		}
		if a := local.Addr(); a == address.Addr() || a.IsUnspecified() || address.Addr().IsUnspecified() {
			sockets = append(sockets, "socket:["+f[9]+"]")
		}
	}
	return sockets
}

// parseAddress reads 0100007F:1F90: 32-bit words in the host's byte order, which
// is taken to be little-endian as on all machines that this is built for, and a
// port.
func parseAddress(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	n, errPort := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || errPort != nil {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	a, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), ok
}

// holds says whether one of a process's files is one of sockets. Another user's
// files cannot be seen.
func holds(dir string, sockets []string) bool {
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && slices.Contains(sockets, to) {
			return true
		}
	}
	return false
}
