package runner

import (
	"sync"
	"time"

	"loadstone/lab/host"
)

// outsiders is Outsiders of all hosts.
func outsiders(hosts []host.Host) (since func() []host.Process) {
	var looks []func() []host.Process
	for _, h := range hosts {
		looks = append(looks, h.Outsiders())
	}
	return func() (all []host.Process) {
		for _, look := range looks {
			all = append(all, look()...)
		}
		return all
	}
}

// usage is the CPU time that instances had used when they were sampled last.
type usage struct {
	mu  sync.Mutex
	cpu map[string]reading // by instance
}

// reading is a counter with the moment at which it was read.
type reading struct {
	at  time.Time
	cpu time.Duration
}

func (u *usage) add(s *host.Sample) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cpu == nil {
		u.cpu = map[string]reading{}
	}
	for i := range s.Instances {
		u.cpu[s.Instances[i].Name] = reading{s.At, s.Instances[i].CPU}
	}
}

// of is the CPU time of some instances together, and when it was read.
func (u *usage) of(instances []string) reading {
	u.mu.Lock()
	defer u.mu.Unlock()
	var sum reading
	for _, name := range instances {
		r := u.cpu[name]
		sum.at, sum.cpu = r.at, sum.cpu+r.cpu
	}
	return sum
}
