package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"loadstone/lab/host/cgroup"
)

// slowInterval is the time between two looks at what takes many small reads: a
// file per thread. 500 threads cost about 3 ms a second.
const slowInterval = time.Second

// mostThreads bounds how many threads of one instance are looked at.
const mostThreads = 512

// Slow is what is read once a second: counters that only grow. Where the kernel
// does not tell, they are 0: everything here is evidence beside the CPU, and a
// system is not refused for lacking it.
type Slow struct {
	Instances []SlowInstance `json:"i"`
	// Of the lab's network namespace and of the instances' own, so of all instances together:
	// connections that a full backlog turned away and segments sent again; and bytes sent over
	// loopback, of the lab's alone.
	ListenOverflows uint64 `json:"lo"`
	Retransmits     uint64 `json:"tr"`
	Loopback        uint64 `json:"nb"`
}

// SlowInstance is one instance in a Slow.
type SlowInstance struct {
	// RunDelay is how long its threads were ready to run and did not, summed
	// over threads (schedstat). Time out of quota is part of it.
	RunDelay time.Duration `json:"rd"`
	// Ran is how long its threads ran, summed over threads, and Busiest the same of the
	// one that ran longest since the look before, added up over looks: as much as Ran
	// where one thread does everything.
	Ran     time.Duration `json:"rn,omitempty"`
	Busiest time.Duration `json:"rb,omitempty"`
	// MemoryStall is how long some of it waited for memory (PSI, control groups
	// version 2); MemoryFails how often it ran into its limit (version 1).
	MemoryStall time.Duration `json:"ms,omitempty"`
	MemoryFails uint64        `json:"mf,omitempty"`
	MajorFaults uint64        `json:"f,omitempty"`
	DiskRead    uint64        `json:"dr,omitempty"` // bytes
	DiskWritten uint64        `json:"dw,omitempty"`
	// Received and Sent are the bytes that it got from others and sent to them, with the
	// headers of their packets, where it has a network of its own.
	Received uint64 `json:"nr,omitempty"`
	Sent     uint64 `json:"ns,omitempty"`
	// Partial is true if it had more threads than are looked at.
	Partial bool `json:"partial,omitempty"`
}

// Add adds what it used elsewhere.
func (s *SlowInstance) Add(elsewhere SlowInstance) {
	s.RunDelay += elsewhere.RunDelay
	s.Ran += elsewhere.Ran
	s.Busiest += elsewhere.Busiest
	s.MemoryStall += elsewhere.MemoryStall
	s.MemoryFails += elsewhere.MemoryFails
	s.MajorFaults += elsewhere.MajorFaults
	s.DiskRead += elsewhere.DiskRead
	s.DiskWritten += elsewhere.DiskWritten
	s.Received += elsewhere.Received
	s.Sent += elsewhere.Sent
	s.Partial = s.Partial || elsewhere.Partial
}

// slowReader reads one target's.
type slowReader struct {
	delay, ran  growth
	busiest     uint64
	read, wrote growth
	received    uint64
	sent        uint64
	overflows   uint64 // of a network of its own, as are the three around it
	retransmits uint64
}

// growth adds up counters of threads or processes that come and go: what one
// that is gone had counted stays.
type growth struct {
	sum  uint64
	last map[int]uint64
}

// see takes over the counters as they are now, by id. One that fell is another
// thread of the same id.
func (g *growth) see(now map[int]uint64) uint64 {
	for id, n := range now {
		if was := g.last[id]; n >= was {
			g.sum += n - was
		} else {
			g.sum += n
		}
	}
	g.last = now
	return g.sum
}

// most is the most that one counter grew since they were seen last; 0 the first time.
func (g *growth) most(now map[int]uint64) (most uint64) {
	for id, n := range now {
		if was := g.last[id]; n >= was && g.last != nil {
			most = max(most, n-was)
		}
	}
	return most
}

func (r *slowReader) look(t Target) SlowInstance {
	var out SlowInstance
	threads := t.ids("tasks", "cgroup.threads")
	if len(threads) > mostThreads {
		threads, out.Partial = threads[:mostThreads], true
	}
	delays, ran := make(map[int]uint64, len(threads)), make(map[int]uint64, len(threads))
	for _, id := range threads {
		if run, wait, ok := schedTimes(text(fmt.Sprintf("/proc/%d/schedstat", id))); ok {
			ran[id], delays[id] = run, wait
		}
	}
	out.RunDelay = time.Duration(r.delay.see(delays))
	r.busiest += r.ran.most(ran)
	out.Ran, out.Busiest = time.Duration(r.ran.see(ran)), time.Duration(r.busiest)
	if t.Cgroup.Version != 0 {
		out.memory(t.Cgroup)
	}
	r.disk(t, &out)
	if t.OwnNetwork && t.PID != 0 {
		// The network outlives the process, and counts on.
		if received, sent, ok := traffic(text(fmt.Sprintf("/proc/%d/net/dev", t.PID)), "eth0"); ok {
			r.received, r.sent = received, sent
		}
		r.overflows = max(r.overflows, overflows(text(fmt.Sprintf("/proc/%d/net/netstat", t.PID))))
		r.retransmits = max(r.retransmits, retransmits(text(fmt.Sprintf("/proc/%d/net/snmp", t.PID))))
	}
	out.Received, out.Sent = r.received, r.sent
	return out
}

