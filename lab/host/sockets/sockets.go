// Package sockets reads from /proc who listens on which TCP address, and who is connected
// to whom.
package sockets

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The states of a socket in /proc/net/tcp, of the kernel's include/net/tcp_states.h.
const (
	tcpEstablished = "01"
	tcpListen      = "0A"
)

// Listening are the addresses of the sockets that listen, by the socket's inode.
// dir is /proc/PID/net, or /proc/net for the caller's own network. What cannot be
// read is left out.
func Listening(dir string) map[string]netip.AddrPort {
	all := map[string]netip.AddrPort{}
	for inode, pair := range inState(dir, tcpListen) {
		all[inode] = pair.Local
	}
	return all
}

// Pair are the two addresses of a socket.
type Pair struct{ Local, Remote netip.AddrPort }

// Connected are the addresses of the sockets that are connected, by the socket's inode. dir
// is as for Listening.
func Connected(dir string) map[string]Pair { return inState(dir, tcpEstablished) }

func inState(dir, state string) map[string]Pair {
	all := map[string]Pair{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(filepath.Join(dir, table))
		if err != nil {
			continue // no IPv6, or no right to look
		}
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[3] != state {
				continue
			}
			local, ok := parse(fields[1])
			remote, known := parse(fields[2])
			if ok && (known || state == tcpListen) {
				all[fields[9]] = Pair{local, remote}
			}
		}
	}
	return all
}

// Open are the inodes of the sockets among the open files in dir, which is
// /proc/PID/fd; none of another user's process.
func Open(dir string) map[string]bool {
	inodes := map[string]bool{}
	files, err := os.ReadDir(dir)
	if err != nil {
		return inodes
	}
	for _, f := range files {
		to, err := os.Readlink(filepath.Join(dir, f.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// parse reads an address as the kernel prints it, such as 0100007F:1F90: 32-bit
// words in the machine's byte order, which is little-endian wherever this program
// runs, and the port.
func parse(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(host)
	number, errPort := strconv.ParseUint(port, 16, 16)
	if err != nil || errPort != nil || len(bytes)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	ip, ok := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), ok
}
