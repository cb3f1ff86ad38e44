package probe

import (
	"slices"
	"time"

	"loadstone/lab/host"
)

// Usage is what one instance used over a span of time.
type Usage struct {
	CPU       time.Duration
	User      time.Duration
	System    time.Duration
	Periods   float64
	Throttled float64 // periods
	Memory    uint64  // the most seen in the span, bytes
	OOMKills  uint64
	// The rest is known to within a second's reading; it is 0 where the kernel
	// does not tell. See host.SlowInstance.
	RunDelay time.Duration
	// Busiest is the part of what its threads ran that the busiest of them did, each
	// second: 1 where one thread does everything; 0 if it is not known.
	Busiest     float64
	MemoryStall time.Duration
	MemoryFails float64
	MajorFaults float64
	DiskRead    float64 // bytes
	DiskWritten float64
}

// Span is what was used from one moment to another.
type Span struct {
	Instances map[string]Usage
	// MachineBusy is the share of all cores that was in use, 0 to 1.
	MachineBusy float64
	// Outside is what the machine did for nobody in Instances, nor for watching, in
	// cores: other processes, the load generator, and time given to other guests.
	Outside float64
	// Interrupts and Stolen are of it what the kernel did for interrupts, those of the load's
	// own packets included, and what the hypervisor gave to others.
	Interrupts float64
	Stolen     float64
	// Self is what watching cost, in cores.
	Self float64
	// ListenOverflows are of all instances together, in each second of the span.
	ListenOverflows float64
}

// Over works out what was used between from and to. Counters between two
// samples are taken to have grown evenly. ok is false if the samples do not
// cover the span to within one sample's distance.
func Over(samples []host.Sample, from, to time.Time) (Span, bool) {
	a, okA := at(samples, from)
	b, okB := at(samples, to)
	if !okA || !okB || !to.After(from) {
		return Span{}, false
	}
	span := Span{Instances: make(map[string]Usage, len(b.Instances))}
	for i, end := range b.Instances {
		start := a.Instances[i]
		span.Instances[end.Name] = Usage{
			CPU: end.CPU - start.CPU, User: end.User - start.User, System: end.System - start.System,
			Periods: float64(end.Periods - start.Periods), Throttled: float64(end.Throttled - start.Throttled),
			Memory:   mostMemory(samples, end.Name, from, to),
			OOMKills: end.OOMKills - start.OOMKills,
		}
	}
	busy := b.MachineBusy - a.MachineBusy
	if total := b.MachineTotal - a.MachineTotal; total > 0 {
		span.MachineBusy = float64(busy) / float64(total)
	}
	length := float64(to.Sub(from))
	span.Self = float64(b.Self-a.Self) / length
	for _, u := range span.Instances {
		busy -= u.CPU
	}
	span.Outside = max(0, float64(busy)/length-span.Self)
	span.Interrupts, span.Stolen = float64(b.Interrupts-a.Interrupts)/length, float64(b.Stolen-a.Stolen)/length
	span.slow(samples, from, to)
	return span, true
}

// slow adds what was read once a second: growth between the two readings that
// lie around the span, or nearest to its ends, brought to the span's length.
func (span *Span) slow(samples []host.Sample, from, to time.Time) {
	var a, b *host.Sample
	for i := range samples {
		s := &samples[i]
		if s.Slow == nil {
			continue
		}
		if a == nil || !s.At.After(from) {
			a = s
		}
		if b == nil || b.At.Before(to) {
			b = s
		}
	}
	if a == nil || !b.At.After(a.At) {
		return
	}
	seconds := b.At.Sub(a.At).Seconds()
	by := to.Sub(from).Seconds() / seconds
	for i, in := range b.Instances {
		if i >= len(a.Slow.Instances) || i >= len(b.Slow.Instances) {
			return
		}
		x, y, u := a.Slow.Instances[i], b.Slow.Instances[i], span.Instances[in.Name]
		u.RunDelay = time.Duration(by * float64(y.RunDelay-x.RunDelay))
		if ran := y.Ran - x.Ran; ran > 0 {
			u.Busiest = min(1, float64(y.Busiest-x.Busiest)/float64(ran))
		}
		u.MemoryStall = time.Duration(by * float64(y.MemoryStall-x.MemoryStall))
		u.MemoryFails, u.MajorFaults = by*grew(x.MemoryFails, y.MemoryFails), by*grew(x.MajorFaults, y.MajorFaults)
		u.DiskRead, u.DiskWritten = by*grew(x.DiskRead, y.DiskRead), by*grew(x.DiskWritten, y.DiskWritten)
		span.Instances[in.Name] = u
	}
	span.ListenOverflows = grew(a.Slow.ListenOverflows, b.Slow.ListenOverflows) / seconds
}

// grew is b−a, and 0 for a counter that could not be read the second time.
func grew(a, b uint64) float64 {
	if b < a {
		return 0
	}
	return float64(b - a)
}

// slack is how far outside the samples a moment may lie and still be taken as
// the nearest one: a few sampling intervals, as a busy machine samples late.
const slack = 500 * time.Millisecond

// at is the sample at a moment, interpolated between its neighbours.
func at(samples []host.Sample, t time.Time) (host.Sample, bool) {
	if len(samples) == 0 {
		return host.Sample{}, false
	}
	i, exact := slices.BinarySearchFunc(samples, t, func(s host.Sample, t time.Time) int { return s.At.Compare(t) })
	switch {
	case exact:
		return samples[i], true
	case i == 0:
		return samples[0], samples[0].At.Sub(t) <= slack
	case i == len(samples):
		return samples[i-1], t.Sub(samples[i-1].At) <= slack
	}
	a, b := samples[i-1], samples[i]
	f := float64(t.Sub(a.At)) / float64(b.At.Sub(a.At))
	return host.Between(&a, &b, f), true
}

func mostMemory(samples []host.Sample, name string, from, to time.Time) uint64 {
	var most uint64
	for _, s := range samples {
		if s.At.Before(from) || s.At.After(to) {
			continue
		}
		for _, in := range s.Instances {
			if in.Name == name {
				most = max(most, in.Memory)
			}
		}
	}
	return most
}
