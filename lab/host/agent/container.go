package agent

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"loadstone/lab/host"
	"loadstone/lab/host/cgroup"
)

// findContainers finds the control groups of containers.
func findContainers(wanted []Wanted) ([]host.Target, []Found, error) {
	ids := make([]string, 0, len(wanted))
	for _, w := range wanted {
		ids = append(ids, w.Container)
	}
	groups, err := cgroup.Containers(wanted[0].Groups, ids)
	if err != nil {
		return nil, nil, err
	}
	targets, found := make([]host.Target, len(wanted)), make([]Found, len(wanted))
	for i, w := range wanted {
		p, ok := groups[w.Container]
		if !ok {
			found[i].Unseen = fmt.Sprintf("no control group of its container %.12s is below %s", w.Container, w.Groups)
			continue
		}
		pids, err := processes(p)
		if err == nil {
			err = found[i].describe(p)
		}
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENODEV), err == nil && len(pids) == 0:
			found[i].Unseen = fmt.Sprintf("no process of its container %.12s can be seen", w.Container)
		case err != nil:
			return nil, nil, err
		default:
			found[i].PID = slices.Min(pids)
			targets[i] = host.Target{Name: w.Name, PID: found[i].PID, Cgroup: p}
		}
	}
	return targets, found, nil
}

// processes are those of a group and of the groups below it.
func processes(p cgroup.Paths) ([]int, error) {
	group, err := cgroup.Open(p)
	if err != nil {
		return nil, err
	}
	pids, err := group.Procs()
	below, errBelow := group.ProcsBelow()
	return append(pids, below...), errors.Join(err, errBelow, group.Close())
}

// Share is the share of the CPU that the kernel holds a target to, in cores; 0 for no limit.
func (c *calls) Share(target string, to *float64) error {
	t, ok := c.a.target(target)
	if !ok {
		return host.ErrUnsupported
	}
	var f Found
	err := f.describe(t.Cgroup)
	*to = f.CPUs
	return err
}

// Signal is to be sent to a target.
type Signal struct {
	Target string
	Signal int
}

// Signalled says how many processes got a signal, and how many of them did not stand still before.
type Signalled struct{ Processes, Moving int }

// Signal sends to all processes of a container.
func (c *calls) Signal(s Signal, to *Signalled) error {
	t, ok := c.a.target(s.Target)
	if !ok || !c.a.maySignal(s.Target) {
		return host.ErrUnsupported
	}
	pids, err := processes(t.Cgroup)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil // they have ended
	}
	if err != nil {
		return err
	}
	for _, pid := range pids {
		state := stateOf(pid)
		if state == "" || state == "Z" || state == "X" || unix.Signal(s.Signal) == unix.SIGSTOP && state == "T" {
			continue
		}
		to.Processes++
		if state != "T" {
			to.Moving++
		}
		if err := unix.Kill(pid, unix.Signal(s.Signal)); err != nil && !errors.Is(err, unix.ESRCH) {
			return os.NewSyscallError("kill", err)
		}
	}
	return nil
}

func (a *agent) maySignal(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.signals[name]
}

func (a *agent) target(name string) (host.Target, bool) {
	all := a.all()
	i := slices.IndexFunc(all, func(t host.Target) bool { return t.Name == name })
	if i < 0 {
		return host.Target{}, false
	}
	return all[i], true
}

// stateOf is the letter of a process's state; empty if it has ended.
func stateOf(pid int) string {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	// The name, in brackets, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}
