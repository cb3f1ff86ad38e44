// Package cgroup puts processes into Linux control groups, limits their CPU
// and memory there, reads what they used, and kills whatever is left in them.
//
// It speaks version 1 (separate hierarchies for cpu, cpuacct and memory) and
// version 2 (one hierarchy) behind the same few functions: Detect finds out
// which of them this machine gives and where a group may be made, Tree.Create
// makes one, and a Group limits, reads, kills and removes. It is not a
// container runtime: no namespaces, no devices, no I/O limits.
//
// Who owns what: the caller owns the groups that it creates and removes them.
// A group outlives the process that made it, so whoever makes groups should
// also arrange for Destroy to be called when that process dies early.
package cgroup

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The periods over which the kernel hands out a CPU quota.
const (
	// DefaultPeriod is shorter than the kernel's and Docker's 100 ms, so that a
	// share of a CPU behaves like a slower machine. With a quarter of a CPU, a
	// process that is out of quota waits up to 15 ms; with 100 ms it would be
	// up to 75 ms, and those waits, not the work, would be the p95. The cost
	// is five times as many refills of the quota, which one timer each does.
	DefaultPeriod = 20 * time.Millisecond

	// The kernel's bounds: max_cfs_quota_period and min_cfs_quota_period.
	minQuota  = time.Millisecond
	maxPeriod = time.Second
)

// Limits bound a group. A nil field is no limit.
type Limits struct {
	CPU    *CPU
	Memory *uint64 // bytes; swap is not added on top
}

// CPU is a share of CPU time.
type CPU struct {
	Cores  float64       // in cores: 0.25 is a quarter of one
	Period time.Duration // over which the share is handed out
}

// Cores is a share of n cores over DefaultPeriod.
func Cores(n float64) *CPU { return &CPU{Cores: n, Period: DefaultPeriod} }

// quota returns the quota and the period in whole microseconds. A share so
// small that its quota would be below the kernel's least (1 ms) gets a longer
// period instead, so that the share stays what it is.
func (c CPU) quota() (quota, period int64, err error) {
	if !(c.Cores > 0) || math.IsInf(c.Cores, 0) {
		return 0, 0, fmt.Errorf("a CPU share of %v cores: it must be above 0", c.Cores)
	}
	p := min(max(c.Period, minQuota), maxPeriod)
	if c.Cores*float64(p) < float64(minQuota) {
		p = time.Duration(math.Ceil(float64(minQuota)/c.Cores/float64(time.Microsecond))) * time.Microsecond
	}
	if p > maxPeriod || p <= 0 {
		return 0, 0, fmt.Errorf("a CPU share of %v cores: the kernel's least is 0.001", c.Cores)
	}
	period = p.Microseconds()
	return int64(math.Round(c.Cores * float64(period))), period, nil
}

// Stat is what the processes of a group used since the group was made.
// Processes that have ended are included.
type Stat struct {
	CPU    time.Duration // user and system together
	User   time.Duration
	System time.Duration

	// Periods in which the group wanted CPU, and those of them in which it ran
	// out of quota; Throttled is how long its CPUs stood still for that, summed
	// over CPUs. All are 0 for a group without a CPU limit.
	Periods          uint64
	ThrottledPeriods uint64
	Throttled        time.Duration

	// Memory in bytes, page cache included. Where the kernel keeps no peak
	// (version 2 before Linux 5.19), MemoryPeak is the highest that Read saw.
	Memory     uint64
	MemoryPeak uint64
	// OOMKills is how many processes the kernel killed because the group had
	// used up its memory.
	OOMKills uint64
}

// Paths are the directories of one group. In version 2 all three are the same.
// They are plain data, so that another process can be told to Destroy them.
type Paths struct {
	Version int    `json:"version"` // 1 or 2
	CPU     string `json:"cpu"`
	CPUAcct string `json:"cpuacct"`
	Memory  string `json:"memory"`
}

// Dirs are the distinct directories.
func (p Paths) Dirs() []string {
	dirs := []string{p.CPU, p.CPUAcct, p.Memory}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
