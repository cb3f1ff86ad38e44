package publish

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"

	"loadstone/lab/driver/guardian"
	"loadstone/lab/host/sockets"
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

// DescendsFrom says whether the holder is a process or was started by it, if only through
// others that still run.
func (h *Holder) DescendsFrom(pid int) bool {
	for at := h.PID; at > 1; at = guardian.Parent(procRoot, at) {
		if at == pid {
			return true
		}
	}
	return false
}

func (e *TakenError) Error() string {
	who := "by a process of another user, or of another container"
	if e.Holder != nil {
		who = fmt.Sprintf("by %s (pid %d)", e.Holder.Program, e.Holder.PID)
	}
	return fmt.Sprintf("port %d of %s is taken %s; stop that, or publish another port", e.Address.Port(), e.Address.Addr(), who)
}

func (e *TakenError) Unwrap() error { return e.cause }

const procRoot = "/proc"

// WhoHolds is who listens where address cannot be bound: at it, at all addresses,
// or at any if address is all. It is nil if it is not known.
func WhoHolds(address netip.AddrPort) *Holder {
	taken := sockets.Listening(filepath.Join(procRoot, "net"))
	maps.DeleteFunc(taken, func(_ string, local netip.AddrPort) bool {
		same := local.Addr() == address.Addr() || local.Addr().IsUnspecified() || address.Addr().IsUnspecified()
		return local.Port() != address.Port() || !same
	})
	if len(taken) == 0 {
		return nil
	}
	by, ok := sockets.Holder(procRoot, func(inode string) bool { return taken[inode].IsValid() })
	if !ok {
		return nil
	}
	return &Holder{PID: by.PID, Program: by.Name}
}
