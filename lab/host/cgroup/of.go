package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Of opens the group that a process is in, whoever made it: to read it and to
// change its CPU share. The caller closes it, and leaves killing and removing
// to its maker. procRoot is where proc is mounted and sysRoot the root of the
// file system. The error is an *UnavailableError where the group is out of
// sight, as it is from inside a container, and wraps os.ErrNotExist if there is
// no such process.
func Of(procRoot, sysRoot string, pid int) (*Group, error) {
	mountText, err := os.ReadFile(filepath.Join(procRoot, "self", "mountinfo"))
	if err != nil {
		return nil, &UnavailableError{Reason: "cannot see which control groups are mounted", Fix: fixMount, Err: err}
	}
	memberText, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return nil, fmt.Errorf("find the control group of process %d: %w", pid, err)
	}
	d := detector{sysRoot: sysRoot, mounts: parseMountinfo(string(mountText)), members: parseMembership(string(memberText))}
	paths, ok := d.of()
	if !ok {
		return nil, &UnavailableError{
			Reason: fmt.Sprintf("the control group of process %d cannot be seen from here", pid), Fix: fixContainer,
		}
	}
	g, err := open(paths, Limits{})
	if err != nil {
		return nil, fmt.Errorf("open the control group of process %d: %w", pid, err)
	}
	return g, nil
}

// of are the directories of the group that the members name.
func (d *detector) of() (Paths, bool) {
	p := Paths{Version: 1}
	var cpu, acct, memory bool
	p.CPU, cpu = d.inSight("cpu")
	p.CPUAcct, acct = d.inSight("cpuacct")
	p.Memory, memory = d.inSight("memory")
	if cpu && acct && memory {
		return p, true
	}
	dir, ok := d.inSight("")
	return Paths{Version: 2, CPU: dir, CPUAcct: dir, Memory: dir}, ok
}

// inSight is the directory of the members' group in the hierarchy of a version
// 1 controller, or in that of version 2 for none.
func (d *detector) inSight(controller string) (string, bool) {
	for _, member := range d.members {
		if controller == "" && !member.unified || controller != "" && !slices.Contains(member.controllers, controller) {
			continue
		}
		for _, m := range d.mounts {
			if controller == "" && !m.unified || controller != "" && (m.unified || !slices.Contains(m.controllers, controller)) {
				continue
			}
			if rel, inside := m.inMount(member.path); inside {
				return filepath.Join(d.sysRoot, m.point, rel), true
			}
		}
	}
	return "", false
}
