package host

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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
func outsiders(before, after map[int]process, own map[int]bool, passed time.Duration) []Process {
	used := make(map[int]time.Duration, len(after))
	for id, p := range after {
		used[id] = p.cpu + p.ended
		if was, ok := before[id]; ok && was.started == p.started {
			used[id] -= was.cpu + was.ended
		}
	}
	for id, was := range before { // what it had used before is its parent's now, if that waited for it
		if now, ok := after[id]; !ok || now.started != was.started {
			used[was.parent] -= was.cpu + was.ended
		}
	}
	var out []Process
	for id, p := range after {
		if cores := used[id].Seconds() / passed.Seconds(); cores >= leastOutside && !started(after, own, id) {
			out = append(out, Process{PID: id, Name: p.name, Cores: cores, Kernel: p.kernel})
		}
	}
	slices.SortFunc(out, func(a, b Process) int { return cmp.Or(cmp.Compare(b.Cores, a.Cores), cmp.Compare(a.PID, b.PID)) })
	return out[:min(len(out), mostOutsiders)]
}

// started says whether a process is one of own, or one of them started it.
func started(all map[int]process, own map[int]bool, id int) bool {
	for range len(all) + 1 { // no further than there are processes, should ids have been used again
		if own[id] || id == 0 {
			return own[id]
		}
		id = all[id].parent
	}
	return false
}

// process is what a line of /proc/PID/stat says.
type process struct {
	name    string
	parent  int
	started uint64 // tells it from another one of the same id
	kernel  bool
	cpu     time.Duration
	ended   time.Duration // CPU time of children that it waited for
}

// processes are all that /proc shows, by id. Those that end meanwhile are left out.
func processes() map[int]process {
	ids := numbers(names("/proc"))
	all := make(map[int]process, len(ids))
	buf := make([]byte, 1<<10) // a line has some 300 bytes
	for _, id := range ids {
		// os.ReadFile would make three more system calls for each.
		fd, err := unix.Open("/proc/"+strconv.Itoa(id)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		n, err := unix.Read(fd, buf)
		_ = unix.Close(fd)
		if p, ok := parseStat(string(buf[:max(n, 0)])); err == nil && ok {
			all[id] = p
		}
	}
	return all
}

// parseStat takes the text of /proc/PID/stat (proc(5)); see parseProcess for the name in it.
func parseStat(text string) (p process, ok bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	fields := strings.Fields(text[end+1:])
	const first, parent, flags, utime, cutime, starttime = 3, 4, 9, 14, 16, 22 // fields as proc(5) counts them
	if len(fields) <= starttime-first {
		return process{}, false
	}
	number := func(at int) uint64 {
		n, err := strconv.ParseUint(fields[at-first], 10, 64)
		ok = ok && err == nil
		return n
	}
	spent := func(at int) time.Duration { return time.Duration(number(at)+number(at+1)) * tick } // as a user and in the kernel
	const kernelThread = 0x00200000                                                              // PF_KTHREAD
	ok = true
	p = process{
		name: text[open+1 : end], parent: int(number(parent)), started: number(starttime),
		kernel: number(flags)&kernelThread != 0, cpu: spent(utime), ended: spent(cutime),
	}
	return p, ok
}
