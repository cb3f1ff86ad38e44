package process

import (
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// tcpListen is a listening socket's state in /proc/PID/net/tcp: TCP_LISTEN of the
// kernel's include/net/tcp_states.h.
const tcpListen = "0A"

// listening are the TCP addresses on which an instance's processes listen, sorted.
// What cannot be read is left out: this only ever explains a failure.
func (in *instance) listening() []netip.AddrPort {
	l := in.Life()
	if l == nil {
		return nil
	}
	members, err := in.members(l)
	if err != nil {
		return nil
	}
	var all []netip.AddrPort
	for _, m := range members {
		proc := filepath.Join(in.run.config.ProcRoot, strconv.Itoa(m.PID))
		own := sockets(filepath.Join(proc, "fd"))
		for _, table := range []string{"tcp", "tcp6"} {
			text, err := os.ReadFile(filepath.Join(proc, "net", table))
			if err != nil {
				continue
			}
			all = append(all, listeners(string(text), own)...)
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

// sockets are the inodes of the sockets among the open files in a directory fd.
func sockets(fd string) map[string]bool {
	inodes := map[string]bool{}
	files, err := os.ReadDir(fd)
	if err != nil {
		return inodes
	}
	for _, f := range files {
		to, err := os.Readlink(filepath.Join(fd, f.Name()))
		if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// listeners are the addresses in a table of /proc/net that sockets with these
// inodes listen on. Its columns are sl, local_address, rem_address, st, two pairs,
// retrnsmt, uid, timeout and inode (proc_pid_net(5)).
func listeners(table string, inodes map[string]bool) []netip.AddrPort {
	var all []netip.AddrPort
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 10 || fields[3] != tcpListen || !inodes[fields[9]] {
			continue
		}
		if address, ok := tableAddress(fields[1]); ok {
			all = append(all, address)
		}
	}
	return all
}

// tableAddress reads an address as the kernel prints it: 32-bit words in the
// machine's byte order, which is little-endian wherever this program runs, and the
// port.
func tableAddress(text string) (netip.AddrPort, bool) {
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

// Unreachable says where an instance listens that accepts nothing at its address,
// and what to change.
func (in *instance) Unreachable() string {
	const bind = "let it listen on ${BIND_HOST:-0.0.0.0}"
	all := in.listening()
	if len(all) == 0 {
		return ": it listens nowhere; " + bind + ", or give it a healthcheck that says when it is ready"
	}
	texts := make([]string, len(all))
	for i, a := range all {
		texts[i] = a.String()
	}
	text := ": it listens on " + strings.Join(texts, " and ") + "; "
	here := func(a netip.AddrPort) bool { return a.Addr().IsUnspecified() || a.Addr().String() == in.host }
	if i := slices.IndexFunc(all, here); i >= 0 {
		return text + "write ports: [\"" + strconv.Itoa(int(all[i].Port())) + "\"], or let it listen on port " + strconv.Itoa(in.Service.Port)
	}
	return text + bind + " and port " + strconv.Itoa(in.Service.Port) + ", which is " + net.JoinHostPort(in.host, strconv.Itoa(in.Service.Port)) + " here"
}
