package process

import (
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/host/sockets"
)

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
		own := sockets.Open(filepath.Join(proc, "fd"))
		for inode, address := range sockets.Listening(filepath.Join(proc, "net")) {
			if own[inode] {
				all = append(all, address)
			}
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

// Unreachable says where an instance listens that accepts nothing at its address,
// and what to change.
func (in *instance) Unreachable() string {
	bind := "let it listen on ${BIND_HOST:-0.0.0.0}"
	if in.space != nil {
		bind = "let it listen on 0.0.0.0"
	}
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
