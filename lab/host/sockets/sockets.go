// Package sockets reads from /proc who listens on which TCP address, and who is connected
// to whom.
package sockets

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/host/procstat"
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
	listening, _ := Tables(dir)
	return listening
}

// Pair are the two addresses of a socket.
type Pair struct{ Local, Remote netip.AddrPort }

// Tables are the addresses of the sockets that listen and of those that are connected, by the
// socket's inode. dir is as for Listening.
func Tables(dir string) (listening map[string]netip.AddrPort, connected map[string]Pair) {
	listening, connected = map[string]netip.AddrPort{}, map[string]Pair{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := read(filepath.Join(dir, table))
		if err != nil {
			continue // no IPv6, or no right to look
		}
		for line := range bytes.Lines(text) {
			// Most lines may be of connections that are over.
			if !bytes.Contains(line, []byte(" "+tcpEstablished+" ")) && !bytes.Contains(line, []byte(" "+tcpListen+" ")) {
				continue
			}
			// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
			fields := strings.Fields(string(line))
			if len(fields) < 10 {
				continue
			}
			local, ok := parse(fields[1])
			remote, known := parse(fields[2])
			switch inode := fields[9]; {
			case ok && fields[3] == tcpListen:
				listening[inode] = local
			case ok && known && fields[3] == tcpEstablished:
				connected[inode] = Pair{local, remote}
			}
		}
	}
	return listening, connected
}

// read is a whole file that does not say how long it is. Of a thousand connections it is 150 KB.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var text bytes.Buffer
	text.Grow(64 << 10)
	_, err = text.ReadFrom(f)
	return text.Bytes(), err
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

// Holder is the process that has one of those sockets open; false if it cannot be seen, as one
// of another user. Of several it is the one that began first: who starts a program has a child
// for a moment that has all that it has.
func Holder(procRoot string, one func(inode string) bool) (first procstat.Stat, ok bool) {
	dirs, err := os.ReadDir(procRoot)
	if err != nil {
		return first, false
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(dir.Name())
		if err != nil {
			continue
		}
		for inode := range Open(filepath.Join(procRoot, dir.Name(), "fd")) {
			if !one(inode) {
				continue
			}
			if s, err := procstat.Read(procRoot, pid); err == nil && (!ok || s.Start < first.Start || s.Start == first.Start && s.PID < first.PID) {
				first, ok = s, true
			}
			break
		}
	}
	return first, ok
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
