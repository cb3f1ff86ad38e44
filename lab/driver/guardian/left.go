package guardian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/block/pause"
	"loadstone/lab/host/cgroup"
	"loadstone/lab/host/procstat"
)

// MarkVariable is the environment variable that carries the mark of a run.
const MarkVariable = "LOADSTONE_RUN"

const (
	// scanWithin bounds the wait for killed processes; as for control groups,
	// only one that waits for a disk takes more than milliseconds.
	scanWithin = 10 * time.Second
	scanPause  = 10 * time.Millisecond
)

// Process names a process for good: its pid may be in use again, but not with
// the same start time.
type Process struct {
	PID int `json:"pid"`
	// Start is field 22 of /proc/PID/stat: clock ticks since boot.
	Start uint64 `json:"start"`
}

// Left is what a lab may have left behind.
type Left struct {
	Cgroups  []cgroup.Paths
	Groups   []Process // process groups, by their leader
	Mark     string    // empty for none
	Removals []Command // run once the processes are gone
	Dirs     []string  // directories, removed last
	ProcRoot string    // where proc is mounted
}

// removable says whether a directory is one that a lab makes for its run: the
// last defence against removing anything else.
func removable(dir string) bool {
	return filepath.IsAbs(dir) && filepath.Clean(dir) == dir && strings.HasPrefix(filepath.Base(dir), "loadstone-")
}

func (l *Left) removeDirs() error {
	var errs []error
	for _, dir := range l.Dirs {
		if !removable(dir) {
			errs = append(errs, fmt.Errorf("%s is not removed: it is no directory of a run", dir))
			continue
		}
		errs = append(errs, removeAll(dir))
	}
	return errors.Join(errs...)
}

// removeAll tries again: a process that is not in a group may just be ending,
// and make another file.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	for deadline := time.Now().Add(time.Second); err != nil && time.Now().Before(deadline); err = os.RemoveAll(dir) {
		<-time.After(scanPause)
	}
	return err
}

// Clean kills all of it, waits until it is gone and removes the control groups
// and directories.
// What is gone already is no error.
func (l *Left) Clean(ctx context.Context) error {
	var errs []error
	for _, p := range l.Cgroups {
		errs = append(errs, cgroup.Destroy(ctx, p))
	}
	scan, cancel := context.WithTimeout(ctx, scanWithin)
	defer cancel()
	for {
		found, err := l.killFound()
		if err != nil || len(found) == 0 {
			return errors.Join(append(errs, err, l.runRemovals(ctx), l.removeDirs())...)
		}
		if !pause.For(scan, scanPause) {
			return errors.Join(append(errs, fmt.Errorf("processes %v do not end: %w", found, scan.Err()))...)
		}
	}
}

// killFound sends SIGKILL to every process that is left and returns which they
// were.
func (l *Left) killFound() ([]int, error) {
	if len(l.Groups) == 0 && l.Mark == "" {
		return nil, nil
	}
	all, err := processes(l.ProcRoot)
	if err != nil {
		return nil, err
	}
	var found []int
	for i := range all {
		s := &all[i]
		if s.Over() || s.PID <= 1 || s.PID == os.Getpid() || !l.inGroup(s, all) && !l.marked(s.PID) {
			continue
		}
		found = append(found, s.PID)
		if err := unix.Kill(s.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return found, fmt.Errorf("kill process %d: %w", s.PID, err)
		}
	}
	return found, nil
}

// inGroup says whether the process is in one of the groups. As long as a group
// has members its number is not given to a new process, so a member that is
// younger than the leader belongs to it, unless the leader's pid is now that
// of another process.
func (l *Left) inGroup(s *procstat.Stat, all []procstat.Stat) bool {
	return slices.ContainsFunc(l.Groups, func(g Process) bool {
		if g.PID <= 1 || s.Group != g.PID || s.Start < g.Start {
			return false
		}
		i := slices.IndexFunc(all, func(o procstat.Stat) bool { return o.PID == g.PID })
		return i < 0 || all[i].Start == g.Start
	})
}

// marked says whether the process carries the mark. One that may not be looked
// at is somebody else's.
func (l *Left) marked(pid int) bool {
	if l.Mark == "" {
		return false
	}
	environ, err := os.ReadFile(filepath.Join(l.ProcRoot, strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	want := []byte(MarkVariable + "=" + l.Mark)
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(entry, want) {
			return true
		}
	}
	return false
}

// Identify names the process that has a pid now. Its error is fs.ErrNotExist
// if there is none.
func Identify(procRoot string, pid int) (Process, error) {
	s, err := procstat.Read(procRoot, pid)
	return identity(&s), err
}

// Parent is the process that started one; 0 if that is not known.
func Parent(procRoot string, pid int) int {
	s, _ := procstat.Read(procRoot, pid) // empty then
	return s.Parent
}

// Alive says whether a process still runs. One that has ended and was not
// waited for does not.
func (p Process) Alive(procRoot string) bool {
	s, err := procstat.Read(procRoot, p.PID)
	return err == nil && s.Start == p.Start && !s.Over()
}

func processes(procRoot string) ([]procstat.Stat, error) {
	entries, err := os.ReadDir(procRoot)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []procstat.Stat
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := procstat.Read(procRoot, pid); err == nil { // else it has just ended
			all = append(all, s)
		}
	}
	return all, nil
}

func identity(s *procstat.Stat) Process { return Process{PID: s.PID, Start: s.Start} }
