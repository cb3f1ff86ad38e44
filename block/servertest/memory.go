package servertest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is the resident memory of the program's own process, in bytes.
func (p *Process) Memory() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text)) // the size, and what of it is resident, in pages
	if len(fields) < 2 {
		return 0, fmt.Errorf("process %d has no memory in statm", p.process.Pid)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}
