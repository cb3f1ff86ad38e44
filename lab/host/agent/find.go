package agent

import (
	"cmp"
	"encoding/hex"
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
	"loadstone/lab/host/procstat"
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
			if _, err := found[i].describe(targets[i].Cgroup); err != nil {
				return nil, nil, err
			}
		}
	}
	return targets, found, nil
}

// shared is the note of an instance whose control group has others in it.
const shared = "it shares its control group with others: only the CPU time of its own process is read, in steps of 10 ms, and neither throttled nor limited"

// describe describes a control group, and says which processes are in it and below it.
func (f *Found) describe(p cgroup.Paths) (pids []int, err error) {
	if f.Version = p.Version; p.Version == 0 {
		return nil, nil
	}
	group, err := cgroup.Open(p)
	if err != nil {
		return nil, err
	}
	share, err := group.CPU()
	if share != nil {
		f.CPUs = share.Cores
	}
	pids, errPIDs := group.AllProcs()
	return pids, errors.Join(err, errPIDs, group.Close())
}

// machine is what was seen of the processes of a machine.
type machine struct {
	procRoot string
	pids     []int
	parents  map[int]int
	own      string         // the network name space of this process
	spaces   map[string]int // a process in each of them
	// What is looked up when it is asked for, once: a node may have a hundred instances that are asked
	// for, and as many name spaces.
	addresses map[int]map[netip.Addr]bool       // of a name space, by the process in it
	listening map[int]map[string]netip.AddrPort // there, by inode
	holders   map[string]int                    // by inode: the first process that has it open
}

func look(procRoot string) (*machine, error) {
	entries, err := os.ReadDir(procRoot)
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	m := &machine{
		procRoot: procRoot, parents: map[int]int{}, spaces: map[string]int{},
		addresses: map[int]map[netip.Addr]bool{}, listening: map[int]map[string]netip.AddrPort{},
	}
	if m.own, err = os.Readlink(filepath.Join(procRoot, "self", "ns", "net")); err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		m.pids = append(m.pids, pid)
		m.parents[pid] = parentOf(procRoot, pid)
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

// parentOf is a process's parent; 0 if it has ended.
func parentOf(procRoot string, pid int) int {
	s, _ := procstat.Read(procRoot, pid) // empty then
	return s.Parent
}

// listener is the process that a connection to an address comes to, or why none can be
// said to be. Its limits may be changed, so it is never a guess: every name space has a
// loopback address, so that is the one of this process's own; and another address is looked
// for there first, since it may be that of containers in several others.
func (m *machine) listener(address string) (pid int, why string) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return 0, fmt.Sprintf("%s is no IP address with a port; only who listens on such a one can be found", address)
	}
	at = netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	if m.has(m.spaces[m.own], at.Addr()) {
		if pid := m.listenerIn(m.spaces[m.own], at); pid != 0 {
			return m.checked(pid)
		}
		return 0, unseen(address)
	}
	var found []int
	local := false
	for space, one := range m.spaces {
		if space == m.own || at.Addr().IsLoopback() || !m.has(one, at.Addr()) {
			continue
		}
		local = true
		if pid := m.listenerIn(one, at); pid != 0 {
			found = append(found, pid)
		}
	}
	switch {
	case !local:
		return 0, "this is not a machine that has the address " + at.Addr().String()
	case len(found) == 0:
		return 0, unseen(address)
	case len(found) > 1:
		slices.Sort(found)
		return 0, fmt.Sprintf("processes %v listen on %s, each in a network of its own, and which of them is meant cannot be told", found, address)
	}
	return m.checked(found[0])
}

func unseen(address string) string {
	return "nobody that can be seen listens on " + address + "; the agent has to run as root, or as the user of the process"
}

