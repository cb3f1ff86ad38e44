package agent

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/sockets"
)

// find finds who listens on the addresses of instances, in all network name spaces of this
// machine that can be looked into.
func find(procRoot, sysRoot string, wanted []Wanted) ([]host.Target, []Found, error) {
	m, err := look(procRoot)
	if err != nil {
		return nil, nil, err
	}
	targets, found := make([]host.Target, len(wanted)), make([]Found, len(wanted))
	groups := map[string][]int{} // by directory: which instances are in it
	for i, w := range wanted {
		targets[i].Name = w.Name
		pid, why := m.listener(w.Address)
		if found[i].PID = pid; why != "" {
			found[i].Unseen = why
			continue
		}
		targets[i].PID = pid
		targets[i].Cgroup, found[i].Note, err = m.ownGroup(sysRoot, pid)
		if err != nil {
			return nil, nil, err
		}
		if dir := targets[i].Cgroup.CPU; dir != "" {
			groups[dir] = append(groups[dir], i)
		}
	}
	for _, members := range groups {
		for _, i := range members {
			if len(members) > 1 {
				targets[i].Cgroup, found[i].Note = cgroup.Paths{}, shared
			}
		}
	}
	for i := range wanted {
		if found[i].Unseen == "" {
			if err := found[i].describe(targets[i].Cgroup); err != nil {
				return nil, nil, err
			}
		}
	}
	return targets, found, nil
}

// shared is the note of an instance whose control group has others in it.
const shared = "it shares its control group with others: only the CPU time of its own process is read, in steps of 10 ms, and neither throttled nor limited"

func (f *Found) describe(p cgroup.Paths) error {
	if f.Version = p.Version; p.Version == 0 {
		return nil
	}
	group, err := cgroup.Open(p)
	if err != nil {
		return err
	}
	share, err := group.CPU()
	if share != nil {
		f.CPUs = share.Cores
	}
	return errors.Join(err, group.Close())
}

// machine is what was seen of the processes of a machine.
type machine struct {
	procRoot string
	pids     []int
	parents  map[int]int
	spaces   map[string]int // a process in each network name space
}

func look(procRoot string) (*machine, error) {
	entries, err := os.ReadDir(procRoot)
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	m := &machine{procRoot: procRoot, parents: map[int]int{}, spaces: map[string]int{}}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		m.pids = append(m.pids, pid)
		m.parents[pid] = m.parent(pid)
		if space, err := os.Readlink(m.file(pid, "ns/net")); err == nil && m.spaces[space] == 0 {
			m.spaces[space] = pid
		}
	}
	slices.Sort(m.pids)
	return m, nil
}

func (m *machine) file(pid int, name string) string {
	return filepath.Join(m.procRoot, strconv.Itoa(pid), name)
}

// parent is the process's parent; 0 if it has ended.
func (m *machine) parent(pid int) int {
	text, err := os.ReadFile(m.file(pid, "stat"))
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(fields[1]) // 0 for what is no number
	return n
}

// listener is the first process that listens on an address, or why there is none.
func (m *machine) listener(address string) (pid int, why string) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, fmt.Sprintf("%s is no IP address with a port; only who listens on such a one can be found", address)
	}
	local := false
	for _, one := range m.spaces {
		if !at.Addr().IsLoopback() && !m.has(one, at.Addr()) {
			continue
		}
		local = true
		for inode, a := range sockets.Listening(m.file(one, "net")) {
			if a.Port() != at.Port() || a.Addr() != at.Addr() && !a.Addr().IsUnspecified() {
				continue
			}
			if pid := m.holder(inode); pid != 0 {
				return m.checked(pid)
			}
		}
	}
	if !local {
		return 0, "this is not a machine that has the address " + at.Addr().String()
	}
	return 0, "nobody that can be seen listens on " + address + "; the agent has to run as root, or as the user of the process"
}

// checked says why a process stands for another one, which is the instance.
func (m *machine) checked(pid int) (int, string) {
	name, _ := os.ReadFile(m.file(pid, "comm")) // it may have ended
	if strings.TrimSpace(string(name)) == "docker-proxy" {
		return 0, "docker-proxy listens there for a container; write the container's own address in place of the published one"
	}
	return pid, ""
}

// localAddress finds the addresses of a name space in its fib_trie.
var localAddress = regexp.MustCompile(`\|-- (\S+)\n\s+/32 host LOCAL`)

// has says whether the network name space of a process has an address.
func (m *machine) has(pid int, a netip.Addr) bool {
	text, err := os.ReadFile(m.file(pid, "net/fib_trie"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(localAddress.FindAllStringSubmatch(string(text), -1), func(match []string) bool { return match[1] == a.String() })
}

// holder is the process that has a socket open, the first of those that share it; 0 if
// none can be seen.
func (m *machine) holder(inode string) int {
	for _, pid := range m.pids {
		if sockets.Open(m.file(pid, "fd"))[inode] {
			return pid
		}
	}
	return 0
}

// ownGroup is the control group of a process if nothing is in it but what it belongs to:
// the first of its ancestors that is in the group, and all that descends from that.
func (m *machine) ownGroup(sysRoot string, pid int) (cgroup.Paths, string, error) {
	group, err := cgroup.Of(m.procRoot, sysRoot, pid)
	if _, ok := errors.AsType[*cgroup.UnavailableError](err); ok {
		return cgroup.Paths{}, shared, nil
	}
	if err != nil {
		return cgroup.Paths{}, "", err
	}
	members, err := group.Procs()
	if err = errors.Join(err, group.Close()); err != nil {
		return cgroup.Paths{}, "", err
	}
	first := pid
	for parent := m.parents[first]; parent > 1 && slices.Contains(members, parent); parent = m.parents[first] {
		first = parent
	}
	for _, member := range members {
		if !m.descends(member, first) {
			return cgroup.Paths{}, shared, nil
		}
	}
	return group.Paths(), "", nil
}

func (m *machine) descends(pid, from int) bool {
	for ; pid > 1; pid = m.parents[pid] {
		if pid == from {
			return true
		}
	}
	return pid == from
}
