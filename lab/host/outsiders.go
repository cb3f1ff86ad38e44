package host

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/procstat"
)

// Process is one that is no part of the run, with the CPU that it used meanwhile.
type Process struct {
	PID   int     `json:"pid"`
	Name  string  `json:"name"`
	Cores float64 `json:"cores"`
	// Kernel says that it is a thread of the kernel.
	Kernel bool `json:"kernel,omitempty"`
}

const (
	// mostOutsiders is how many are told, and leastOutside how many cores each of them used.
	mostOutsiders = 5
	leastOutside  = 0.02
)

// Outsiders is that of Host. It goes through /proc twice, each time in about a
// millisecond for 100 processes.
//
// What a process waited for and what has ended since counts as its own: compilers come and
// go, and their make stays. Whatever /proc does not show is not told: in a container, what
// runs beside it.
func (l *Local) Outsiders() (since func() []Process) {
	before, at := processes(), time.Now()
	return func() []Process {
		after, passed := processes(), time.Since(at)
		own := map[int]bool{os.Getpid(): true}
		for _, t := range l.targets() {
			for _, id := range t.ids("cgroup.procs", "cgroup.procs") {
				own[id] = true
			}
			own[t.PID] = true
		}
		delete(own, 0) // a target that is ended
		return outsiders(before, after, own, passed)
	}
}

// outsiders are the processes that used most between two looks, the first of them the most.
// own are left out, with all that they started.
func outsiders(before, after map[int]procstat.Stat, own map[int]bool, passed time.Duration) []Process {
	used := make(map[int]time.Duration, len(after))
	for id, p := range after {
		used[id] = spent(p)
		if was, ok := before[id]; ok && was.Start == p.Start {
			used[id] -= spent(was)
		}
	}
	for id, was := range before { // what it had used before is its parent's now, if that waited for it
		if now, ok := after[id]; !ok || now.Start != was.Start {
			used[was.Parent] -= spent(was)
		}
	}
	var out []Process
	for id, p := range after {
		if cores := used[id].Seconds() / passed.Seconds(); cores >= leastOutside && !started(after, own, id) {
			out = append(out, Process{PID: id, Name: p.Name, Cores: cores, Kernel: p.Kernel})
		}
	}
	slices.SortFunc(out, func(a, b Process) int { return cmp.Or(cmp.Compare(b.Cores, a.Cores), cmp.Compare(a.PID, b.PID)) })
	return out[:min(len(out), mostOutsiders)]
}

// started says whether a process is one of own, or one of them started it.
func started(all map[int]procstat.Stat, own map[int]bool, id int) bool {
	for range len(all) + 1 { // no further than there are processes, should ids have been used again
		if own[id] || id == 0 {
			return own[id]
		}
		id = all[id].Parent
	}
	return false
}

// spent is the CPU time of a process and of what it waited for.
func spent(p procstat.Stat) time.Duration { return p.User + p.System + p.Ended }

// processes are all that /proc shows, by id. Those that end meanwhile are left out.
func processes() map[int]procstat.Stat {
	ids := numbers(names("/proc"))
	all := make(map[int]procstat.Stat, len(ids))
	buf := make([]byte, 1<<10) // a line has some 300 bytes
	for _, id := range ids {
		// procstat.Read would make three more system calls for each.
		fd, err := unix.Open("/proc/"+strconv.Itoa(id)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		n, err := unix.Read(fd, buf)
		_ = unix.Close(fd)
		if p, errParse := procstat.Parse(string(buf[:max(n, 0)])); err == nil && errParse == nil {
			all[id] = p
		}
	}
	return all
}
