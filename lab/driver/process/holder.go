package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/sockets"
	"loadstone/lab/topology"
)

// An instance is only measured if it is what answers at its address. A process that
// listens on the same port of every address (0.0.0.0) would answer in its place: one of
// this machine's, or another instance of this run.

// claimPort says who holds the instance's port before the instance has started, which
// then could not listen on it.
func (in *instance) claimPort(ctx context.Context) error {
	if in.Service.Port == 0 || in.space != nil {
		return nil // in a network of its own nobody else can hold it
	}
	in.before = in.atPort()
	// What allows others on its port (SO_REUSEPORT) does not keep the instance off it.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return errors.Join(err, failed)
	}}
	l, err := config.Listen(ctx, "tcp4", net.JoinHostPort(in.host, strconv.Itoa(in.Service.Port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return errors.New(in.heldBy(in.atPort())) // whose it is may have come since
	}
	if err == nil {
		return l.Close()
	}
	return nil // the instance may have rights, or ways, that this program has not
}

// Stranger says who answers at the instance's address in its place; "" if nobody does, or
// it cannot be known.
func (in *instance) Stranger() string {
	if in.space != nil {
		return ""
	}
	all := in.atPort()
	if len(all) == 0 {
		return ""
	}
	own, ok := in.sockets()
	if !ok {
		return ""
	}
	for inode := range all {
		if own[inode] {
			return ""
		}
	}
	// What the instance had start from outside of it, such as a container, listens for it.
	for inode := range all {
		_, before := in.before[inode]
		if !before && in.run.instanceWith(inode) == nil {
			return ""
		}
	}
	return in.heldBy(all)
}

// atPort are the sockets that a connection to the instance may come to, by inode: those of
// its own address or, without any, those of all addresses.
func (in *instance) atPort() map[string]netip.AddrPort {
	exact, wide := map[string]netip.AddrPort{}, map[string]netip.AddrPort{}
	for inode, a := range sockets.Listening(filepath.Join(in.run.config.ProcRoot, "net")) {
		switch {
		case int(a.Port()) != in.Service.Port:
		case a.Addr().String() == in.host:
			exact[inode] = a
		case a.Addr().IsUnspecified():
			wide[inode] = a
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return wide
}

// sockets are the inodes of those that the instance's processes have open. ok is false if
// they cannot be read.
func (in *instance) sockets() (own map[string]bool, ok bool) {
	own = map[string]bool{}
	l := in.Life()
	if l == nil {
		return own, true
	}
	members, err := in.members(l)
	if err != nil {
		return nil, false
	}
	for _, m := range members {
		dir := filepath.Join(in.run.config.ProcRoot, strconv.Itoa(m.PID), "fd")
		if _, err := os.ReadDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			return nil, false
		}
		for inode := range sockets.Open(dir) {
			own[inode] = true
		}
	}
	return own, true
}

// instanceWith is the instance of this run that has a socket open; nil for none.
func (r *Running) instanceWith(inode string) *instance {
	for _, in := range r.instances {
		if own, ok := in.sockets(); ok && own[inode] {
			return in
		}
	}
	return nil
}

// heldBy says whose the sockets are, and what to do about it.
func (in *instance) heldBy(all map[string]netip.AddrPort) string {
	port := in.Service.Port
	inodes := slices.Sorted(maps.Keys(all))
	for _, inode := range inodes {
		if other := in.run.instanceWith(inode); other != nil {
			return fmt.Sprintf("%s has taken its port: it listens on %s, which is every address; let %s listen on ${BIND_HOST:-0.0.0.0}:%d, which is an address of each instance's own%s",
				other.Name, all[inode], other.Service.Name, port, orOwnNetwork())
		}
	}
	if len(inodes) == 0 {
		return fmt.Sprintf("its port %d is taken; have %s listen on another port", port, in.Service.Name)
	}
	return fmt.Sprintf("its port %d is taken by %s, which listens on %s; end that, or have %s listen on another port",
		port, processWith(in.run.config.ProcRoot, inodes[0]), all[inodes[0]], in.Service.Name)
}

// orOwnNetwork is the other way in which programs can share a port, as the end of a
// sentence.
func orOwnNetwork() string {
	if err := networks(); err != nil {
		return ", or run it as it is with the rights to give each instance a network of its own (" + err.Error() + ")"
	}
	return ", or write x-network: " + topology.OwnNetwork + " at the top of the Compose file, and each instance has a network of its own"
}

// processWith names the process that has a socket open, as far as it can be seen.
func processWith(procRoot, inode string) string {
	by, ok := sockets.Holder(procRoot, func(one string) bool { return one == inode })
	if !ok {
		return "a process of another user"
	}
	return fmt.Sprintf("%s (process %d)", by.Name, by.PID)
}
