package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/procstat"
)

// Members are processes of a group and of the groups below it. Each is held by a file
// descriptor, so that a signal reaches that process or nobody, also when its pid has passed on to
// another one. The caller closes them.
type Members []member

type member struct{ pid, fd int }

// mostOpen is how many processes are held at a time where each is needed for a moment alone: a
// container may have more of them than there are file descriptors.
const mostOpen = 256

// Members are the processes that are in the group or below it now, without this one.
func (g *Group) Members() (Members, error) {
	pids, err := g.AllProcs()
	if err != nil {
		return nil, err
	}
	return g.members(pids)
}

// members are those of the processes with some pids that are in the group or below it.
func (g *Group) members(pids []int) (Members, error) { return hold(pids, g.AllProcs) }

// hold opens those of the processes with some pids that are still named when all are listed once more.
//
// A pid is only a number once it has been read: the process may have ended, and another one may
// have it. So all are opened first, and then those are left out that the list does
// not name: what was open before and is named after is in the group, or has ended since. A
// kernel before 5.3 cannot open processes; there a pid that passes on just then is not noticed.
func hold(pids []int, list func() ([]int, error)) (Members, error) {
	m, err := openAll(pids)
	var there []int
	if err == nil && len(m) > 0 {
		there, err = list()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m.keep(there), nil
}

// AllProcs are the ids of the processes in the group and in the groups below it, sorted.
func (g *Group) AllProcs() ([]int, error) {
	pids, err := g.Procs()
	below, errBelow := g.ProcsBelow()
	pids = append(pids, below...)
	slices.Sort(pids)
	return slices.Compact(pids), errors.Join(err, errBelow)
}

// openAll opens those that have not ended.
func openAll(pids []int) (m Members, err error) {
	for _, pid := range pids {
		// 0 stands for a process of another pid name space, and would be this one's process
		// group. 1 is never in a group of ours.
		if pid <= 1 || pid == os.Getpid() {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case errors.Is(err, unix.ESRCH):
			continue
		case errors.Is(err, unix.ENOSYS):
			fd = -1
		case err != nil:
			return m, fmt.Errorf("open process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
		}
		m = append(m, member{pid, fd})
	}
	return m, nil
}

// keep closes all but those with some pids.
func (m Members) keep(pids []int) (kept Members) {
	for _, p := range m {
		if slices.Contains(pids, p.pid) {
			kept = append(kept, p)
		} else {
			p.close()
		}
	}
	return kept
}

// Signal sends to all of them. Those that have ended need none.
func (m Members) Signal(s unix.Signal) error {
	var errs []error
	for _, p := range m {
		_, err := p.signal(s)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// signal says whether the process was there to get it.
func (p member) signal(s unix.Signal) (bool, error) {
	name, err := "pidfd_send_signal", error(nil)
	if p.fd >= 0 {
		err = unix.PidfdSendSignal(p.fd, s, nil, 0)
	} else {
		name, err = "kill", unix.Kill(p.pid, s)
	}
	switch {
	case errors.Is(err, unix.ESRCH):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("signal process %d: %w", p.pid, os.NewSyscallError(name, err))
	}
	return true, nil
}

func (p member) close() {
	if p.fd >= 0 {
		_ = unix.Close(p.fd) // nothing was written
	}
}

// Close lets go of them.
func (m Members) Close() {
	for _, p := range m {
		p.close()
	}
}

// Signalled says how many processes got a signal, and how many of them did not stand still before.
type Signalled struct{ Processes, Moving int }

// Signal sends to the processes that are in the group and below it now. Those that stand still
// are not stopped again.
func (g *Group) Signal(s unix.Signal) (to Signalled, err error) {
	pids, err := g.AllProcs()
	errs := []error{err}
	for part := range slices.Chunk(pids, mostOpen) {
		m, err := g.members(part)
		errs = append(errs, err)
		for _, p := range m {
			errs = append(errs, to.send(p, s))
		}
		m.Close()
	}
	return to, errors.Join(errs...)
}

func (to *Signalled) send(p member, s unix.Signal) error {
	stat, err := procstat.Read("/proc", p.pid)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (stat.Over() || s == unix.SIGSTOP && stat.Stopped()) {
		return nil
	}
	got := false
	if err == nil {
		got, err = p.signal(s)
	}
	if got {
		to.Processes++
	}
	if got && !stat.Stopped() {
		to.Moving++
	}
	return err
}
