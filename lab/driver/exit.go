package driver

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

const (
	// TailBytes of the end of a log are kept in memory, for error messages and
	// for the end of a log that was cut.
	TailBytes = 4 << 10
	// TailLines of them go into an error message.
	TailLines = 15
	// ReasonWithin bounds the wait for the reason of an end: containerd tells it some
	// milliseconds before or after the end, on a busy machine seconds.
	ReasonWithin = 5 * time.Second
)

// ExitError is an instance that ended while it should run, or a job that ended
// badly.
type ExitError struct {
	Instance string
	Job      bool
	// Status is what ended it: "exited with status 3", "was killed by SIGSEGV".
	Status string
	// Memory is its limit in bytes if using that up is why the kernel killed
	// it; 0 if that is not why.
	Memory uint64
	// Why is what kept it from starting, and what to do about it, where that is known.
	Why string
	// Log are its last lines, LogFile the rest.
	Log     []string
	LogFile string
}

func (e *ExitError) Error() string {
	text := fmt.Sprintf("%s %s", e.Instance, e.Status)
	switch {
	case e.Memory > 0:
		text += fmt.Sprintf(", because it had used up its memory limit of %d MiB", e.Memory>>20)
	case e.Why != "":
		text += ": " + e.Why
	case !e.Job:
		text += " while it should run (a service that is meant to end needs another one that waits for it with `condition: service_completed_successfully`)"
	}
	return text + LastLines(e.Log, e.LogFile)
}

// Killed says whether SIGKILL ended it.
func (e *ExitError) Killed() bool { return e.Status == "was killed by SIGKILL" }

// Unexplained is Why where SIGKILL has ended what has a limit of its memory in bytes, and who
// runs it does not say more.
func Unexplained(who string, limit uint64) string {
	return fmt.Sprintf("%s does not say by whom; if nobody killed it, it had used up its memory limit of %d MiB", who, limit>>20)
}

// LastLines are the last lines of a log as the end of an error.
func LastLines(lines []string, file string) string {
	if len(lines) == 0 {
		return fmt.Sprintf("; it wrote nothing to its log (%s)", file)
	}
	const indent = "\n    "
	return fmt.Sprintf("; its last lines (of %s):%s%s", file, indent, strings.Join(lines, indent))
}

// Tail keeps the last bytes written to it.
type Tail struct{ buf []byte }

// Write has no error.
func (t *Tail) Write(p []byte) (int, error) {
	if len(p) >= TailBytes {
		t.buf = append(t.buf[:0], p[len(p)-TailBytes:]...)
		return len(p), nil
	}
	if over := len(t.buf) + len(p) - TailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return len(p), nil
}

// String is what was kept, without space around it.
func (t *Tail) String() string { return string(bytes.TrimSpace(t.buf)) }

// Lines are the last lines, the first of which may have lost its beginning.
func (t *Tail) Lines() []string {
	text := strings.TrimSpace(string(bytes.ToValidUTF8(t.buf, []byte("?"))))
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	return all[max(0, len(all)-TailLines):]
}

// LastLine is that of what a program said: where it says why it gave up.
func LastLine(said string) string {
	said = strings.TrimSpace(said)
	return strings.TrimSpace(said[strings.LastIndexByte(said, '\n')+1:])
}
