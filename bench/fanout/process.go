package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpuOf is the CPU time that a process and its children have used, in seconds, from ticks of
// 10 ms.
func cpuOf(pid int) (float64, error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	total := time.Duration(0)
	for _, one := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
		text, err := os.ReadFile("/proc/" + one + "/stat")
		if err != nil {
			return 0, err
		}
		// The name, in parentheses, may hold anything; utime and stime are the 12th and 13th behind it (proc(5)).
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		const utime, stime, tick = 11, 12, 10 * time.Millisecond
		user, err1 := strconv.ParseInt(fields[utime], 10, 64)
		system, err2 := strconv.ParseInt(fields[stime], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		total += time.Duration(user+system) * tick
	}
	return total.Seconds(), nil
}
