// Package host is a machine that instances run on: what it is, what they use of
// it, and the CPU that they may use. It reads /proc and control groups; package
// cgroup below it knows their files.
//
// It knows no driver: who starts instances says with Targets which processes they
// are, and owns both the processes and their groups. A Host only reads them, and
// restores every limit that it has changed. Local is the machine that this program
// runs on. Samples are counters as they were read; package probe turns them into
// figures for a span of time.
package host

import (
	"context"
	"errors"
	"time"

	"loadstone/lab/host/cgroup"
)

// ErrUnsupported is why the CPU of a target cannot be limited here.
var ErrUnsupported = errors.New("its CPU cannot be limited here")

// Host is a machine that instances run on. Its targets are given when it is made.
type Host interface {
	Machine() Machine
	// Watch emits a sample of all targets at once and then after every interval,
	// until ctx ends, and returns nil then. A target that cannot be read is an
	// error. Calls of emit do not overlap.
	Watch(ctx context.Context, every time.Duration, emit func(*Sample) error) error
	// Limit makes the CPU that a target may use factor times what it was; 1 restores
	// it. It returns when that is so. A target without a limit of its own can only
	// be slowed down. The error is ErrUnsupported where nothing can be changed,
	// which a factor of 1 finds out without changing anything.
	Limit(ctx context.Context, target string, factor float64) error
	// Outsiders begins to look at the processes that are neither a target's nor this
	// program's or started by it. The function that it returns says which of them used most
	// CPU since; none where that is not seen.
	Outsiders() (since func() []Process)
	// Close restores all limits.
	Close() error
}

// Target is an instance as its machine sees it now.
type Target struct {
	Name string // api-1
	// PID is the id of its first process; 0 while it is ended on purpose. Another
	// one than before is the instance started again.
	PID int
	// Cgroup is its control group. Without one (version 0) /proc is read, in steps
	// of 10 ms and for its first process only.
	Cgroup cgroup.Paths
	// OwnNetwork says whether it is alone in a network name space.
	OwnNetwork bool
}

// Sample is what every instance had used at one moment. All figures but
// Memory are counters that only grow; spans are differences.
type Sample struct {
	At        time.Time  `json:"t"`
	Instances []Instance `json:"i"`
	// MachineBusy and MachineTotal are CPU time over all cores: not idle, and
	// in all. Time that the hypervisor gave to others counts as busy.
	MachineBusy  time.Duration `json:"mb"`
	MachineTotal time.Duration `json:"mt"`
	// Interrupts and Stolen are parts of MachineBusy: what the kernel did for interrupts,
	// where it counts that apart, and the time that the hypervisor gave to others.
	Interrupts time.Duration `json:"irq,omitempty"`
	Stolen     time.Duration `json:"st,omitempty"`
	// Self is the CPU time of the process that watches.
	Self time.Duration `json:"self"`
	// Slow is nil in all samples but one a second.
	Slow *Slow `json:"slow,omitempty"`
}

// Instance is one instance in a Sample.
type Instance struct {
	Name      string        `json:"n"`
	CPU       time.Duration `json:"c"`
	User      time.Duration `json:"u"`
	System    time.Duration `json:"s"`
	Periods   uint64        `json:"p"`
	Throttled uint64        `json:"h"` // periods in which it was throttled
	Stalled   time.Duration `json:"w"` // how long it stood still for that
	Memory    uint64        `json:"m"` // bytes
	OOMKills  uint64        `json:"o,omitempty"`
}

// Add adds the counters of what it was before, or elsewhere.
func (in *Instance) Add(earlier *Instance) {
	in.CPU += earlier.CPU
	in.User += earlier.User
	in.System += earlier.System
	in.Periods += earlier.Periods
	in.Throttled += earlier.Throttled
	in.Stalled += earlier.Stalled
	in.OOMKills += earlier.OOMKills
}

// Between is a + f·(b−a) for every counter of two samples of the same instances; what is read once
// a second is left out.
func Between(a, b *Sample, f float64) Sample {
	out := Sample{
		At:           a.At.Add(lerp(0, b.At.Sub(a.At), f)),
		MachineBusy:  lerp(a.MachineBusy, b.MachineBusy, f),
		MachineTotal: lerp(a.MachineTotal, b.MachineTotal, f),
		Interrupts:   lerp(a.Interrupts, b.Interrupts, f),
		Stolen:       lerp(a.Stolen, b.Stolen, f),
		Self:         lerp(a.Self, b.Self, f),
		Instances:    make([]Instance, len(a.Instances)),
	}
	for i, x := range a.Instances {
		y := b.Instances[i]
		out.Instances[i] = Instance{
			Name: x.Name, CPU: lerp(x.CPU, y.CPU, f), User: lerp(x.User, y.User, f), System: lerp(x.System, y.System, f),
			Periods: lerp(x.Periods, y.Periods, f), Throttled: lerp(x.Throttled, y.Throttled, f), Stalled: lerp(x.Stalled, y.Stalled, f),
			Memory: x.Memory, OOMKills: x.OOMKills,
		}
	}
	return out
}

func lerp[T ~int64 | ~uint64](a, b T, f float64) T {
	return a + T(f*float64(b-a))
}
