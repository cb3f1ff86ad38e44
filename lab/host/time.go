package host

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"loadstone/lab/host/cgroup"
)

// MachineTime is the CPU time of all cores since this machine started: in use, and in all.
func MachineTime() (busy, total time.Duration, err error) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	t, err := machineCPU(f)
	return t.busy, t.total, errors.Join(err, f.Close())
}

// Periods counts a control group's scheduler periods with a CPU quota.
type Periods struct {
	All       uint64
	Throttled uint64 // in which the quota was used up
}

// Quotas are the periods of the control groups that a process is in, its own and those
// above it as far as they are in sight, by directory: a quota of any of them stops it.
// There are none where control groups cannot be seen.
func Quotas(pid int) map[string]Periods {
	group, err := cgroup.Of("/proc", "/", pid)
	if err != nil {
		return nil
	}
	defer group.Close() //nolint:errcheck // only its place is wanted
	return quotas(group.Paths().CPU)
}

func quotas(dir string) map[string]Periods {
	out := make(map[string]Periods)
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
		if err != nil {
			return out
		}
		out[dir] = parsePeriods(string(text))
	}
}

// parsePeriods reads cpu.stat, in which both versions of control groups have the same
// names for these.
func parsePeriods(text string) (p Periods) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(value, 10, 64)
		switch {
		case err != nil:
		case name == "nr_periods":
			p.All = n
		case name == "nr_throttled":
			p.Throttled = n
		}
	}
	return p
}

// Throttled is the share of the periods between two readings in which the quota was used
// up, of the group that it stopped most.
func Throttled(before, after map[string]Periods) (share float64) {
	for dir, b := range after {
		a, ok := before[dir]
		if ok && b.All > a.All && b.Throttled >= a.Throttled {
			share = max(share, float64(b.Throttled-a.Throttled)/float64(b.All-a.All))
		}
	}
	return share
}
