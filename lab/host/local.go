package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/packets"
)

// Local is the machine that this program runs on.
type Local struct {
	targets func() []Target

	mu      sync.Mutex
	changed map[string]*cpuLimit // by the target's name
}

// NewLocal is this machine with some targets: always the same ones in the same
// order, each as it is now.
func NewLocal(targets func() []Target) *Local {
	return &Local{targets: targets, changed: map[string]*cpuLimit{}}
}

// Machine describes this machine.
func (l *Local) Machine() Machine {
	m, _ := This()
	return m
}

// Watch takes samples on a thread of its own, so that nothing else that this
// program does delays them. It is to be called from a goroutine of its own.
func (l *Local) Watch(ctx context.Context, every time.Duration, emit func(*Sample) error) (err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	stat, err := os.Open("/proc/stat")
	if err != nil {
		return fmt.Errorf("watch the machine: %w", err)
	}
	defer stat.Close() //nolint:errcheck // read only
	w := watcher{targets: l.targets, stat: stat, readers: map[string]*reader{}}
	defer func() { err = errors.Join(err, w.close()) }()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		s, err := w.sample()
		if err != nil {
			return err
		}
		if err := emit(s); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// errOwnNetworks is why it is not seen how long requests wait between targets.
var errOwnNetworks = errors.New("the instances have networks of their own, and only loopback is read")

// Hops emits how long requests between the targets wait, a slice of time after the other;
// see packets.Watch. It can be done where targets talk over this machine's loopback
// interface.
func (l *Local) Hops(ctx context.Context, emit func(*packets.Slice) error) error {
	if slices.ContainsFunc(l.targets(), func(t Target) bool { return t.OwnNetwork }) {
		return errOwnNetworks
	}
	processes := func() map[string][]int {
		ids := map[string][]int{}
		for _, t := range l.targets() {
			ids[t.Name] = t.ids("cgroup.procs", "cgroup.procs")
		}
		return ids
	}
	return packets.Watch(ctx, packets.Config{Processes: processes}, emit)
}

func (l *Local) target(name string) (Target, bool) { return find(l.targets(), name) }

func find(targets []Target, name string) (Target, bool) {
	i := slices.IndexFunc(targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		return Target{}, false
	}
	return targets[i], true
}

// watcher takes the samples of one Watch.
type watcher struct {
	targets func() []Target
	stat    *os.File // /proc/stat
	readers map[string]*reader
	looked  time.Time // when Slow was read last
}

func (w *watcher) sample() (*Sample, error) {
	targets := w.targets()
	s := &Sample{At: time.Now(), Instances: make([]Instance, len(targets))}
	for i, t := range targets {
		r := w.readers[t.Name]
		if r == nil {
			r = &reader{}
			w.readers[t.Name] = r
		}
		var err error
		if s.Instances[i], err = r.read(t, w.targets); err != nil {
			return nil, fmt.Errorf("watch %s: %w", t.Name, err)
		}
	}
	machine, err := machineCPU(w.stat)
	if err != nil {
		return nil, fmt.Errorf("watch the machine: %w", err)
	}
	s.MachineBusy, s.MachineTotal, s.Interrupts, s.Stolen = machine.busy, machine.total, machine.interrupts, machine.stolen
	if s.At.Sub(w.looked) >= slowInterval {
		w.looked, s.Slow = s.At, w.slow(targets)
	}
	s.Self, err = selfCPU()
	return s, err
}

func (w *watcher) close() error {
	var errs []error
	for _, r := range w.readers {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

func selfCPU() (time.Duration, error) {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return 0, fmt.Errorf("own CPU time: %w", err)
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), nil
}
