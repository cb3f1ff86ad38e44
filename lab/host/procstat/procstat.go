// Package procstat reads /proc/PID/stat (proc(5)), which says of a process what it is, what
// started it and what it has used. It is the only place that knows the order of its fields.
package procstat

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Tick is the unit of CPU time in /proc: USER_HZ is 100 on every architecture that Go runs
// Linux on.
const Tick = 10 * time.Millisecond

// Stat is what is known of a process.
type Stat struct {
	PID    int
	Name   string
	State  byte // R, S, D, T, Z and so on
	Parent int
	Group  int // its process group
	// Kernel says that it is a thread of the kernel.
	Kernel bool
	// Exiting says that it is on its way out, which may take a while: it is in no control group of version 1 any more.
	Exiting bool
	// User and System are its CPU time, and Ended that of the children that it waited for.
	User, System, Ended time.Duration
	// Start is in clock ticks since boot. With it a pid names a process for good.
	Start uint64
	// Resident is in pages.
	Resident int64
}

// Over says whether it has ended, and nobody has waited for it yet.
func (s *Stat) Over() bool { return s.State == 'Z' || s.State == 'X' }

// Stopped says whether it stands still by a signal, until SIGCONT.
func (s *Stat) Stopped() bool { return s.State == 'T' }

// Read reads that of a process. procRoot is where proc is mounted. The error is fs.ErrNotExist
// if there is none.
func Read(procRoot string, pid int) (Stat, error) {
	dir := filepath.Join(procRoot, strconv.Itoa(pid))
	s, err := read(dir)
	if err != nil {
		return Stat{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	if s.Over() {
		s.State = cmp.Or(goingOn(dir), s.State)
	}
	return s, nil
}

func read(dir string) (Stat, error) {
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist // it ended between open and read
	}
	if err != nil {
		return Stat{}, err
	}
	return Parse(string(text))
}

// goingOn is the state of a thread that has not ended; 0 if all have. A process whose first thread has ended is a
// zombie to its stat for as long as others go on.
func goingOn(dir string) byte {
	threads, _ := filepath.Glob(filepath.Join(dir, "task", "*")) // the pattern is good
	for _, thread := range threads {
		if s, err := read(thread); err == nil && !s.Over() {
			return s.State
		}
	}
	return 0
}

// Fields as proc(5) counts them, and what is in them.
const (
	state     = 3 // the first after the name
	parent    = 4
	group     = 5
	flags     = 9
	utime     = 14
	stime     = 15
	cutime    = 16
	cstime    = 17
	starttime = 22
	rss       = 24

	exiting      = 0x00000004 // PF_EXITING
	kernelThread = 0x00200000 // PF_KTHREAD
)

// Parse takes the text of such a file. The name is in parentheses and may hold anything, these
// included, so fields are counted from the last one.
func Parse(text string) (Stat, error) {
	pid, rest, ok := strings.Cut(text, " (")
	end := strings.LastIndexByte(rest, ')')
	if !ok || end < 0 {
		return Stat{}, errors.New("its stat has no name")
	}
	fields := strings.Fields(rest[end+1:])
	if len(fields) <= rss-state || len(fields[0]) != 1 {
		return Stat{}, errors.New("its stat has too few fields")
	}
	var err error
	number := func(at int) int64 {
		n, errParse := strconv.ParseInt(fields[at-state], 10, 64)
		err = errors.Join(err, errParse)
		return n
	}
	spent := func(at int) time.Duration { return time.Duration(number(at)) * Tick }
	s := Stat{
		Name: rest[:end], State: fields[0][0], Parent: int(number(parent)), Group: int(number(group)), Kernel: number(flags)&kernelThread != 0, Exiting: number(flags)&exiting != 0,
		User: spent(utime), System: spent(stime), Ended: spent(cutime) + spent(cstime), Start: uint64(number(starttime)), Resident: number(rss),
	}
	var errPID error
	s.PID, errPID = strconv.Atoi(pid)
	if err = errors.Join(err, errPID); err != nil {
		return Stat{}, fmt.Errorf("its stat: %w", err)
	}
	return s, nil
}
