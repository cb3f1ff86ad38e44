package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loadstone/lab/host/procstat"
)

// cpuTimes are the CPU times of all cores: in use, in all, and of the former those of
// interrupts and those that the hypervisor gave to others.
type cpuTimes struct{ busy, total, interrupts, stolen time.Duration }

// machineCPU reads the first line of /proc/stat from f: the CPU time of all
// cores, by what it was spent on (proc(5)).
func machineCPU(f *os.File) (cpuTimes, error) {
	buf := make([]byte, 256)
	n, err := f.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return cpuTimes{}, err
	}
	line, _, _ := bytes.Cut(buf[:n], []byte("\n"))
	return parseMachine(string(line))
}

// parseMachine takes "cpu user nice system idle iowait irq softirq steal …".
// Guest time is part of user time already.
func parseMachine(line string) (t cpuTimes, err error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return t, fmt.Errorf("/proc/stat starts with %q; expected the line of all cores", line)
	}
	for i, f := range fields[1:9] {
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return t, fmt.Errorf("/proc/stat: %w", err)
		}
		spent := time.Duration(v) * procstat.Tick
		t.total += spent
		switch i {
		case 3, 4: // idle
			continue
		case 5, 6:
			t.interrupts += spent
		case 7:
			t.stolen += spent
		}
		t.busy += spent
	}
	return t, nil
}

// ReadProcess reads what a process used, where no control group tells.
func ReadProcess(pid int) (Instance, error) {
	s, err := procstat.Read("/proc", pid)
	if err != nil {
		return Instance{}, err
	}
	return Instance{CPU: s.User + s.System, User: s.User, System: s.System, Memory: uint64(max(s.Resident, 0)) * uint64(os.Getpagesize())}, nil
}

// gone says whether a process or a control group could not be read because it is
// no more.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}
