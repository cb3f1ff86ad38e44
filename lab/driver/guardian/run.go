package guardian

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// cleanWithin bounds the clean-up after the lab's death: three times what one
// control group may take, and what a removal may. What is run again has longer.
const cleanWithin = 30*time.Second + removeWithin

// mostLine bounds a message, in bytes: a Command has an environment, which is a few megabytes at
// most.
const mostLine = 16 << 20

// Run is the guardian's program: it reads from in what to guard until it is
// told that all is done or in ends, and in the latter case cleans up. It says
// on out that it listens.
//
// The end of ctx does not end it, since it is there for the case that all else
// is told to end; only what it waits for ends it.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	if _, err := io.WriteString(out, readyLine); err != nil {
		return fmt.Errorf("guardian: say that it is ready: %w", err)
	}
	left := Left{ProcRoot: "/proc"}
	done, err := left.read(in)
	if done {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanWithin+left.again())
	defer cancel()
	if err := errors.Join(err, left.Clean(ctx)); err != nil {
		return fmt.Errorf("guardian: clean up after the lab: %w", err)
	}
	return nil
}

// read collects what in says to guard. It reports whether in said that all is
// done. A line that makes no sense is reported but does not end the reading:
// what the other lines say is still to be guarded.
func (l *Left) read(in io.Reader) (done bool, err error) {
	var errs []error
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, mostLine)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			errs = append(errs, fmt.Errorf("a message that is none (%.80q): %w", lines.Text(), err))
			continue
		}
		if m.Done {
			return true, errors.Join(errs...)
		}
		l.add(m)
	}
	return false, errors.Join(append(errs, lines.Err())...)
}

func (l *Left) add(m message) {
	if m.Cgroup != nil {
		l.Cgroups = append(l.Cgroups, *m.Cgroup)
	}
	// A group of 0 or 1 would be our own, or everyone's.
	if m.Group != nil && m.Group.PID > 1 {
		l.Groups = append(l.Groups, *m.Group)
	}
	if removable(m.Dir) {
		l.Dirs = append(l.Dirs, m.Dir)
	}
	if m.Mark != "" {
		l.Mark = m.Mark
	}
	if m.Remove != nil {
		l.Removals = append(l.Removals, *m.Remove)
	}
}
