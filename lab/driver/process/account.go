package process

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"loadstone/lab/topology"
)

// account is the user that a service runs as.
type account struct {
	credential syscall.Credential
	home       string // empty if unknown
}

// account finds the user of a service. It is nil where the service runs as the
// lab does: because it asks for no user, or because it cannot have the one that
// it asks for, which is worth a warning.
func (r *Running) account(s *topology.Service) *account {
	if s == nil || s.User == "" {
		return nil
	}
	a, err := findAccount(s.User)
	switch {
	case err != nil:
		r.Warnf("service %s: user %s is ignored: %v", s.Name, s.User, err)
	case os.Geteuid() == int(a.credential.Uid):
		return nil
	case os.Geteuid() != 0:
		r.Warnf("service %s: user %s is ignored: only root can start a process as another user", s.Name, s.User)
	default:
		return a
	}
	return nil
}

// findAccount reads user[:group], each a name or a number, as Compose has it.
func findAccount(spec string) (*account, error) {
	name, group, hasGroup := strings.Cut(spec, ":")
	a := &account{}
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.LookupId(name)
	}
	uid, gid := name, "0" // a number needs no entry; its group is 0, as in Docker
	if err == nil {
		a.home, uid, gid = u.HomeDir, u.Uid, u.Gid
	}
	if a.credential.Uid, err = number(uid); err != nil {
		return nil, fmt.Errorf("there is no user %s on this machine", name)
	}
	if a.credential.Gid, err = number(gid); err != nil {
		return nil, err
	}
	if !hasGroup {
		return a, nil
	}
	if g, err := user.LookupGroup(group); err == nil {
		group = g.Gid
	}
	if a.credential.Gid, err = number(group); err != nil {
		return nil, fmt.Errorf("there is no group %s on this machine", group)
	}
	return a, nil
}

func number(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err
}