// listenerIn is the process that listens on an address in the network name space of another
// one; 0 if none can be seen. Who listens on the very address gets a connection before who
// listens on all of them, and of the latter who does so in its family.
func (m *machine) listenerIn(one int, at netip.AddrPort) int {
	const ways = 3
	var found [ways]int
	if m.listening[one] == nil {
		m.listening[one] = sockets.Listening(m.file(one, "net"))
	}
	for inode, a := range m.listening[one] {
		way := 0
		switch {
		case a.Port() != at.Port():
			continue
		case a.Addr() == at.Addr():
		case a.Addr().IsUnspecified() && a.Addr().Is4() == at.Addr().Is4():
			way = 1
		case a.Addr().IsUnspecified() && at.Addr().Is4():
			way = 2
		default:
			continue
		}
		// Of several that share a port, the first.
		if pid := m.holder(inode); pid != 0 && (found[way] == 0 || pid < found[way]) {
			found[way] = pid
		}
	}
	return cmp.Or(found[:]...)
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
	if a.IsLoopback() {
		return true
	}
	if m.addresses[pid] == nil {
		m.addresses[pid] = addressesOf(m.file(pid, "net"))
	}
	return m.addresses[pid][a]
}

// addressesOf are those of a name space, of which dir is a process's directory net.
func addressesOf(dir string) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	text, _ := os.ReadFile(filepath.Join(dir, "fib_trie")) // there are none if it has ended
	for _, match := range localAddress.FindAllStringSubmatch(string(text), -1) {
		if a, err := netip.ParseAddr(match[1]); err == nil {
			all[a] = true
		}
	}
	text, _ = os.ReadFile(filepath.Join(dir, "if_inet6")) // nor is it there without IPv6
	for line := range strings.Lines(string(text)) {
		digits, _, _ := strings.Cut(line, " ") // then its interface
		if b, err := hex.DecodeString(digits); err == nil && len(b) == 16 {
			all[netip.AddrFrom16([16]byte(b))] = true
		}
	}
	return all
}

// holder is the process that has a socket open, the first of those that share it; 0 if
// none can be seen.
func (m *machine) holder(inode string) int {
	if m.holders == nil {
		m.holders = map[string]int{}
		for _, pid := range m.pids {
			for open := range sockets.Open(m.file(pid, "fd")) {
				if m.holders[open] == 0 {
					m.holders[open] = pid
				}
			}
		}
	}
	return m.holders[inode]
}

// ownGroup is the control group of a process if nothing is in it but what it belongs to:
// the first of its ancestors that is in the group, all that descends from that, and what is in
// the same container.
func (m *machine) ownGroup(sysRoot string, pid int) (cgroup.Paths, string, error) {
	group, err := cgroup.Of(m.procRoot, sysRoot, pid)
	if _, ok := errors.AsType[*cgroup.UnavailableError](err); ok {
		return cgroup.Paths{}, shared, nil
	}
	if err != nil {
		return cgroup.Paths{}, "", err
	}
	members, err := group.Procs()
	below, errBelow := group.ProcsBelow()
	if err = errors.Join(err, errBelow, group.Close()); err != nil {
		return cgroup.Paths{}, "", err
	}
	first := pid
	for range members { // no further, should ids have been used again while they were read
		if parent := m.parents[first]; parent > 1 && slices.Contains(members, parent) {
			first = parent
		}
	}
	for _, member := range append(members, below...) {
		if _, known := m.parents[member]; !known {
			// It started meanwhile, and may have ended again.
			if m.parents[member] = parentOf(m.procRoot, member); m.parents[member] == 0 {
				continue
			}
		}
		if !m.descends(member, first) && !m.together(member, first) {
			return cgroup.Paths{}, shared, nil
		}
	}
	return group.Paths(), "", nil
}

// together says whether two processes are in one container: in a pid name space that is not
// this program's own. What `docker exec` starts there, such as a health check, descends from
// nobody in it.
func (m *machine) together(pid, other int) bool {
	space := func(of string) string {
		to, err := os.Readlink(filepath.Join(m.procRoot, of, "ns", "pid"))
		if err != nil {
			return ""
		}
		return to
	}
	at := space(strconv.Itoa(other))
	return at != "" && at == space(strconv.Itoa(pid)) && at != space("self")
}

func (m *machine) descends(pid, from int) bool {
	for range len(m.parents) { // as above
		if pid == from || pid <= 1 {
			break
		}
		pid = m.parents[pid]
	}
	return pid == from
}
