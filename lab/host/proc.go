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
)

// tick is the unit of CPU time in /proc: USER_HZ is 100 on every architecture
// that Go runs Linux on.
const tick = 10 * time.Millisecond

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
		spent := time.Duration(v) * tick
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
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Instance{}, err
	}
	return parseProcess(string(text))
}

// gone says whether a process or a control group could not be read because it is
// no more.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENODEV)
}

// parseProcess takes the text of /proc/PID/stat. The command's name, in
// parentheses, may hold anything, so fields are counted from the last one.
func parseProcess(text string) (Instance, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	const utime, stime, rss = 14 - 3, 15 - 3, 24 - 3 // fields as proc(5) counts them
	if len(fields) <= rss {
		return Instance{}, fmt.Errorf("unexpected text in /proc/PID/stat: %q", text)
	}
	var v [3]int64
	for i, at := range []int{utime, stime, rss} {
		var err error
		if v[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return Instance{}, fmt.Errorf("/proc/PID/stat: %w", err)
		}
	}
	in := Instance{User: time.Duration(v[0]) * tick, System: time.Duration(v[1]) * tick}
	in.CPU = in.User + in.System
	in.Memory = uint64(max(v[2], 0)) * uint64(os.Getpagesize())
	return in, nil
}