// ids are the threads or processes of the target: from a file of its group (of
// version 1, version 2), or else from its process.
func (t *Target) ids(v1, v2 string) []int {
	if t.Cgroup.Version == 0 {
		if t.PID == 0 || v1 != "tasks" {
			return []int{t.PID}
		}
		return numbers(names(fmt.Sprintf("/proc/%d/task", t.PID)))
	}
	file := v1
	if t.Cgroup.Version == 2 {
		file = v2
	}
	return numbers(strings.Fields(text(filepath.Join(t.Cgroup.CPU, file))))
}

func (s *SlowInstance) memory(p cgroup.Paths) {
	s.MajorFaults = field(text(filepath.Join(p.Memory, "memory.stat")), "pgmajfault")
	if p.Version == 2 {
		s.MemoryStall = pressure(text(filepath.Join(p.Memory, "memory.pressure")))
		return
	}
	s.MemoryFails, _ = strconv.ParseUint(strings.TrimSpace(text(filepath.Join(p.Memory, "memory.failcnt"))), 10, 64)
}

// disk reads io.stat where the group has it, which counts what has ended too,
// and else what each process says of itself.
func (r *slowReader) disk(t Target, s *SlowInstance) {
	if t.Cgroup.Version == 2 {
		for pair := range strings.FieldsSeq(text(filepath.Join(t.Cgroup.CPU, "io.stat"))) {
			key, value, _ := strings.Cut(pair, "=")
			n, err := strconv.ParseUint(value, 10, 64)
			switch {
			case err != nil: // a device, or an empty line
			case key == "rbytes":
				s.DiskRead += n
			case key == "wbytes":
				s.DiskWritten += n
			}
		}
		return
	}
	read, wrote := map[int]uint64{}, map[int]uint64{}
	ids := t.ids("cgroup.procs", "cgroup.procs")
	for _, id := range ids[:min(len(ids), mostThreads)] {
		if io := text(fmt.Sprintf("/proc/%d/io", id)); io != "" {
			read[id], wrote[id] = field(io, "read_bytes:"), field(io, "write_bytes:")
		}
	}
	s.DiskRead, s.DiskWritten = r.read.see(read), r.wrote.see(wrote)
}

func (w *watcher) slow(targets []Target) *Slow {
	s := &Slow{Instances: make([]SlowInstance, len(targets))}
	s.ListenOverflows, s.Retransmits = overflows(text("/proc/net/netstat")), retransmits(text("/proc/net/snmp"))
	for i, t := range targets {
		r := &w.readers[t.Name].slow
		s.Instances[i] = r.look(t)
		s.ListenOverflows += r.overflows
		s.Retransmits += r.retransmits
	}
	_, s.Loopback, _ = traffic(text("/proc/net/dev"), "lo")
	return s
}

// schedTimes takes "ran waited timeslices", times in nanoseconds.
func schedTimes(line string) (ran, waited uint64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return 0, 0, false
	}
	ran, errRan := strconv.ParseUint(fields[0], 10, 64)
	waited, errWaited := strconv.ParseUint(fields[1], 10, 64)
	return ran, waited, errRan == nil && errWaited == nil
}

// pressure takes the "some" line of a PSI file: its total, in microseconds.
func pressure(psi string) time.Duration {
	line, _, _ := strings.Cut(psi, "\n")
	_, total, ok := strings.Cut(line, "total=")
	n, err := strconv.ParseUint(strings.TrimSpace(total), 10, 64)
	if !ok || !strings.HasPrefix(line, "some ") || err != nil {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// field is the number after a key that begins a line; 0 if there is none.
func field(lines, key string) uint64 {
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == key {
			n, _ := strconv.ParseUint(f[1], 10, 64) // 0 for what is no number
			return n
		}
	}
	return 0
}

func overflows(netstat string) uint64 { return column(netstat, "TcpExt:", "ListenOverflows") }
func retransmits(snmp string) uint64  { return column(snmp, "Tcp:", "RetransSegs") }

// column is a number of /proc/net/netstat or snmp: a line of names after a
// prefix, and a line of numbers after the same one.
func column(lines, prefix, name string) uint64 {
	var header []string
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] != prefix {
			continue
		}
		if header == nil {
			header = f
			continue
		}
		for i := range min(len(header), len(f)) {
			if header[i] == name {
				n, _ := strconv.ParseUint(f[i], 10, 64)
				return n
			}
		}
	}
	return 0
}

// traffic is what the line of a link in /proc/net/dev has as bytes received and sent.
func traffic(lines, link string) (received, sent uint64, ok bool) {
	for line := range strings.Lines(lines) {
		if rest, found := strings.CutPrefix(strings.TrimSpace(line), link+":"); found {
			if f := strings.Fields(rest); len(f) > 8 {
				received, errReceived := strconv.ParseUint(f[0], 10, 64)
				sent, errSent := strconv.ParseUint(f[8], 10, 64)
				return received, sent, errReceived == nil && errSent == nil
			}
		}
	}
	return 0, 0, false
}

// text is a file's text, empty where it cannot be read: a thread may have ended,
// and not every kernel has every file.
func text(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(data)
}

func names(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // the process has ended
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = e.Name()
	}
	return out
}

func numbers(words []string) []int {
	out := make([]int, 0, len(words))
	for _, w := range words {
		if n, err := strconv.Atoi(w); err == nil {
			out = append(out, n)
		}
	}
	return out
}
