package servertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of processor time in /proc: USER_HZ, 100 a second on every
// Linux that Go runs on.
const tick = 10 * time.Millisecond

// CPU is the processor time that the program has used so far, with its children,
// those that have ended included.
func (p *Process) CPU() (time.Duration, error) {
	children, err := p.children()
	if err != nil {
		return 0, err
	}
	// Its own and that of its ended children.
	total, err := ticks(p.process.Pid, true)
	if err != nil {
		return 0, err
	}
	for _, pid := range children {
		own, err := ticks(pid, false)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // ended since, before or after the file was opened; the parent has it next time
		}
		if err != nil {
			return 0, err
		}
		total += own
	}
	return total, nil
}

// ticks reads user and system time of a process, and of its ended children.
func ticks(pid int, ended bool) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold anything; what follows is numbers, the
	// first of them field 3 (proc(5)).
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	fields := strings.Fields(rest)
	const utime, stime, cutime, cstime = 14 - 3, 15 - 3, 16 - 3, 17 - 3
	wanted := []int{utime, stime}
	if ended {
		wanted = append(wanted, cutime, cstime)
	}
	if len(fields) <= cstime {
		return 0, fmt.Errorf("process %d has only %d fields in stat", pid, len(fields))
	}
	total := time.Duration(0)
	for _, field := range wanted {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}
